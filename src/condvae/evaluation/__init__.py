"""Every number of the paper's section 4 and more, for models, baselines and completions made elsewhere."""

from typing import TYPE_CHECKING

from condvae.lazy import finder

if TYPE_CHECKING:
    from condvae.evaluation.completion_folder import CompletionFolder
    from condvae.evaluation.inputs import write_inputs
    from condvae.evaluation.jobs import Shard
    from condvae.evaluation.measure import Networks
    from condvae.evaluation.methods import Judged, Method, Ours, baselines, judged, settings_of
    from condvae.evaluation.plan import FAMILIES, Blocks, Settings
    from condvae.evaluation.problems import Problems
    from condvae.evaluation.run import evaluate

_HOMES = {
    "FAMILIES": "condvae.evaluation.plan",
    "Blocks": "condvae.evaluation.plan",
    "CompletionFolder": "condvae.evaluation.completion_folder",
    "Judged": "condvae.evaluation.methods",
    "Method": "condvae.evaluation.methods",
    "Networks": "condvae.evaluation.measure",
    "Ours": "condvae.evaluation.methods",
    "Problems": "condvae.evaluation.problems",
    "Settings": "condvae.evaluation.plan",
    "Shard": "condvae.evaluation.jobs",
    "baselines": "condvae.evaluation.methods",
    "evaluate": "condvae.evaluation.run",
    "judged": "condvae.evaluation.methods",
    "settings_of": "condvae.evaluation.methods",
    "write_inputs": "condvae.evaluation.inputs",
}

__all__ = [
    "FAMILIES",
    "Blocks",
    "CompletionFolder",
    "Judged",
    "Method",
    "Networks",
    "Ours",
    "Problems",
    "Settings",
    "Shard",
    "baselines",
    "evaluate",
    "judged",
    "settings_of",
    "write_inputs",
]

__getattr__ = finder(__name__, _HOMES)
