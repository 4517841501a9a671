"""One small uninterrupted experiment, which the tests compare others with."""

import functools
from pathlib import Path
from typing import Any

import pytest
from helpers.design_runs import small_experiment
from helpers.resumed_runs import computed_once, uninterrupted

from condvae.experiments.design import figures


@pytest.fixture(scope="session")
def computed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    run = functools.partial(uninterrupted, small_experiment, figures)
    return computed_once(tmp_path_factory, "design", run)
