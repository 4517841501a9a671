import json
import os
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from helpers.models import generator, images, small_conditional, small_vae, some_known
from helpers.processes import started
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from condvae import objectives
from condvae.conditional import ConditionalVAE
from condvae.vdvae import VDVAE, preset
from condvae.vdvae.blocks import Block
from condvae.weights import describe, load, load_vae, save
from condvae.weights.sealed_file import _digest


def rewrite(
    path: Path, *, metadata: dict[str, str] | None = None, weights: dict[str, torch.Tensor] | None = None
) -> None:
    """Change the contents of a file and update its checksum, as another program could."""
    with safe_open(path, framework="pt") as file:
        changed = {**file.metadata(), **(metadata or {})}
    weights = weights if weights is not None else load_file(path)
    save_file(weights, path, {**changed, "sha256": _digest(changed["model"], weights)})


@pytest.mark.parametrize("form", ["direct", "relative"])
def test_a_conditional_model_is_unchanged_after_saving_and_loading(tmp_path: Path, form: str) -> None:
    model = small_conditional(form=form)
    save(model, tmp_path / "model.safetensors", record={"steps": 7})
    loaded = load(tmp_path / "model.safetensors")
    assert isinstance(loaded, ConditionalVAE)
    assert (loaded.partial_config, loaded.artifact.config) == (model.partial_config, model.artifact.config)
    x = images(2)
    observation = model.observe(x, some_known(2))
    before, after = (objectives.forward(m, x, observation, noise=generator()).nats for m in (model, loaded))
    assert torch.equal(before, after)
    assert not any(parameter.requires_grad for parameter in loaded.artifact.parameters())
    assert all(parameter.requires_grad for parameter in loaded.partial.parameters())
    assert describe(tmp_path / "model.safetensors").record == {"steps": 7}


def test_the_vae_of_a_conditional_model_is_its_artifact(tmp_path: Path) -> None:
    model = small_conditional()
    save(model, tmp_path / "model.safetensors")
    save(model.artifact, tmp_path / "vae.safetensors")
    for name in ("model", "vae"):
        vae = load_vae(tmp_path / f"{name}.safetensors")
        assert isinstance(vae, VDVAE) and vae.config == model.artifact.config
        assert all(torch.equal(a, b) for a, b in zip(vae.parameters(), model.artifact.parameters(), strict=True))


def test_half_precision_halves_the_file_and_loads_as_float32(tmp_path: Path) -> None:
    vae = small_vae()
    save(vae, tmp_path / "full.safetensors")
    save(vae, tmp_path / "half.safetensors", bits=16)
    weights = {name: (tmp_path / f"{name}.safetensors").stat().st_size for name in ("full", "half")}
    parameters = sum(parameter.numel() for parameter in vae.parameters())
    assert weights["full"] - weights["half"] == pytest.approx(2 * parameters, rel=0.01)
    loaded = load(tmp_path / "half.safetensors")
    assert isinstance(loaded, VDVAE)
    for a, b in zip(vae.parameters(), loaded.parameters(), strict=True):
        assert b.dtype == torch.float32
        torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-6)


def test_weights_too_large_for_half_precision_are_rejected_without_leaving_a_file(tmp_path: Path) -> None:
    vae = small_vae()
    vae.decoder.gain.data.fill_(1e6)
    with pytest.raises(ValueError, match=r"decoder\.gain contains weights that are too large"):
        save(vae, tmp_path / "model.safetensors", bits=16)
    assert list(tmp_path.iterdir()) == []


def test_unusable_models_are_not_saved(tmp_path: Path) -> None:
    vae = small_vae()
    save(vae, tmp_path / "model.safetensors")
    vae.decoder.gain.data[0, 0] = torch.nan
    with pytest.raises(ValueError, match=r"decoder\.gain contains NaN"):
        save(vae, tmp_path / "model.safetensors")
    assert isinstance(load(tmp_path / "model.safetensors"), VDVAE)
    with pytest.raises(ValueError, match="cannot save a Conv2d"):
        save(torch.nn.Conv2d(1, 1, 1), tmp_path / "model.safetensors")  # type: ignore[arg-type]


