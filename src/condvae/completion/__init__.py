"""Complete one picture or many files, and save the completions with a record of the call."""

from typing import TYPE_CHECKING

from condvae.runtime.lazy import finder

if TYPE_CHECKING:
    from condvae.completion.complete_pictures import complete
    from condvae.completion.result import Completion, save_completions, sheet_of
    from condvae.completion.settings import CompletionSettings

_HOMES = {
    "Completion": "condvae.completion.result",
    "CompletionSettings": "condvae.completion.settings",
    "complete": "condvae.completion.complete_pictures",
    "save_completions": "condvae.completion.result",
    "sheet_of": "condvae.completion.result",
}

__all__ = ["Completion", "CompletionSettings", "complete", "save_completions", "sheet_of"]

__getattr__ = finder(__name__, _HOMES)
