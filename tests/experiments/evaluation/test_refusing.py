"""What cannot be measured is one sentence, before anything is."""

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
    """Does not keep what is known."""

    name, varies = "forgetful", False

    def complete(self, observation: Observation, k: int, seed: int) -> Tensor:
        return torch.zeros(len(observation), k, 3, 32, 32, dtype=torch.uint8)


def test_a_method_that_changes_known_pixels_is_refused(tmp_path: Path, data: Dataset) -> None:
    settings = EvaluationSettings(images=8, deep_images=4, n=3, metrics=("pixels",))
    with pytest.raises(ValueError, match="forgetful has changed known pixels of image 0"):
        experiment([Method.of(_Forgetful())], data, tmp_path, settings=settings, networks=FeatureNetworks(), say=silent)
    assert not (tmp_path / "results.json").exists()


def test_what_cannot_be_measured_is_refused_before_anything_is(tmp_path: Path, data: Dataset, subject: Subject) -> None:
    fillers, networks = baselines(["mean"], data), small_networks()
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "thesis.tex").write_text("mine")
    (tmp_path / "results").mkdir()
    (tmp_path / "results" / "results.json").write_text("{}")
    (tmp_path / "file").write_text("")
    for methods, out, given, message in (
        (fillers, "other", networks, "thesis.tex, which is not from an evaluation"),
        (fillers, "results", networks, "results.json is not from an evaluation"),
        (fillers, "file", networks, "is a file"),
        (fillers, "new", FeatureNetworks(lpips=networks.lpips), "condvae fetch metrics"),
        (fillers, "new", FeatureNetworks(inception=networks.inception), "condvae fetch metrics"),
        (fillers * 2, "new", networks, "two methods are called"),
        ([], "new", networks, "nothing to measure"),
    ):
        with pytest.raises(ValueError, match=message):
            experiment(methods, data, tmp_path / out, settings=SMALL, networks=given, say=silent)
    small = open_data(FACES, size=16)
    with pytest.raises(ValueError, match="16 x 16 x 3, small makes 32 x 32 x 3: give data of its kind, or --size 32"):
        experiment([], small, tmp_path / "new", settings=SMALL, networks=networks, models=[subject], say=silent)
    with pytest.raises(ValueError, match="LPIPS needs 31"):
        experiment(baselines(["mean"], small), small, tmp_path / "new", settings=SMALL, networks=networks, say=silent)
    assert not (tmp_path / "new").exists()
    assert (tmp_path / "other" / "thesis.tex").read_text() == "mine"
