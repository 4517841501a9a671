"""Packages whose names are found on first use, so that importing one does not import torch."""

import importlib
from collections.abc import Callable, Mapping
from typing import Any


def finder(package: str, homes: Mapping[str, str]) -> Callable[[str], Any]:
    """A module's `__getattr__`: each public name from the module that is its home."""

    def find(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(importlib.import_module(homes[name]), name)

    return find
