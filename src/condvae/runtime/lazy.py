"""Lazy packages: public names are imported on first use, so that importing condvae does not import torch."""

import importlib
import importlib.util
from collections.abc import Callable, Mapping
from typing import Any


def finder(package: str, homes: Mapping[str, str]) -> Callable[[str], Any]:
    """Return the `__getattr__` of a package: it imports public names (homes: name -> module) and submodules."""

    def find(name: str) -> Any:
        if name in homes:
            return getattr(importlib.import_module(homes[name]), name)
        inside = f"{package}.{name}"
        if name.startswith("_") or importlib.util.find_spec(inside) is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return importlib.import_module(inside)

    return find
