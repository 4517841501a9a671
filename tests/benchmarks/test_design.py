"""The design benchmark times condvae and the reference with real networks."""

import json
from pathlib import Path

import pytest

from benchmarks import design


def test_both_sides_are_timed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out.json"
    design.main(
        design.Options(n=2, points=3, block=2, repeats=1, reference_calls=2, model="cifar10", device="cpu", out=out)
    )
    result = json.loads(out.read_text())
    assert json.loads(capsys.readouterr().out) == result
    assert result["locations"] == 9 and result["image"] == [3, 32, 32]
    assert result["reference"]["extrapolated_from"] == "2 of 2 completions, 2 of 18 calls"
    assert result["block"]["images"] == 2
    assert all(result[name]["median"] > 0 for name in ("step_ms", "completions_ms", "foresight_ms"))
