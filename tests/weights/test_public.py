import contextlib
import functools
import pickle
import re
import shutil
from pathlib import Path

import pytest
import torch
from helpers import parity
from helpers.fixtures import FIXTURES
from torch import Tensor

from condvae.conditional import ConditionalVAE
from condvae.likelihood import LogisticMixture
from condvae.vdvae import VDVAE, Normalisation, preset
from condvae.weights import import_public, load, save
from condvae.weights.public import LayerStrings, _parse_decoder, _parse_encoder, _recognise

CASES = sorted((FIXTURES / "parity").iterdir())
TINY = next(case for case in CASES if case.name == "tiny8")
LAYERS = LayerStrings(
    encoder="8x2,8d2,4x1,4d4,1x1", decoder="1x1,4m1,4x1,8m4,8x2", bits=8, normalisation=Normalisation()
)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_every_quantity_of_the_public_release_is_reproduced(case: Path) -> None:
    errors = parity.errors(case)
    assert len(errors) > 15
    assert {name: error for name, error in errors.items() if error > parity.TOLERANCE} == {}


def test_the_parity_script_detects_a_wrong_weight(tmp_path: Path) -> None:
    case = Path(shutil.copytree(TINY, tmp_path / "case"))
    state = torch.load(case / "official_ipa.th", weights_only=True)
    state["part_encoder.in_conv.bias"] += 0.01
    torch.save(state, case / "official_ipa.th")
    errors = parity.errors(case)
    wrong = {name for name, error in errors.items() if error > parity.TOLERANCE}
    assert {"forward.kl_per_group", "reverse.kl_per_group", "conditional_sample_t0.85.px_z"} <= wrong
    assert not any(name.startswith("elbo") for name in wrong)


@pytest.mark.parametrize("prefix", ["", "module."])
@pytest.mark.parametrize("zipped", [True, False])
def test_prefix_and_container_do_not_matter(tmp_path: Path, prefix: str, zipped: bool) -> None:
    state = torch.load(TINY / "official_ipa.th", weights_only=True)
    torch.save(
        {prefix + name: tensor for name, tensor in state.items()},
        tmp_path / "model.th",
        _use_new_zipfile_serialization=zipped,
    )
    model = import_public(tmp_path / "model.th", LAYERS)
    assert isinstance(model, ConditionalVAE)
    assert torch.equal(model.partial.pyramid.input.weight, state["part_encoder.in_conv.weight"])


def test_half_precision_checkpoints_become_float32(tmp_path: Path) -> None:
    state = torch.load(TINY / "official_ipa.th", weights_only=True)
    torch.save({name: tensor.half() for name, tensor in state.items()}, tmp_path / "model.th")
    model = import_public(tmp_path / "model.th", LAYERS)
    assert {parameter.dtype for parameter in model.parameters()} == {torch.float32}
    assert {str(parameter.device) for parameter in model.parameters()} == {"cpu"}


def test_partial_blocks_without_a_partial_encoder_are_optional_and_not_imported(tmp_path: Path) -> None:
    assert isinstance(import_public(TINY / "official_vdvae.th", LAYERS), VDVAE)
    state = torch.load(TINY / "official_vdvae.th", weights_only=True)
    torch.save({n: t for n, t in state.items() if ".part_enc." not in n}, tmp_path / "vdvae.th")
    assert isinstance(import_public(tmp_path / "vdvae.th", LAYERS), VDVAE)


