import dataclasses
from pathlib import Path

import pytest
import torch
from helpers.commands import failure, names
from helpers.fixtures import FIXTURES
from safetensors.torch import load_file

from condvae import weights
from condvae.cli import main
from condvae.observe import Boxes


def test_export_changes_only_the_precision(models: Path) -> None:
    main(["export", "faces64", "--out", "half.safetensors", "--weight-bits", "16"])
    main(["export", "half.safetensors", "-o", "full.safetensors"])
    before, half = (load_file(path) for path in (models / "faces64.safetensors", "half.safetensors"))
    assert {tensor.dtype for tensor in half.values()} == {torch.float16}
    assert all(torch.equal(before[name].half(), tensor) for name, tensor in half.items())
    assert {tensor.dtype for tensor in load_file("full.safetensors").values()} == {torch.float32}
    told = [weights.describe(name) for name in ("faces64", "half.safetensors", "full.safetensors")]
    assert [header.bits for header in told] == [32, 16, 32]
    assert told[0] == dataclasses.replace(told[1], bits=32) == told[2]
    assert told[0].process == Boxes()


@pytest.mark.usefixtures("models")
def test_no_file_is_replaced(capsys: pytest.CaptureFixture[str]) -> None:
    """Not even a model file: it may have cost days of training."""
    main(["export", "faces64", "-o", "m.safetensors"])
    Path("text.safetensors").write_text("mine")
    Path("link.safetensors").symlink_to("nowhere")
    for name in ("m", "text", "link"):
        path = Path(f"{name}.safetensors")
        before = path.read_bytes() if path.exists() else None
        message = failure(capsys, "export", "faces64", "--out", path, "--weight-bits", "16")
        assert f"{path} already exists: give --out another name, or remove it first" in message
        assert (path.read_bytes() if path.exists() else None) == before
    checkpoint = FIXTURES / "parity" / "tiny8" / "official_ipa.th"
    assert "m.safetensors already exists" in failure(capsys, "import", checkpoint, "--out", "m.safetensors")


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
