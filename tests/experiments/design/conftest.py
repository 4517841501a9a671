"""One small experiment in one call, which others are compared with."""

from pathlib import Path
from typing import Any

import pytest
from helpers.design_runs import small_experiment
from helpers.resumed_runs import uninterrupted

from condvae.experiments.design import figures


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("experiment") / "whole"


@pytest.fixture(scope="session")
def whole(folder: Path) -> dict[str, Any]:
    return uninterrupted(small_experiment, figures, folder)


@pytest.fixture(autouse=True)
def quick(undrawn: None) -> None:
    """No figures where nobody asks for them."""