def test_imported_models_can_be_saved_and_loaded(tmp_path: Path) -> None:
    model = import_public(TINY / "official_ipa.th", LAYERS)
    save(model, tmp_path / "model.safetensors")
    loaded = load(tmp_path / "model.safetensors")
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), loaded.parameters(), strict=True))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"encoder.in_conv.bias": None}, "lacks weights that the network needs: artifact.encoder.pyramid.input.bias"),
        ({"part_encoder.in_conv.bias": None}, "network needs: partial.pyramid.input.bias"),
        ({"decoder.dec_blocks.3.part_enc.c4.bias": None}, "network needs: partial.heads.3.c4.bias"),
        ({"decoder.dec_blocks.0.enc.c5.weight": torch.zeros(1)}, "unknown names: decoder.dec_blocks.0.enc.c5.weight"),
        ({"optimizer": torch.zeros(1)}, "unknown names: optimizer"),
        ({"decoder.bias_xs.3": torch.zeros(1, 16, 8, 8)}, "unknown names: decoder.bias_xs.3"),
        ({"decoder.dec_blocks.9.z_proj.bias": torch.zeros(1)}, "does not have: artifact.decoder.blocks.9"),
        ({"decoder.gain": torch.zeros(1, 15, 1, 1)}, r"decoder.gain is \(1, 15, 1, 1\)"),
        ({"decoder.gain": torch.full((1, 16, 1, 1), torch.nan)}, "NaN or infinite weights"),
        ({"decoder.bias_xs.2": None}, "network needs: artifact.decoder.starts.8"),
        ({"module.decoder.gain": torch.zeros(1, 16, 1, 1)}, "twice, with and without the prefix"),
        ({"decoder.bias_xs.00": torch.zeros(1, 16, 1, 1)}, "unknown names: decoder.bias_xs.00"),
        ({"encoder.in_conv.weight": torch.zeros(16)}, "expected four dimensions"),
        ({"decoder.gain": torch.zeros(1, 16, 1, 1).to_sparse()}, "sparse or have no values: decoder.gain"),
        ({"decoder.gain": torch.zeros(1, 16, 1, 1, dtype=torch.int64)}, "not floating-point numbers"),
        ({"step": 3}, "entries that are not tensors: step"),
    ],
)
def test_every_key_is_accounted_for(tmp_path: Path, change: dict[str, Tensor | None], message: str) -> None:
    state = {**torch.load(TINY / "official_ipa.th", weights_only=True), **change}
    torch.save({name: tensor for name, tensor in state.items() if tensor is not None}, tmp_path / "model.th")
    with pytest.raises(ValueError, match=message):
        import_public(tmp_path / "model.th", LAYERS)


