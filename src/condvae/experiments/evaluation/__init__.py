"""Evaluation: measure models, baselines and other programs with the metrics of the paper's section 4, and more."""

from typing import TYPE_CHECKING

from condvae.runtime.lazy import finder

if TYPE_CHECKING:
    from condvae.experiments.evaluation.external_completions import ExternalCompletions
    from condvae.experiments.evaluation.methods import Method, Subject, baselines, methods_of, subject_of
    from condvae.experiments.evaluation.plan import FAMILIES, EvaluationSettings, UnitSizes
    from condvae.experiments.evaluation.problem_files import write_inputs
    from condvae.experiments.evaluation.problems import Problems
    from condvae.experiments.evaluation.report import redraw
    from condvae.experiments.evaluation.run import experiment
    from condvae.experiments.resumable_work import Shard
    from condvae.metrics.feature_networks import FeatureNetworks

_HOMES = {
    "FAMILIES": "condvae.experiments.evaluation.plan",
    "UnitSizes": "condvae.experiments.evaluation.plan",
    "ExternalCompletions": "condvae.experiments.evaluation.external_completions",
    "Subject": "condvae.experiments.evaluation.methods",
    "Method": "condvae.experiments.evaluation.methods",
    "FeatureNetworks": "condvae.metrics.feature_networks",
    "Problems": "condvae.experiments.evaluation.problems",
    "EvaluationSettings": "condvae.experiments.evaluation.plan",
    "Shard": "condvae.experiments.resumable_work",
    "baselines": "condvae.experiments.evaluation.methods",
    "experiment": "condvae.experiments.evaluation.run",
    "redraw": "condvae.experiments.evaluation.report",
    "subject_of": "condvae.experiments.evaluation.methods",
    "methods_of": "condvae.experiments.evaluation.methods",
    "write_inputs": "condvae.experiments.evaluation.problem_files",
}

__all__ = [
    "FAMILIES",
    "EvaluationSettings",
    "ExternalCompletions",
    "FeatureNetworks",
    "Method",
    "Problems",
    "Shard",
    "Subject",
    "UnitSizes",
    "baselines",
    "experiment",
    "methods_of",
    "redraw",
    "subject_of",
    "write_inputs",
]

__getattr__ = finder(__name__, _HOMES)
