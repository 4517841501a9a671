"""The classifier benchmark runs on any device: only the exact mode on a CPU, all modes on a GPU."""

import json
from pathlib import Path

import pytest
import torch

from benchmarks import classifier


def test_the_exact_mode_is_timed_on_a_cpu(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out.json"
    classifier.main(classifier.Options(batch=2, repeats=1, device="cpu", out=out))
    result = json.loads(out.read_text())
    assert json.loads(capsys.readouterr().out) == result
    assert result["image"] == [1, 64, 64] and result["plain_exact"]["per_s"] > 0
    assert result["plain_exact"]["log_probabilities_off"]["worst"] == 0 and "fused_half" not in result


def test_differences_are_of_log_probabilities() -> None:
    exact = torch.tensor([0.5, 0.25]).log()
    off = classifier.difference(torch.tensor([0.5, 0.5]).log(), exact)
    assert off["worst_probability"] == pytest.approx(0.25) and off["worst"] == pytest.approx(2 * off["mean"])