def test_compiled_models_and_models_with_shared_weights_are_saved(tmp_path: Path) -> None:
    vae = small_vae()
    save(torch.compile(vae, backend="eager"), tmp_path / "compiled.safetensors")  # type: ignore[arg-type]
    assert isinstance(load(tmp_path / "compiled.safetensors"), VDVAE)
    vae.decoder.bias.data = vae.decoder.gain.data
    save(vae, tmp_path / "shared.safetensors")
    assert isinstance(load(tmp_path / "shared.safetensors"), VDVAE)


def test_a_failed_save_keeps_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "model.safetensors"
    save(small_vae(seed=0), path)
    before = path.read_bytes()

    def full_disk(*_: object) -> None:
        raise OSError("No space left on device")

    monkeypatch.setattr(os, "fsync", full_disk)
    with pytest.raises(OSError, match="No space"):
        save(small_vae(seed=1), path)
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["model.safetensors"]


def test_a_killed_writer_leaves_a_complete_file(tmp_path: Path) -> None:
    """While a process saves in a loop, and after it is killed, the file can be loaded."""
    path = tmp_path / "model.safetensors"
    program = tmp_path / "writer.py"
    program.write_text(
        "import sys, itertools; from condvae import VDVAE, preset, save\n"
        "vae = VDVAE(preset('demo32'))\n"
        "for i in itertools.count(): save(vae, sys.argv[1], record={'i': i})"
    )
    with started(program, path, said=tmp_path / "said") as writer:
        while not path.exists():
            assert writer.is_alive()
            time.sleep(0.01)
        for _ in range(20):
            load(path)
    assert isinstance(load(path), VDVAE)


