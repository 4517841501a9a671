"""A small experiment of each kind in one sitting, which others are held to."""

import functools
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import pytest
from helpers.sittings import in_one_sitting


class Sitting(NamedTuple):
    folder: Path
    result: dict[str, Any]


@pytest.fixture(scope="session")
def sitting(tmp_path_factory: pytest.TempPathFactory) -> Callable[[ModuleType], Sitting]:
    """By the helper module that has the experiment; once for each."""

    @functools.cache
    def sit(runs: ModuleType) -> Sitting:
        folder = tmp_path_factory.mktemp("experiment") / "whole"
        return Sitting(folder, in_one_sitting(runs.small_experiment, runs.figures, folder))

    return sit
