"""The command line's way to `completion_warnings`."""

from condvae.ood.completion_warnings import warnings_of_completions

__all__ = ["warnings_of_completions"]