def test_damaged_and_foreign_files_give_one_clear_error(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    save(small_vae(), path)
    whole = path.read_bytes()
    for content in (b"", b"hello", whole[:7], whole[:100], whole[: len(whole) // 2], whole[:-1], b"\0" * 1000):
        path.write_bytes(content)
        with pytest.raises(ValueError, match=r"not a complete \.safetensors file"):
            load(path)
    huge = replace(preset("tiny").stages[0], width=2**31 - 1)
    config = replace(preset("tiny"), stages=(huge, *preset("tiny").stages[1:]))
    save(small_vae(), path)
    rewrite(path, metadata={"model": json.dumps({"config": config.to_dict(), "partial": None, "record": {}})})
    with pytest.raises(ValueError, match=r"too large to build|the wrong shape"):
        load(path)
    save_file({"a": torch.zeros(1)}, path)
    with pytest.raises(ValueError, match="that condvae did not write"):
        load(path)
    with pytest.raises(ValueError, match="does not exist"):
        load(tmp_path / "none.safetensors")
    with pytest.raises(ValueError, match="that condvae did not write"):
        load(tmp_path)  # a folder means the model.safetensors in it
    path.unlink()
    with pytest.raises(ValueError, match=r"is a folder"):
        load(tmp_path)


def test_any_changed_byte_is_detected(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    save(small_vae(), path)
    whole = path.read_bytes()
    for position in range(0, len(whole), len(whole) // 97):
        path.write_bytes(whole[:position] + bytes([whole[position] ^ 16]) + whole[position + 1 :])
        with pytest.raises(ValueError, match=str(path)):
            load(path)


def test_train_artifact_loads_a_model_for_further_training(tmp_path: Path) -> None:
    save(small_conditional(), tmp_path / "model.safetensors")
    model = load(tmp_path / "model.safetensors", train_artifact=True)
    assert isinstance(model, ConditionalVAE)
    assert model.trains_artifact
    assert all(parameter.requires_grad for parameter in model.parameters())


def test_unsupported_descriptions_are_rejected(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    save(small_vae(), path)
    rewrite(path, metadata={"format_version": "5"})
    with pytest.raises(ValueError, match=r"format version 5, but this version of condvae reads only .* 1 to 4"):
        load(path)
    header = {"config": {**small_vae().config.to_dict(), "colour": 1}, "partial": None, "record": {}}
    rewrite(path, metadata={"format_version": "1", "model": json.dumps(header)})
    with pytest.raises(ValueError, match="unknown key in network config: colour"):
        load(path)
    for description in (
        "{",
        "[1]",
        "null",
        "{}",
        "[" * 100_000,
        '{"config": {"stages": [1]}, "partial": null, "record": {}}',
    ):
        rewrite(path, metadata={"model": description})
        for read in (load, describe):
            with pytest.raises(ValueError, match="does not describe a model"):
                read(path)


def test_missing_surplus_misshapen_and_broken_weights_are_named(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    save(small_vae(), path)
    weights = load_file(path)
    gain = weights["decoder.gain"]
    for change, message in (
        ({"decoder.gain": None}, "lacks weights that the network needs: decoder.gain"),
        ({"decoder.extra": gain.clone()}, "does not have: decoder.extra"),
        ({"decoder.gain": gain[:, :3].clone()}, r"decoder.gain is \(1, 3, 1, 1\)"),
        ({"decoder.gain": gain * torch.nan}, "NaN or infinite weights: decoder.gain"),
        ({"decoder.gain": gain.int()}, "not floating-point numbers: decoder.gain"),
    ):
        changed = {name: tensor for name, tensor in {**weights, **change}.items() if tensor is not None}
        rewrite(path, weights=changed)
        with pytest.raises(ValueError, match=message):
            load(path)


def test_loading_uses_no_random_numbers(tmp_path: Path) -> None:
    config = replace(preset("tiny"), latent_channels=3)
    save(VDVAE(config), tmp_path / "model.safetensors")
    torch.manual_seed(0)
    load(tmp_path / "model.safetensors")
    after = torch.rand(1)
    torch.manual_seed(0)
    assert torch.equal(after, torch.rand(1))


@pytest.mark.parametrize("conditional", [False, True])
def test_a_config_that_its_tensors_do_not_fit_is_refused_before_building(tmp_path: Path, conditional: bool) -> None:
    path = tmp_path / "model.safetensors"
    save(small_conditional() if conditional else small_vae(), path)
    with safe_open(path, framework="pt") as file:
        plain = json.loads(file.metadata()["model"])
    start = time.monotonic()
    for key, count, words in (
        ("decoder_blocks", 10**7, r"the network has 10,000,0\d\d blocks, expected at most 2,000"),
        ("encoder_blocks", 10**7, "blocks, expected at most 2,000"),
        ("decoder_blocks", 1500, r"network of [\d,]+ blocks, which has at least [\d,]+ tensors, but contains"),
        ("encoder_blocks", 1500, r"network of [\d,]+ blocks, which has at least [\d,]+ tensors, but contains"),
        ("resolution", 2**40, "expected a power of two"),
    ):
        changed = json.loads(json.dumps(plain))
        changed["config"]["stages"][0][key] = count
        rewrite(path, metadata={"model": json.dumps(changed)})
        for read in (load, describe):
            with pytest.raises(ValueError, match=words):
                read(path)
    assert time.monotonic() - start < 2  # building 1,500 blocks takes longer


def test_the_blocks_of_a_config_are_those_of_its_network() -> None:
    for model in (small_vae(), small_conditional()):
        vae = model.artifact if isinstance(model, ConditionalVAE) else model
        named = [name for name, module in vae.named_modules() if isinstance(module, Block)]
        inside_latent_blocks = [name for name in named if name.endswith(".residual")]
        assert len(named) - len(inside_latent_blocks) == vae.config.blocks
        assert sum(name.startswith("encoder.") for name in named) == vae.config.encoder_blocks


def test_long_values_of_a_file_are_cut_in_messages(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    save(small_vae(), path)
    for metadata in (
        {"format_version": "9" * 10**7},
        {"format": "condvae \x1b[2J" + "x" * 10**6},
        {"model": "[" * 10**5},
        {"model": '{"config": {"' + "x" * 10**6 + '\x07": 1}, "partial": null, "record": {}}'},
        {"model": '{"config": {"stages": "' + "x" * 10**6 + '"}, "partial": null, "record": {}}'},
    ):
        save(small_vae(), path)
        rewrite(path, metadata=metadata)
        with pytest.raises(ValueError, match=r"model\.safetensors") as refused:
            load(path)
        assert len(str(refused.value)) < 600 and str(refused.value).isprintable()


def test_a_file_is_read_with_one_thread_because_others_would_wait(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = small_conditional()
    save(model, tmp_path / "model.safetensors", bits=8, packed=True)
    threads = []

    def finite(tensor: torch.Tensor, isfinite: Callable[..., torch.Tensor] = torch.isfinite) -> torch.Tensor:
        threads.append(torch.get_num_threads())
        return isfinite(tensor)

    monkeypatch.setattr(torch, "isfinite", finite)  # called for the scales of the file, and for the model's weights
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        load(tmp_path / "model.safetensors")
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)
    assert set(threads) == {1} and len(threads) > len(model.state_dict())
