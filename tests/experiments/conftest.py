"""Each experiment has a `computed`, in its own folder: one small run in one call, which others are compared with."""

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
    """No figures where nobody asks for them."""
