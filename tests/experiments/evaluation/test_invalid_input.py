"""Invalid input gives a short error before anything is measured."""

from pathlib import Path

import pytest
import torch
from helpers.evaluation_runs import FACES, SMALL, small_networks
from torch import Tensor

from condvae.data import Dataset, open_data
from condvae.experiments.evaluation import EvaluationSettings, FeatureNetworks, Method, Subject, baselines, experiment
from condvae.observe import Observation
from condvae.runtime.messages import silent


class _Forgetful:
    """Does not keep known pixels."""

    name, varies = "forgetful", False

    def complete(self, observation: Observation, k: int, seed: int) -> Tensor:
        return torch.zeros(len(observation), k, 3, 32, 32, dtype=torch.uint8)


def test_a_method_that_changes_known_pixels_is_rejected(tmp_path: Path, data: Dataset) -> None:
    settings = EvaluationSettings(images=8, deep_images=4, n=3, metrics=("pixels",))
    with pytest.raises(ValueError, match="forgetful has changed known pixels of image 0"):
        experiment([Method.of(_Forgetful())], data, tmp_path, settings=settings, networks=FeatureNetworks(), say=silent)
    assert not (tmp_path / "results.json").exists()


def test_invalid_input_is_rejected_before_anything_is_measured(tmp_path: Path, data: Dataset, subject: Subject) -> None:
    simple, networks = baselines(["mean"], data), small_networks()
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "thesis.tex").write_text("mine")
    (tmp_path / "results").mkdir()
    (tmp_path / "results" / "results.json").write_text("{}")
    (tmp_path / "file").write_text("")
    for methods, out, given, message in (
        (simple, "other", networks, "thesis.tex, which was not written by an evaluation"),
        (simple, "results", networks, "results.json was not written by an evaluation"),
        (simple, "file", networks, "is a file"),
        (simple, "new", FeatureNetworks(lpips=networks.lpips), "condvae fetch metrics"),
        (simple, "new", FeatureNetworks(inception=networks.inception), "condvae fetch metrics"),
        (simple * 2, "new", networks, "are too similar"),
        ([], "new", networks, "nothing to measure"),
    ):
        with pytest.raises(ValueError, match=message):
            experiment(methods, data, tmp_path / out, settings=SMALL, networks=given, say=silent)
    small = open_data(FACES, size=16)
    with pytest.raises(
        ValueError, match="16 x 16 x 3, but small makes 32 x 32 x 3: give data of this size, or --size 32"
    ):
        experiment([], small, tmp_path / "new", settings=SMALL, networks=networks, models=[subject], say=silent)
    with pytest.raises(ValueError, match="LPIPS needs at least 31 x 31"):
        experiment(baselines(["mean"], small), small, tmp_path / "new", settings=SMALL, networks=networks, say=silent)
    assert not (tmp_path / "new").exists()
    assert (tmp_path / "other" / "thesis.tex").read_text() == "mine"
