"""From finished scans to the report: numbers of all policies, the files, and how their folder is told from others."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

import condvae
from condvae.completers.interface import Completer
from condvae.completers.model_completer import ModelCompleter
from condvae.experiments.design import figures, tables
from condvae.experiments.design.plan import IPA
from condvae.experiments.design.scans import DesignContext, DesignJob
from condvae.experiments.design.summary import summarise
from condvae.experiments.design.tasks import DesignTask
from condvae.experiments.reporting import claim_folder, draw_again, write_report
from condvae.metrics.auroc import bootstrap
from condvae.runtime.folders import clear_away, read_json
from condvae.runtime.messages import Say

FORMAT = "condvae design experiment"
REPORT = ("results.json", "results.csv", "results.md", *figures.NAMES)


def claim(folder: Path) -> None:
    """Make the folder, or raise a ValueError if it holds what is not such an experiment's."""
    claim_folder(folder, report=REPORT, format=FORMAT, what="an experiment of condvae design")


def assemble(
    jobs: Sequence[DesignJob], tasks: Sequence[DesignTask], lab: DesignContext, names: Mapping[str, str | None]
) -> dict[str, Any]:
    """All numbers, and what they were measured on. names: of the data, the model and the classifier."""
    settings, test = lab.settings, lab.test
    groups = np.arange(len(test)) if test.members is None else test.members
    counts = bootstrap(groups, settings.resamples, seed=settings.seed)
    results = [(job, job.result()) for job in jobs]
    return {
        "format": FORMAT,
        "data": names["data"],
        "images": len(test),
        "patients": None if test.members is None else len(np.unique(groups)),
        "patients_also_in_training": lab.data.seen_before(test),
        "settings": {
            "steps": settings.steps,
            "n": settings.n,
            "first_n": settings.first_n,
            "points": settings.points,
            "side_pixels": lab.candidates.side,
            "size_pixels": lab.candidates.size,
            "repeats": settings.repeats,
            "seed": settings.seed,
            "resamples": settings.resamples,
        },
        "model": _model(lab.completers.get(IPA), names["model"]),
        "classifier": {
            "name": names["classifier"],
            "precision": str(getattr(lab.classifier, "dtype", "its own")).removeprefix("torch."),
        },
        "made_of": {**lab.identity, **lab.completer_identities},
        "versions": {"condvae": condvae.__version__, "torch": torch.__version__, "numpy": np.__version__},
        "device": torch.cuda.get_device_name(lab.device) if lab.device.type == "cuda" else lab.device.type,
        **summarise(results, tasks, counts, steps=settings.steps, locations=len(lab.candidates)),
    }


def _model(completer: Completer | None, name: str | None) -> dict[str, Any] | None:
    """How the model completed; None if it was not asked to."""
    if not isinstance(completer, ModelCompleter):
        return None
    heat = list(completer.temperature)
    return {
        "name": name,
        "temperature": heat[0] if len(set(heat)) == 1 else heat,
        "pixels": completer.pixels,
        "precision": completer.sampler.precision,
    }


def write(result: dict[str, Any], out: Path, say: Say) -> None:
    """The report's files, and nothing of killed processes beside them."""
    for folder in (out, *out.glob("runs/*")):
        clear_away(folder)
    write_report(
        result, out, csv=tables.as_csv(result), markdown=tables.as_markdown(result), draw=figures.draw, say=say
    )


def redraw(folder: Path) -> list[Path]:
    """Draw the figures again from the numbers in a folder."""
    result = read_json(folder / "results.json", format=FORMAT)
    return draw_again(result, folder, figures.draw, what="an experiment", command="condvae design experiment")
