"""Compute the numbers of the report from finished jobs, and write the report's files."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from condvae.data.image_set import Indices
from condvae.experiments.ood import figures, tables
from condvae.experiments.ood.jobs import MethodScores, OODJob
from condvae.experiments.ood.measure import OODContext
from condvae.experiments.ood.plan import DetectionMethod
from condvae.experiments.ood.summary import Resamples, summarise
from condvae.experiments.reporting import Report
from condvae.images.contact_sheet import contact_sheet
from condvae.observe.hole_bins import HOLE_BINS, known_in_bin
from condvae.runtime.atomic import writing
from condvae.runtime.messages import Say
from condvae.runtime.versions import device_name, versions

EXAMPLES = "sets.png"
REPORT = Report(
    format="condvae ood experiment",
    what="a condvae ood experiment",
    command="condvae ood experiment",
    pictures=(*figures.NAMES, EXAMPLES),
    tables=tables,
    figures=figures,
)
redraw = REPORT.redraw
_GREY = 128
"""The grey level that stands for hidden pixels in the picture of example images."""


def assemble(jobs: Sequence[OODJob], context: OODContext, data_name: str) -> dict[str, Any]:
    """Return all numbers of the report, with the settings, images, models and versions that they were measured with."""
    settings, test, scored = context.settings, context.data.test.subset(context.rows), MethodScores(jobs)
    groups = np.arange(len(test)) if test.members is None else test.members
    sets = {name: (one, len(context.levels[name])) for name, one in context.sets.items()}
    resamples = Resamples.draw(groups, sets, settings.resamples, seed=settings.seed)
    scores = {
        method: {column: scored.scores(spec, column) for column, spec in specs.items()}
        for method, specs in context.methods.items()
    }

    def chosen(method: DetectionMethod, count: int) -> Indices:
        spec = next(iter(context.methods[method].values()))
        return context.positions(spec.score, count)

    return {
        "format": REPORT.format,
        "data": data_name,
        "images": len(test),
        "patients": None if test.members is None else len(np.unique(groups)),
        "settings": {
            "fit_images": min(settings.fit_images, len(context.data.train)),
            "seed": settings.seed,
            "resamples": settings.resamples,
        },
        "sets": {name: {"images": count, "paired": one.paired} for name, (one, count) in sets.items()},
        "models": context.readings.identities,
        "completers": context.completer_identities,
        "readings": {
            reading.name: {
                "images": sum(job.images for job in jobs if job.reading is reading),
                "seconds": round(scored.seconds(reading), 3),
            }
            for reading in context.readings.all.values()
        },
        "made_of": context.digests,
        "versions": versions(),
        "device": device_name(context.device),
        **summarise(scores, resamples, chosen),
    }


def write(result: dict[str, Any], context: OODContext, out: Path, say: Say) -> None:
    """Write the report's files, and a picture with example images of each set."""
    REPORT.write(result, out, say)
    write_examples(context, out / EXAMPLES)
    say(f"wrote {out / EXAMPLES}")


def write_examples(context: OODContext, path: Path) -> None:
    """Draw a contact sheet of the sets: a whole image of each set, then one image with a hole of each bin."""
    size = context.data.test.size
    holes = [known_in_bin(hole, 1, size, seed=context.settings.seed)[0] for hole in HOLE_BINS]
    seen = [torch.ones_like(holes[0]), *holes]
    levels = {name: images for name, images in context.levels.items() if len(images)}
    table = [
        [torch.where(known, images[i % len(images)], _GREY) for images in levels.values()]
        for i, known in enumerate(seen)
    ]
    with writing(path) as temporary:
        contact_sheet(table, list(levels)).save(temporary, format="png")
