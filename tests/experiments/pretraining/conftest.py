"""One small experiment, computed in one call. Tests compare other runs with it."""

import functools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from helpers.pretraining_runs import small_experiment, small_presets
from helpers.resumed_runs import computed_once, uninterrupted

from condvae.experiments.pretraining import figures


@pytest.fixture(scope="session")
def computed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    run = functools.partial(uninterrupted, small_experiment, figures)
    with small_presets():
        return computed_once(tmp_path_factory, "pretraining", run)


@pytest.fixture(autouse=True)
def small() -> Iterator[None]:
    with small_presets():
        yield
