"""Fixtures for recipes."""

from collections.abc import Iterator

import pytest
from helpers.evaluation_runs import SmallInception
from helpers.pretraining_runs import PixelDistance, small_presets

from condvae.metrics import LPIPS, Inception


@pytest.fixture
def small_experiment(monkeypatch: pytest.MonkeyPatch, undrawn: None) -> Iterator[None]:
    """Give experiments on pretraining networks that take milliseconds."""
    monkeypatch.setattr(LPIPS, "load", lambda *, trunk: PixelDistance())
    monkeypatch.setattr(Inception, "load", lambda *, precision: SmallInception())
    with small_presets():
        yield
