"""Assemble the report of an experiment from its finished scans, and write its files."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from condvae.completers.interface import Completer
from condvae.completers.model_completer import ModelCompleter
from condvae.experiments.design import figures, tables
from condvae.experiments.design.jobs import DesignJob
from condvae.experiments.design.measure import DesignContext
from condvae.experiments.design.plan import IPA
from condvae.experiments.design.summary import summarise
from condvae.experiments.design.tasks import DesignTask
from condvae.experiments.reporting import Report
from condvae.metrics.auroc import bootstrap
from condvae.runtime.versions import device_name, versions

REPORT = Report(
    format="condvae design experiment",
    what="an experiment of condvae design",
    command="condvae design experiment",
    pictures=figures.NAMES,
    tables=tables,
    figures=figures,
)
redraw = REPORT.redraw


def assemble(
    jobs: Sequence[DesignJob], tasks: Sequence[DesignTask], context: DesignContext, names: Mapping[str, str | None]
) -> dict[str, Any]:
    """Make the report: all numbers, and how they were measured. names: the names of data, model and classifier."""
    settings, test = context.settings, context.test
    groups = np.arange(len(test)) if test.members is None else test.members
    counts = bootstrap(groups, settings.resamples, seed=settings.seed)
    results = [(job, job.result()) for job in jobs]
    return {
        "format": REPORT.format,
        "data": names["data"],
        "images": len(test),
        "patients": None if test.members is None else len(np.unique(groups)),
        "patients_also_in_training": context.data.seen_before(test),
        "settings": {
            "steps": settings.steps,
            "n": settings.n,
            "first_n": settings.first_n,
            "points": settings.points,
            "side_pixels": context.candidates.side,
            "size_pixels": context.candidates.size,
            "repeats": settings.repeats,
            "seed": settings.seed,
            "resamples": settings.resamples,
        },
        "model": _model(context.completers.get(IPA), names["model"]),
        "classifier": {
            "name": names["classifier"],
            "precision": str(getattr(context.classifier, "dtype", "not stated")).removeprefix("torch."),
        },
        "made_of": {**context.identity, **context.completer_identities},
        "versions": versions(),
        "device": device_name(context.device),
        **summarise(results, tasks, counts, steps=settings.steps, locations=len(context.candidates)),
    }


def _model(completer: Completer | None, name: str | None) -> dict[str, Any] | None:
    """Return the settings with which the model drew completions, or None if no policy used the model."""
    if not isinstance(completer, ModelCompleter):
        return None
    heat = list(completer.temperature)
    return {
        "name": name,
        "temperature": heat[0] if len(set(heat)) == 1 else heat,
        "pixels": completer.pixels,
        "precision": completer.sampler.precision,
    }
