import os
from pathlib import Path

import pytest
import torch
from helpers.commands import failure, names
from helpers.fixtures import FIXTURES
from safetensors.torch import load_file, save_file

from condvae import weights
from condvae.cli import main
from condvae.observe import Boxes
from condvae.weights import sealed_file


def test_export_changes_only_the_precision(models: Path) -> None:
    main(["export", "faces64", "--out", "half.safetensors", "--half-precision"])
    main(["export", "half.safetensors", "-o", "full.safetensors"])
    before, half = (load_file(path) for path in (models / "faces64.safetensors", "half.safetensors"))
    assert {tensor.dtype for tensor in half.values()} == {torch.float16}
    assert all(torch.equal(before[name].half(), tensor) for name, tensor in half.items())
    assert {tensor.dtype for tensor in load_file("full.safetensors").values()} == {torch.float32}
    told = [weights.describe(name) for name in ("faces64", "half.safetensors", "full.safetensors")]
    assert told[0] == told[1] == told[2]
    assert told[0].process == Boxes()


@pytest.mark.usefixtures("models")
def test_only_a_model_file_is_replaced(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    main(["export", "faces64", "-o", "m.safetensors"])
    main(["export", "faces64", "-o", "m.safetensors", "--half-precision"])
    assert weights.describe("m.safetensors").record["steps"] == 7
    Path(".m.safetensors.1-0123abcd.part").write_bytes(b"left by a killed process")
    os.utime(".m.safetensors.1-0123abcd.part", (0, 0))
    main(["export", "faces64", "-o", "m.safetensors"])
    assert names(".") == ["m.safetensors"]
    save_file({"mine": torch.zeros(1)}, "mine.safetensors")
    Path("text.safetensors").write_text("mine")
    Path("link.safetensors").symlink_to("nowhere")
    sealed_file.write(Path("checkpoint.safetensors"), kind=sealed_file.CHECKPOINT, description={}, tensors={})
    monkeypatch.setattr(weights, "load", lambda *given: pytest.fail("the model was loaded"))
    for out in ("mine", "text", "link", "checkpoint"):
        path = Path(f"{out}.safetensors")
        before = path.read_bytes() if path.exists() else None
        message = failure(capsys, "export", "faces64", "--out", path)
        assert f"{path} already exists and is not a model file of condvae: give --out another name" in message
        assert (path.read_bytes() if path.exists() else None) == before
    checkpoint = FIXTURES / "parity" / "tiny8" / "official_ipa.th"
    assert "is not a model file of condvae" in failure(capsys, "import", checkpoint, "--out", "text.safetensors")


@pytest.mark.usefixtures("models")
def test_bad_input_is_one_sentence_and_leaves_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    Path("folder.safetensors").mkdir()
    for model, out, message in (
        ("faces64", "folder.safetensors", "folder.safetensors is a folder"),
        ("faces64", "out.th", "out.th does not end in .safetensors"),
        ("face", "out.safetensors", "unknown model 'face'"),
    ):
        assert message in failure(capsys, "export", model, "--out", out)
        assert names(".") == ["folder.safetensors"]
