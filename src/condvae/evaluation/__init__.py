"""Every number of the paper's section 4 and more, for models, baselines and completions made elsewhere."""

from typing import TYPE_CHECKING

from condvae.lazy import finder

if TYPE_CHECKING:
    from condvae.evaluation.completion_folder import CompletionFolder
    from condvae.evaluation.inputs import write_inputs
    from condvae.evaluation.methods import Method, Subject, baselines, methods_of, subject_of
    from condvae.evaluation.plan import FAMILIES, Blocks, Settings
    from condvae.evaluation.problems import Problems
    from condvae.evaluation.run import evaluate
    from condvae.metrics.viewers import Networks
    from condvae.workshare import Shard

_HOMES = {
    "FAMILIES": "condvae.evaluation.plan",
    "Blocks": "condvae.evaluation.plan",
    "CompletionFolder": "condvae.evaluation.completion_folder",
    "Subject": "condvae.evaluation.methods",
    "Method": "condvae.evaluation.methods",
    "Networks": "condvae.metrics.viewers",
    "Problems": "condvae.evaluation.problems",
    "Settings": "condvae.evaluation.plan",
    "Shard": "condvae.workshare",
    "baselines": "condvae.evaluation.methods",
    "evaluate": "condvae.evaluation.run",
    "subject_of": "condvae.evaluation.methods",
    "methods_of": "condvae.evaluation.methods",
    "write_inputs": "condvae.evaluation.inputs",
}

__all__ = [
    "FAMILIES",
    "Blocks",
    "CompletionFolder",
    "Method",
    "Networks",
    "Problems",
    "Settings",
    "Shard",
    "Subject",
    "baselines",
    "evaluate",
    "methods_of",
    "subject_of",
    "write_inputs",
]

__getattr__ = finder(__name__, _HOMES)
