"""Every number of the paper's section 4 and more, for models, baselines and completions made elsewhere."""

from typing import TYPE_CHECKING

from condvae.runtime.lazy import finder

if TYPE_CHECKING:
    from condvae.experiments.evaluation.external_completions import CompletionFolder
    from condvae.experiments.evaluation.methods import Method, Subject, baselines, methods_of, subject_of
    from condvae.experiments.evaluation.plan import FAMILIES, Blocks, Settings
    from condvae.experiments.evaluation.problem_files import write_inputs
    from condvae.experiments.evaluation.problems import Problems
    from condvae.experiments.evaluation.run import evaluate
    from condvae.experiments.resumable_work import Shard
    from condvae.metrics.feature_networks import Networks

_HOMES = {
    "FAMILIES": "condvae.experiments.evaluation.plan",
    "Blocks": "condvae.experiments.evaluation.plan",
    "CompletionFolder": "condvae.experiments.evaluation.external_completions",
    "Subject": "condvae.experiments.evaluation.methods",
    "Method": "condvae.experiments.evaluation.methods",
    "Networks": "condvae.metrics.feature_networks",
    "Problems": "condvae.experiments.evaluation.problems",
    "Settings": "condvae.experiments.evaluation.plan",
    "Shard": "condvae.experiments.resumable_work",
    "baselines": "condvae.experiments.evaluation.methods",
    "evaluate": "condvae.experiments.evaluation.run",
    "subject_of": "condvae.experiments.evaluation.methods",
    "methods_of": "condvae.experiments.evaluation.methods",
    "write_inputs": "condvae.experiments.evaluation.problem_files",
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
