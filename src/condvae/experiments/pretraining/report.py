"""Assemble the numbers of the report, and write its files, with sheets of completions and of other answers."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from PIL import Image
from torch import Tensor

from condvae import observe
from condvae.experiments.pretraining import figures, tables
from condvae.experiments.pretraining.jobs import PretrainingJob, PretrainingJobs
from condvae.experiments.pretraining.measure import PretrainingContext
from condvae.experiments.pretraining.plan import COMPLETION
from condvae.experiments.pretraining.summary import arms_of, conditions_of, settings_of
from condvae.experiments.pretraining.training_runs import Arm
from condvae.experiments.reporting import Report
from condvae.images.contact_sheet import contact_sheet
from condvae.images.model_sheets import visible
from condvae.observe import Label
from condvae.runtime.atomic import writing
from condvae.runtime.fingerprints import slug_of
from condvae.runtime.messages import Say
from condvae.runtime.pixels import to_uint8
from condvae.runtime.versions import device_name, versions
from condvae.sampling.sampler import Sampler

_ROWS, _ANSWERS = 10, 4
"""How many images a sheet shows, and how many answers of each model for translations."""
_SHEETS = "sheet-{}.png"
REPORT = Report(
    format="condvae pretraining experiment",
    what="an experiment on pretraining",
    command="recipes/pretraining.py",
    pictures=(*figures.NAMES, _SHEETS.format("*")),
    tables=tables,
    figures=figures,
)
redraw = REPORT.redraw


def assemble(jobs: PretrainingJobs, context: PretrainingContext, arms: Sequence[Arm], data_name: str) -> dict[str, Any]:
    """Return all numbers of the report, with the settings, the images and the versions behind them."""
    test = context.data.test
    dims = test.channels * test.size**2
    return {
        "format": REPORT.format,
        "data": data_name,
        "images": {"training": len(context.data.train), "test": len(test)},
        "settings": settings_of(context.settings),
        "arms": arms_of(jobs, arms, context.settings.condition, dims),
        "conditions": conditions_of(jobs, arms, dims),
        "versions": versions(),
        "device": device_name(context.device),
    }


def write(result: dict[str, Any], jobs: PretrainingJobs, context: PretrainingContext, out: Path, say: Say) -> None:
    """Write tables, figures and sheets."""
    REPORT.write(result, out, say)
    for condition in (context.settings.condition, *context.settings.conditions):
        mine = [job for job in jobs.trainings if job.run.condition == condition and job.run.seed == 0]
        path = out / _SHEETS.format(slug_of(condition))
        with writing(path) as temporary:
            sheet(mine, context, condition).save(temporary, format="png")
        say(f"wrote {path}")
    say(tables.summary_line(result))


def sheet(jobs: Sequence[PretrainingJob], context: PretrainingContext, condition: str) -> Image.Image:
    """Draw test images, what the models see of them (except their labels), and answers of every arm.

    For completion, an arm gives one answer after its first and one after its last snapshot. For a translation, it
    gives several answers after its last.
    """
    completes = condition == COMPLETION
    shown = completes or not isinstance(observe.parse((condition,)), Label)
    places = context.subset(min(_ROWS, len(context.rows)))[:_ROWS]
    columns: dict[str, Tensor] = {"original": context.images(places).cpu()}
    for job in jobs:
        name, steps = job.run.arm.name, job.run.steps
        for step in dict.fromkeys((steps[0], steps[-1]) if completes else steps[-1:]):
            model = job.run.snapshot(context.settings, job.folder, step).to(context.device).eval()
            _, observation = context.observed(model, condition, places)
            if shown:
                columns.setdefault("observed", to_uint8(visible(observation, model.artifact.config)).cpu())
            n = 1 if completes else _ANSWERS
            with torch.inference_mode():
                made = Sampler(model)(observation, n, seed=context.settings.seed, places=places.tolist()).cpu()
            for k in range(n):
                columns[f"{name}, {step:,}" if completes else f"{name} {k + 1}"] = made[:, k]
    return contact_sheet(list(zip(*columns.values(), strict=True)), list(columns))
