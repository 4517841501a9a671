"""The names of the embedded classifiers. This module does not import torch, so that `--help` is quick."""

from pathlib import Path

CLASSIFIERS = Path(__file__).parent / "classifiers"
"""The folder that contains the file NAME.safetensors of each embedded classifier."""


def embedded_classifiers() -> list[str]:
    """Return the names of the classifiers that are installed with the package."""
    return sorted(path.stem for path in CLASSIFIERS.glob("*.safetensors"))
