"""One small experiment in one sitting, which others are held to."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from helpers import ood_runs


@pytest.fixture(scope="session")
def folder(sitting: Callable[..., Any]) -> Path:
    return Path(sitting(ood_runs).folder)


@pytest.fixture(scope="session")
def whole(sitting: Callable[..., Any]) -> dict[str, Any]:
    result: dict[str, Any] = sitting(ood_runs).result
    return result


@pytest.fixture(autouse=True)
def quick(undrawn: None) -> None:
    """No figures where nobody asks for them."""
