"""Lazy imports: a package imports its public names on first use, so that `import condvae` does not import torch."""

import importlib
import importlib.util
from collections.abc import Callable, Mapping
from typing import Any


def finder(package: str, homes: Mapping[str, str]) -> Callable[[str], Any]:
    """Return a `__getattr__` for the package, which imports its public names and submodules on first use.

    homes: for each public name, the module that defines it.
    """

    def find(name: str) -> Any:
        if name in homes:
            return getattr(importlib.import_module(homes[name]), name)
        inside = f"{package}.{name}"
        if name.startswith("_") or importlib.util.find_spec(inside) is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return importlib.import_module(inside)

    return find
