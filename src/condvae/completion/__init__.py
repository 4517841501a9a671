"""Completions: of observations, of pictures, of many files."""

from condvae.completion.call import complete
from condvae.completion.result import Completion, sheet_of
from condvae.images.reading import read_files

__all__ = ["Completion", "complete", "read_files", "sheet_of"]
