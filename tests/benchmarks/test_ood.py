"""The benchmark of temperature gradients times condvae and autograd, and fails if they differ."""

import json
from pathlib import Path

import pytest
import torch

from benchmarks import ood
from condvae.ood.inference import Inference

_FEW = {"images": 3, "repeats": 1, "reference_images": 2, "device": "cpu"}


def test_both_implementations_are_timed_and_agree(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out.json"
    ood.main(ood.Options(**_FEW, score="parts-2", out=out))  # type: ignore[arg-type]
    result = json.loads(out.read_text())
    assert json.loads(capsys.readouterr().out) == result
    assert result["image"] == [3, 32, 32]
    assert result["reference"]["images"] == 2 and result["reference"]["largest_difference"] < 1e-3
    assert all(result[score]["images_per_second"] > 0 for score in ("parts-2", "gradient"))


def test_a_difference_stops_the_benchmark(monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(inference: Inference, image: torch.Tensor, known: torch.Tensor, place: int) -> torch.Tensor:
        return torch.zeros(1, inference.groups, dtype=torch.float64)

    monkeypatch.setattr(ood, "by_autograd", wrong)
    with pytest.raises(ValueError, match="differs from autograd"):
        ood.main(ood.Options(**_FEW))  # type: ignore[arg-type]
