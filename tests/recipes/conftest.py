"""Fixtures for recipes."""

from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import pytest
from helpers.baseline_models import CONFIGS
from helpers.evaluation_runs import SmallInception, small_model
from helpers.pretraining_runs import PixelDistance, small_data, small_presets
from PIL import Image

from condvae import weights
from condvae.completers.learned_names import LEARNED_PRESETS
from condvae.metrics import LPIPS, Inception
from condvae.vdvae import presets


@pytest.fixture
def small_experiment(monkeypatch: pytest.MonkeyPatch, undrawn: None) -> Iterator[None]:
    """Give experiments on pretraining networks that take milliseconds."""
    monkeypatch.setattr(LPIPS, "load", lambda *, trunk: PixelDistance())
    monkeypatch.setattr(Inception, "load", lambda *, precision: SmallInception())
    with small_presets():
        yield


@pytest.fixture
def small_comparison(monkeypatch: pytest.MonkeyPatch, undrawn: None) -> Iterator[None]:
    """Give the comparison with learned baselines networks that take milliseconds."""
    monkeypatch.setattr(LPIPS, "load", lambda *, trunk: PixelDistance())
    monkeypatch.setattr(Inception, "load", lambda *, precision: SmallInception())
    sheet = Image.new("RGB", (8, 8))
    with (
        mock.patch.dict(presets._TABLES, {"cifar10-small": [(32, 8, 4, 1, 1), (4, 8, 4, 1, 1)]}),
        mock.patch.dict(LEARNED_PRESETS, CONFIGS),
        mock.patch("condvae.training.training_run._sheet", return_value=sheet),
    ):
        yield


@pytest.fixture(scope="session")
def noise32(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Images of 32 x 32 pixels: 16 for training, and 8 for tests."""
    return small_data(tmp_path_factory.mktemp("data") / "noise", train=16, test=8, size=32)


@pytest.fixture(scope="session")
def finished_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random model in place of the embedded one, with a record of its training."""
    path = tmp_path_factory.mktemp("model") / "cifar10.safetensors"
    options = {"batch": 4, "lr": 0.1, "seed": 0, "split_seed": 5, "validation": 4}
    record = {"minutes": 2.5, "steps": 9, "images_seen": 36, "device": "abacus", "data": "noise", "options": options}
    weights.save(small_model(), path, record={**record, "artifact": {**record, "minutes": 7.25}})
    return path
