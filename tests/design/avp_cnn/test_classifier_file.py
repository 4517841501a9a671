import os
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import pytest
import torch
from helpers.models import images, randomise, small_vae, some_known

from condvae import weights
from condvae.design.avp_cnn import classifier_file, classifier_names
from condvae.design.avp_cnn.classifier_file import (
    describe_classifier,
    load_classifier,
    locate_classifier,
    save_classifier,
)
from condvae.design.avp_cnn.network import AVPCNN, ClassifierConfig
from condvae.observe import Patches
from condvae.weights import sealed_file

CONFIG = ClassifierConfig(size=16, channels=1, names=("Mass", "any finding"), trunk="lite0", stages=2, head=8)


@pytest.fixture
def model() -> AVPCNN:
    torch.manual_seed(0)
    made = AVPCNN(CONFIG)
    randomise(made, 0, scale=0.05)
    made.gain.copy_(torch.tensor([1.5, 0.7]))
    return made.eval()


def test_a_saved_classifier_is_restored(model: AVPCNN, tmp_path: Path) -> None:
    path = tmp_path / "new" / "g.safetensors"
    record = {"data": "some", "seed": 3, "validation": {"1": {"auroc": None}}}
    pixels, known = images(3, size=16, channels=1), some_known(3, size=16)
    expected = model.log_posterior(pixels, known)
    allowed: dict[Literal[32, 16], float] = {32: 0.0, 16: 0.01}
    for bits, closeness in allowed.items():
        save_classifier(model, path, process=Patches(side=0.25), bits=bits, record=record)
        header, found = describe_classifier(path), load_classifier(path, precision="exact")
        assert (header.config, header.process, header.record) == (CONFIG, Patches(side=0.25), record)
        assert header.parameters == sum(tensor.numel() for tensor in model.state_dict().values())
        assert not found.training and found.precision == "exact"
        torch.testing.assert_close(found.log_posterior(pixels, known), expected, rtol=0, atol=closeness)
        assert torch.equal(found.gain, model.gain)
    _, tensors = sealed_file.read(path, kind=classifier_file.KIND)
    kinds = {name: tensor.dtype for name, tensor in tensors.items()}
    assert kinds["trunk.stem.conv.weight"] == torch.float16
    assert kinds["trunk.stem.norm.running_var"] == torch.float32  # variances may overflow half precision
    packed = path.stat().st_size
    save_classifier(model, path, packed=False)
    assert packed < path.stat().st_size
    assert describe_classifier(path).process is None and describe_classifier(path).record == {}


def test_a_loaded_classifier_can_be_trained_and_saved_again(model: AVPCNN, tmp_path: Path) -> None:
    save_classifier(model, tmp_path / "a.safetensors", bits=32)
    found = load_classifier(tmp_path / "a.safetensors")
    assert all(parameter.requires_grad for parameter in found.parameters())
    save_classifier(found, tmp_path / "b.safetensors", bits=32)
    again = load_classifier(tmp_path / "b.safetensors").state_dict()
    assert all(torch.equal(again[name], tensor) for name, tensor in model.state_dict().items())


def test_other_files_give_a_clear_error(model: AVPCNN, tmp_path: Path) -> None:
    path = tmp_path / "g.safetensors"
    save_classifier(model, path)
    whole = path.read_bytes()
    for content in (b"", b"hello", whole[:100], whole[:-1]):
        path.write_bytes(content)
        with pytest.raises(ValueError, match=r"not a complete \.safetensors file"):
            load_classifier(path)
    path.write_bytes(whole[:-4] + b"\1\1\1\1")
    with pytest.raises(ValueError, match="does not match its checksum"):
        load_classifier(path)
    weights.save(small_vae(), path)
    with pytest.raises(ValueError, match="is a model file from condvae train"):
        load_classifier(path)
    save_classifier(model, path)
    with pytest.raises(ValueError, match="is a classifier file from condvae design train"):
        weights.load(path)


