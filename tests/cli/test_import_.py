import json
from pathlib import Path

import pytest
from helpers.commands import failure
from helpers.fixtures import FIXTURES

from condvae.cli import main

PARITY = FIXTURES / "parity"
TINY_LAYERS = ["--encoder", "8x2,8d2,4x1,4d4,1x1", "--decoder", "1x1,4m1,4x1,8m4,8x2"]
TINY_LAYERS += ["--bits", "8", "--shift", "-120.63838", "--scale", "0.015584247193588766"]


def test_a_checkpoint_is_imported_and_described(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "deep" / "model.safetensors"
    main(["import", str(PARITY / "tiny8" / "official_ipa.th"), "--out", str(out), *TINY_LAYERS])
    assert capsys.readouterr().out == f"wrote {out}\n"
    main(["info", str(out)])
    text = capsys.readouterr().out
    assert "conditional VAE" in text
    assert "colour, 8 x 8 pixels" in text
    assert "latent groups   6: 1 of 1 x 1, 2 of 4 x 4, 3 of 8 x 8" in text
    assert "official_ipa.th" in text
    main(["info", str(out), "--json"])
    header = json.loads(capsys.readouterr().out)
    assert header["record"] == {"imported_from": "official_ipa.th"}
    assert header["config"]["normalisation"]["shift"] == -120.63838


def test_bad_input_is_one_sentence_and_exit_code_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    checkpoint, out = PARITY / "tiny8" / "official_ipa.th", tmp_path / "out.safetensors"
    assert "does not exist" in failure(capsys, "import", tmp_path / "none.th", "--out", out)
    assert "name a preset" in failure(capsys, "import", checkpoint, "--out", out)
    assert "unknown preset 'cifar'" in failure(capsys, "import", checkpoint, "--out", out, "--network", "cifar")
    assert "network needs: artifact." in failure(capsys, "import", checkpoint, "--out", out, "--network", "cifar10")
    for some in (TINY_LAYERS[:2], TINY_LAYERS[:4], TINY_LAYERS[:8], ["--bits", "5", "--network", "cifar10"]):
        assert "or all of --encoder" in failure(capsys, "import", checkpoint, "--out", out, *some)
    assert "end in .safetensors" in failure(capsys, "import", checkpoint, "--out", tmp_path / "out.th", *TINY_LAYERS)
    assert "not a complete .safetensors" in failure(capsys, "info", checkpoint)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_written_is_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("in the way")
    message = failure(
        capsys,
        "import",
        PARITY / "tiny8" / "official_ipa.th",
        "--out",
        tmp_path / "file" / "x.safetensors",
        *TINY_LAYERS,
    )
    assert "file" in message
