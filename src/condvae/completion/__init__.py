"""Completions: of observations, of pictures, of many files."""

from typing import TYPE_CHECKING

from condvae.runtime.lazy import finder

if TYPE_CHECKING:
    from condvae.completion.call import complete
    from condvae.completion.result import Completion, sheet_of
    from condvae.completion.settings import CompletionSettings
    from condvae.images.reading import read_files

_HOMES = {
    "Completion": "condvae.completion.result",
    "CompletionSettings": "condvae.completion.settings",
    "complete": "condvae.completion.call",
    "read_files": "condvae.images.reading",
    "sheet_of": "condvae.completion.result",
}

__all__ = ["Completion", "CompletionSettings", "complete", "read_files", "sheet_of"]

__getattr__ = finder(__name__, _HOMES)