def test_the_weights_must_match_the_description(model: AVPCNN, tmp_path: Path) -> None:
    path = tmp_path / "g.safetensors"
    state = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    plain = {"config": CONFIG.to_dict(), "process": None, "record": {}}

    def write(description: Any = plain, **changed: torch.Tensor | None) -> None:
        tensors = {name: tensor for name, tensor in {**state, **changed}.items() if tensor is not None}
        sealed_file.write(path, kind=classifier_file.KIND, description=description, tensors=tensors)

    write()
    load_classifier(path)
    for changed, message in (
        ({"gain": None}, "lacks weights that the network needs: gain"),
        ({"more": torch.zeros(1)}, "does not have: more"),
        ({"gain": torch.ones(3)}, r"gain is \(3,\)"),
        ({"gain": torch.ones(2, dtype=torch.int64)}, "not floating-point numbers: gain"),
        ({"gain": torch.full((2,), float("nan"))}, "NaN or infinite weights: gain"),
    ):
        write(**changed)
        with pytest.raises(ValueError, match=message):
            load_classifier(path)
    descriptions: list[Any] = [
        {**plain, "config": {**CONFIG.to_dict(), "depth": 3}},
        {**plain, "process": {"name": "peeking"}},
        {"config": CONFIG.to_dict()},
        [],
    ]
    for wrong in descriptions:
        write(wrong)
        with pytest.raises(ValueError, match="does not describe a classifier that this condvae can read"):
            load_classifier(path)
    write({**plain, "config": replace(CONFIG, head=2**31 - 1).to_dict()})
    with pytest.raises(ValueError, match=r"too large to build|the wrong shape"):
        load_classifier(path)


def test_a_failed_write_leaves_the_old_file(model: AVPCNN, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "g.safetensors"
    save_classifier(model, path)
    before = path.read_bytes()

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", interrupted)
        with pytest.raises(KeyboardInterrupt):
            save_classifier(model, path, bits=32)
    with torch.no_grad():
        model.last.weight[0, 0] = 1e6
    with pytest.raises(ValueError, match=r"last\.weight contains weights that are too large for half precision"):
        save_classifier(model, path)
    with torch.no_grad():
        model.last.weight[0, 0] = float("nan")
    with pytest.raises(ValueError, match=r"last\.weight contains NaN"):
        save_classifier(model, path)
    assert path.read_bytes() == before and list(tmp_path.iterdir()) == [path]


def test_embedded_classifiers_are_found_by_name(model: AVPCNN, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(classifier_names, "CLASSIFIERS", tmp_path / "ours")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match=r"unknown classifier 'xray': .*no classifiers are embedded here"):
        load_classifier("xray")
    for name in ("xray", "digits"):
        save_classifier(model, tmp_path / "ours" / f"{name}.safetensors", record={"name": name})
    assert classifier_names.embedded_classifiers() == ["digits", "xray"]
    assert describe_classifier("xray").record == {"name": "xray"}
    with pytest.raises(ValueError, match=r"did you mean xray\? .*the embedded classifiers are digits, xray"):
        locate_classifier("xrays")
    with pytest.raises(ValueError, match=r"g\.safetensors does not exist"):
        locate_classifier("g.safetensors")
    with pytest.raises(ValueError, match="ours is a folder"):
        locate_classifier("ours")
    save_classifier(model, tmp_path / "xray", record={"name": "mine"})  # an existing path takes precedence
    assert describe_classifier("xray").record == {"name": "mine"}


def test_a_config_that_its_tensors_do_not_fit_is_refused_before_building(tmp_path: Path) -> None:
    path = tmp_path / "classifier.safetensors"
    small = replace(CONFIG, trunk="plain", widths=(2,), blocks=1)
    save_classifier(AVPCNN(small), path, packed=False)
    plain, tensors = sealed_file.read(path, kind=classifier_file.KIND)
    for changes, words in (
        ({"blocks": 900}, "describes a network of 900 blocks, which has at least 9,000 tensors, but contains"),
        ({"blocks": 10**7}, "expected a list for at most 1,000 blocks in all"),
        ({"widths": [1] * 1001}, "expected a list for at most 1,000 blocks in all"),
        ({"widths": 3}, "widths is 3"),
        ({"names": "x" * 10**6}, "names is 'xxx"),
    ):
        description = {**plain, "config": {**plain["config"], **changes}}
        sealed_file.write(path, kind=classifier_file.KIND, description=description, tensors=tensors)
        for read in (load_classifier, describe_classifier):
            with pytest.raises(ValueError, match=words) as refused:
                read(path)
            assert len(str(refused.value)) < 500