class Trap:
    """A hostile object in a checkpoint: unpickling it would write a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, tuple[str, str]]:
        return open, (str(self.path), "w")


def test_code_in_a_checkpoint_is_never_run(tmp_path: Path) -> None:
    sprung = tmp_path / "sprung"
    torch.save({"encoder.in_conv.weight": Trap(sprung)}, tmp_path / "zip.th")
    (tmp_path / "pickle.th").write_bytes(pickle.dumps(Trap(sprung)))
    for name in ("zip.th", "pickle.th"):
        with pytest.raises(ValueError, match="contains code, which is never run"):
            import_public(tmp_path / name, LAYERS)
    assert not sprung.exists()


def test_a_changed_byte_raises_no_error_except_value_error(tmp_path: Path) -> None:
    """A file with a changed byte either loads, since .th files have no checksum, or raises ValueError."""
    whole = (TINY / "official_ipa.th").read_bytes()
    path = tmp_path / "model.th"
    for position in range(0, len(whole), len(whole) // 61):
        path.write_bytes(whole[:position] + bytes([whole[position] ^ 77]) + whole[position + 1 :])
        with contextlib.suppress(ValueError):
            import_public(path, LAYERS)


def test_damaged_and_foreign_files_give_one_clear_error(tmp_path: Path) -> None:
    path = tmp_path / "model.th"
    whole = (TINY / "official_ipa.th").read_bytes()
    for content in (b"", b"hello", whole[:1000], whole[: len(whole) // 2], whole[:-100]):
        path.write_bytes(content)
        with pytest.raises(ValueError, match="not a checkpoint of plain tensors"):
            import_public(path, LAYERS)
    torch.save([1, 2], path)
    with pytest.raises(ValueError, match="contains a list"):
        import_public(path, LAYERS)
    torch.save({"a": torch.zeros(1)}, path)
    with pytest.raises(ValueError, match=r"lacks the weights encoder\.in_conv\.weight"):
        import_public(path)
    with pytest.raises(ValueError, match="does not exist"):
        import_public(tmp_path / "none.th")


one_of_each = functools.cache(VDVAE)
"""Cached, because building a large network takes a second even without weights, and no test changes one."""


@pytest.fixture
def _large_networks_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("condvae.weights.public.VDVAE", one_of_each)


def public_shapes(name: str) -> dict[str, Tensor]:
    """Return the tensors of a public checkpoint of this network under the public names, on the meta device."""
    config = preset(name)
    with torch.device("meta"):
        ours = one_of_each(config).state_dict()
    names = {
        r"encoder\.pyramid\.input": "encoder.in_conv",
        r"encoder\.pyramid\.blocks": "encoder.enc_blocks",
        r"encoder\.heads\.(\d+)": r"decoder.dec_blocks.\1.enc",
        r"decoder\.blocks": "decoder.dec_blocks",
        r"\.projection": ".z_proj",
        r"\.residual": ".resnet",
        r"decoder\.output": "decoder.out_net.out_conv",
    }
    for position, stage in enumerate(config.decoder_stages):
        names[rf"decoder\.starts\.{stage.resolution}$"] = f"decoder.bias_xs.{position}"
    theirs = {}
    for key, tensor in ours.items():
        for pattern, replacement in names.items():
            key = re.sub(pattern, replacement, key)
        theirs[key] = tensor
    return theirs


@pytest.mark.usefixtures("_large_networks_once")
@pytest.mark.parametrize("name", ["cifar10", "imagenet32", "imagenet64", "ffhq1024"])
def test_a_public_network_is_recognised_by_its_shapes(name: str) -> None:
    assert _recognise(public_shapes(name), origin="it") == preset(name)


@pytest.mark.usefixtures("_large_networks_once")
def test_a_network_that_shapes_do_not_identify_is_an_error() -> None:
    with pytest.raises(ValueError, match="the presets ffhq256 and xray256 have weights of these shapes"):
        _recognise(public_shapes("ffhq256"), origin="it")
    with pytest.raises(ValueError, match=r"no preset has weights of these shapes.*name a preset"):
        import_public(TINY / "official_ipa.th")
    with pytest.raises(ValueError, match="unknown preset 'cifar'"):
        import_public(TINY / "official_ipa.th", "cifar")


def test_shapes_complete_the_layer_strings() -> None:
    wide = next(case for case in CASES if case.name == "wide16")
    layers = LayerStrings(
        encoder="16x1,16d2,8x1,8d2,4x1,4d4,1x1",
        decoder="1x2,4m1,8m4,8x1,16m8",
        bits=5,
        normalisation=Normalisation(),
        largest_bias=4,
    )
    model = import_public(wide / "official_vdvae.th", layers)
    assert isinstance(model, VDVAE)
    config = model.config
    assert [(s.resolution, s.width, s.inner) for s in config.stages] == [
        (16, 12, 6),
        (8, 16, 8),
        (4, 20, 10),
        (1, 20, 10),
    ]
    assert config.latent_channels == 3
    assert config.likelihood == LogisticMixture(components=2, bits=5)


def test_layer_strings_are_parsed() -> None:
    assert _parse_encoder("8x2,8d2,4d4,1x1") == {8: 3, 4: 1, 1: 1}
    assert _parse_encoder("8x2, 8d2, 4d4") == {8: 3, 4: 1, 1: 0}
    assert _parse_decoder("1x2,4m1,8m4,8x3") == {1: 2, 4: 1, 8: 4}


@pytest.mark.parametrize(
    ("parse", "text", "message"),
    [
        (_parse_encoder, "8y2", "'8y2' is not a layer"),
        (_parse_encoder, "", "'' is not a layer"),
        (_parse_encoder, "8x2,4x1", "has a layer at resolution 4, expected resolution 8"),
        (_parse_encoder, "8d3", "pools resolution 8 by 3"),
        (_parse_decoder, "1x1,4x2", "starts resolution 4 without mixing in 1"),
        (_parse_decoder, "1x1,4m2", "mixes resolution 2 into 4"),
        (_parse_decoder, "1x1,4m1,4m1", "mixes resolution 1 into 4"),
    ],
)
def test_wrong_layer_strings_are_explained(parse: object, text: str, message: str) -> None:
    assert callable(parse)
    with pytest.raises(ValueError, match=message):
        parse(text)


def test_layer_strings_of_another_network_are_rejected() -> None:
    other = LayerStrings(encoder="8x2,8d2,4x1,4d4,1x1", decoder="1x1,2m1,8m2", bits=8, normalisation=Normalisation())
    with pytest.raises(ValueError, match=r"resolutions \[2\], which the encoder string does not have"):
        import_public(TINY / "official_vdvae.th", other)
    fewer = LayerStrings(encoder="8x1,8d2,4x1,4d4,1x1", decoder=LAYERS.decoder, bits=8, normalisation=Normalisation())
    with pytest.raises(ValueError, match=r"does not have: encoder\.pyramid\.blocks\.5"):
        import_public(TINY / "official_vdvae.th", fewer)
