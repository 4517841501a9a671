"""Model files of learned baselines: they keep everything, damaged ones are refused, and VAE verbs decline them."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
import torch
from helpers.baseline_models import CONFIGS, baseline_file, small_baseline
from helpers.commands import failure, names
from helpers.models import images, some_known
from helpers.pictures_to_complete import photo
from helpers.training import assert_same_model, few_faces
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor

import condvae
from condvae.cli import main
from condvae.completers.learned_completer import LearnedCompleter
from condvae.completers.learned_names import LEARNED_TITLES
from condvae.observe import Boxes, Halves
from condvae.weights import describe, load, load_conditional, load_vae, save
from condvae.weights.sealed_file import _digest

NO_VAE = "which is no VAE and cannot do this: give a VAE"


def completions(model: LearnedCompleter) -> Tensor:
    return model.complete(model.observe(images(2, size=16), some_known(2, size=16)), 5, seed=1)


def rewrite(path: Path, weights: dict[str, Tensor] | None = None, **changes: Any) -> None:
    """Change the weights or the configuration in a file and update its checksum, as another program could."""
    with safe_open(path, framework="pt") as file:
        metadata = file.metadata()
    plain = json.loads(metadata["model"])
    text, tensors = json.dumps({**plain, "baseline": plain["baseline"] | changes}), weights or load_file(path)
    save_file(tensors, path, {**metadata, "model": text, "sha256": _digest(text, tensors)})


@pytest.mark.parametrize("kind", CONFIGS)
def test_a_file_keeps_the_network_the_process_and_the_record(tmp_path: Path, kind: str) -> None:
    model = small_baseline(kind)
    model.process = Halves()
    save(model, tmp_path / "model.safetensors", record={"steps": 7})
    before = torch.random.get_rng_state()
    loaded = load(tmp_path / "model.safetensors")
    assert torch.equal(torch.random.get_rng_state(), before)
    assert isinstance(loaded, LearnedCompleter) and type(loaded) is type(model)
    assert (loaded.config, loaded.process, loaded.training) == (model.config, Halves(), False)
    assert loaded.identity == model.identity
    assert torch.equal(completions(loaded), completions(model))
    assert all(parameter.requires_grad for parameter in loaded.parameters())
    header = describe(tmp_path / "model.safetensors")
    assert (header.config, header.partial, header.process) == (model.config, None, Halves())
    assert (header.record, header.kind) == ({"steps": 7}, f"baseline, {LEARNED_TITLES[kind]}")
    assert header.parameters == sum(value.numel() for value in model.state_dict().values())
    assert condvae.from_pretrained(tmp_path / "model.safetensors").state_dict().keys() == model.state_dict().keys()
    model.process = None
    save(model, tmp_path / "plain.safetensors")
    assert describe(tmp_path / "plain.safetensors").process is None


@pytest.mark.parametrize("kind", CONFIGS)
def test_half_precision_and_packing_change_pixels_little(tmp_path: Path, kind: str) -> None:
    model = small_baseline(kind)
    loaded = {}
    for name in ("half", "packed"):
        save(model, tmp_path / f"{name}.safetensors", bits=16, packed=name == "packed")
        loaded[name] = load(tmp_path / f"{name}.safetensors")
        assert {value.dtype for value in loaded[name].state_dict().values()} == {torch.float32}
    assert {value.dtype for value in load_file(tmp_path / "half.safetensors").values()} == {torch.float16}
    half, packed = loaded["half"], loaded["packed"]
    assert isinstance(half, LearnedCompleter) and isinstance(packed, LearnedCompleter)
    assert half.identity == packed.identity != model.identity
    assert int((completions(half).int() - completions(model).int()).abs().max()) <= 8


def test_a_damaged_or_foreign_file_is_refused_in_one_sentence(tmp_path: Path) -> None:
    path = baseline_file(tmp_path, "ce")
    whole, weights = path.read_bytes(), load_file(path)
    first = next(iter(weights))
    nan = {**weights, first: weights[first] * torch.nan}
    cases: list[tuple[dict[str, Tensor] | None, dict[str, Any], str]] = [
        ({name: value for name, value in weights.items() if name != first}, {}, f"lacks weights .* needs: {first}"),
        ({**weights, "extra": torch.zeros(1)}, {}, "contains weights that the network does not have: extra"),
        ({**weights, first: weights[first][:1].clone()}, {}, f"contains weights of the wrong shape: {first} is"),
        ({**weights, first: weights[first].long()}, {}, f"contains .* not floating-point numbers: {first}"),
        (nan, {}, f"contains NaN or infinite weights: {first}"),
        (None, {"bottleneck": 13}, r"contains weights of the wrong shape: .*expected \(13,"),
        (None, {"bottleneck": 2**31 - 1}, "describes a network that is too large to build|the wrong shape"),
        (None, {"kind": "gan"}, "does not describe a model .*: the kind of the baseline is 'gan', expected 'ce' or"),
        (None, {"kind": "rfr"}, "does not describe a model .*: unknown key in configuration of rfr: adversarial"),
        (None, {"width": "wide"}, "does not describe a model .*: the width is 'wide', expected a whole number"),
        (None, {"adversarial": None}, "does not describe a model .*: the adversarial weight is None, expected"),
    ]
    for changed, changes, message in cases:
        path.write_bytes(whole)
        rewrite(path, changed, **changes)
        with pytest.raises(ValueError, match=rf"^{path} {message}.*$"):
            load(path)
    for content in (whole[:-1], whole[: len(whole) // 2], b""):
        path.write_bytes(content)
        with pytest.raises(ValueError, match=r"not a complete \.safetensors file"):
            load(path)
    path.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    with pytest.raises(ValueError, match="does not match its checksum"):
        load(path)


def test_weights_that_are_not_finite_are_not_saved(tmp_path: Path) -> None:
    model = small_baseline("ce")
    for name, value in list(model.named_buffers())[1:]:
        if name.endswith("running_var"):
            value.fill_(torch.inf)
            break
    with pytest.raises(ValueError, match=f"{name} contains NaN or infinite weights: no file was written"):
        save(model, tmp_path / "model.safetensors")
    assert not names(tmp_path)


@pytest.mark.parametrize("kind", CONFIGS)
def test_python_functions_for_vaes_decline_a_baseline(tmp_path: Path, kind: str) -> None:
    path = baseline_file(tmp_path, kind)
    for function in (load_conditional, load_vae):
        with pytest.raises(ValueError, match=rf"^{path} is a baseline \({LEARNED_TITLES[kind]}\), {NO_VAE}$"):
            function(path)


def test_verbs_for_vaes_decline_a_baseline_and_write_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    model, picture = baseline_file(Path(), "ce").name, photo(Path("photo.png")).name
    trained = ("--data", str(few_faces()), "--size", "16", "--steps", "1", "--out", "out", "--device", "cpu")
    before = names(tmp_path)
    for verb, words in (
        ("sample", ("--model", model, "--out", "out")),
        ("reconstruct", (picture, "--model", model, "--out", "out")),
        ("ood score", (picture, "--model", model, "--out", "out.json")),
        ("ood fit", ("--model", model, "--data", str(few_faces()), "--out", "out.safetensors", "--device", "cpu")),
        ("train", ("--artifact", model, *trained)),
        ("train", ("--init", model, *trained)),
        ("train", ("--init", model, "--observe", "boxes", *trained)),
        ("pretrain", ("--init", model, *trained)),
        ("design scan", (picture, "--model", model, "--out", "out")),
    ):
        said = failure(capsys, *verb.split(), *words, "--quiet")
        given = f"--init {model}" if verb == "train" and words[0] == "--init" else model
        assert said == f"condvae: {given} is a baseline (Context Encoder), {NO_VAE}"
        assert names(tmp_path) == before


@pytest.mark.parametrize("kind", CONFIGS)
def test_info_and_export_describe_and_copy_a_baseline(
    tmp_path: Path, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = baseline_file(tmp_path, kind)
    main(["info", str(path)])
    printed = " ".join(capsys.readouterr().out.split())
    assert printed.startswith(f"{path}: baseline, {LEARNED_TITLES[kind]} its images colour, 16 x 16 pixels")
    for fact in (f"weights {describe(path).parameters:,} ", "observes boxes", "minutes 1.5", "give it a photo, and"):
        assert fact in printed
    assert "artifact" not in printed and "its use" not in printed
    main(["info", str(path), "--json"])
    plain = json.loads(capsys.readouterr().out)
    assert plain["config"] == {"image_size": 16, "channels": 3, **plain["config"], **CONFIGS[kind]}
    assert plain["process"]["name"] == "boxes" and plain["record"] == {"minutes": 1.5, "data": "faces"}
    main(["export", str(path), "--out", str(tmp_path / "half.safetensors"), "--weight-bits", "16"])
    main(["export", str(path), "--out", str(tmp_path / "same.safetensors")])
    assert dataclasses.replace(describe(tmp_path / "half.safetensors"), bits=32) == describe(path)
    assert describe(tmp_path / "same.safetensors") == describe(path)
    assert_same_model(tmp_path / "same.safetensors", path)
    assert (tmp_path / "half.safetensors").stat().st_size < path.stat().st_size


def test_a_shared_folder_has_a_card_and_loads(tmp_path: Path) -> None:
    model = small_baseline("pic")
    model.process = Boxes()
    folder = condvae.save_pretrained(model, tmp_path / "rival", record={"data": "faces"})
    card = (folder / "README.md").read_text()
    header = card.split("---")[1].split()
    assert "image-completion" in header and "vae" not in header and "image-generation" not in header
    expected = ("# rival", "A baseline, Pluralistic Image Completion: it completes images, for comparisons.", "boxes")
    for fact in (*expected, "3 channels, 16 x 16 pixels", "faces", f"{describe(folder).parameters:,}"):
        assert fact in card
    assert "latent groups" not in card and "likelihood" not in card and "None" not in card
    loaded = condvae.from_pretrained(folder)
    assert isinstance(loaded, LearnedCompleter) and torch.equal(completions(loaded), completions(model))
    again = condvae.save_pretrained(folder / "model.safetensors", tmp_path / "again", bits=16)
    assert dataclasses.replace(describe(again), bits=32) == describe(folder)
