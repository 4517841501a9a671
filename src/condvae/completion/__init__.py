"""Completions: of observations, of pictures, of many files."""

from condvae.completion.call import complete
from condvae.completion.draw import completions
from condvae.completion.inputs import read_files
from condvae.completion.result import Completion, sheet_of

__all__ = ["Completion", "complete", "completions", "read_files", "sheet_of"]
