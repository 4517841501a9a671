"""Shared fixtures. The folder of each experiment defines `computed`: the result of one small uninterrupted run."""

from pathlib import Path
from typing import Any

import pytest


@pytest.fixture
def folder(computed: tuple[Path, dict[str, Any]]) -> Path:
    return computed[0]


@pytest.fixture
def whole(computed: tuple[Path, dict[str, Any]]) -> dict[str, Any]:
    return computed[1]


@pytest.fixture(autouse=True)
def quick(undrawn: None) -> None:
    """Draw no figures, except in tests that request them."""
