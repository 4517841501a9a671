"""From finished scans to the report: numbers of all policies, the files, and how their folder is told from others."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

import condvae
from condvae.data import Dataset
from condvae.design.experiment import figures, tables
from condvae.design.experiment.runs import Job, Laboratory
from condvae.design.experiment.summary import summarise
from condvae.design.experiment.tasks import Task
from condvae.ranking import bootstrap
from condvae.registry import Say
from condvae.reporting import as_json
from condvae.workshare import check_folder, clear_away, make_folder, read_json, write_text

FORMAT = "condvae design experiment"
REPORT = ("results.json", "results.csv", "results.md", *figures.NAMES)


def claim(folder: Path) -> None:
    """Make the folder, or raise a ValueError if it holds what is not such an experiment's."""
    check_folder(
        folder,
        folders=("runs",),
        report=REPORT,
        what="an experiment of condvae design",
        ours=lambda path: read_json(path, format=FORMAT) is not None,
    )
    # A kill may have left a report without its results.json, but not without the scans.
    told, kept = (folder / "results.json").exists(), (folder / "runs").exists()
    if not told and not kept and any((folder / name).exists() for name in REPORT):
        raise ValueError(f"{folder} holds results of something else: give another --out")
    make_folder(folder)


def assemble(jobs: Sequence[Job], tasks: Sequence[Task], lab: Laboratory, *, data_name: str) -> dict[str, Any]:
    """All numbers, and what they were measured on."""
    settings, test = lab.settings, lab.data.test.subset(lab.rows)
    groups = np.arange(len(test)) if test.members is None else test.members
    counts = bootstrap(groups, settings.resamples, seed=settings.seed)
    results = [(job, job.result()) for job in jobs]
    return {
        "format": FORMAT,
        "data": data_name,
        "images": len(test),
        "patients": len(np.unique(groups)),
        "patients_also_in_training": _in_both(lab.data),
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
        "made_of": {**lab.identity, **lab.completer_identities},
        "versions": {"condvae": condvae.__version__, "torch": torch.__version__, "numpy": np.__version__},
        "device": torch.cuda.get_device_name(lab.device) if lab.device.type == "cuda" else lab.device.type,
        **summarise(results, tasks, counts, steps=settings.steps, locations=len(lab.candidates)),
    }


def write(result: dict[str, Any], out: Path, say: Say) -> None:
    """The report's files; results.json last of the tables, as it is what others are told by."""
    clear_away((out, *out.glob("runs/*")))
    write_text(out / "results.csv", tables.as_csv(result))
    write_text(out / "results.md", tables.as_markdown(result))
    write_text(out / "results.json", as_json(result))
    try:
        written = figures.draw(result, out)
    except ValueError as error:
        written = []
        say(str(error))
    say(f"wrote {', '.join(str(out / name) for name in ('results.json', 'results.csv', 'results.md'))}")
    if written:
        say(f"wrote {', '.join(map(str, written))}")
    if shared := result["patients_also_in_training"]:
        say(f"{shared} of the {result['patients']} patients are in training images too, which flatters every number")


def redraw(folder: Path) -> list[Path]:
    """Draw the figures again from the numbers in a folder."""
    result = read_json(folder / "results.json", format=FORMAT)
    if result is None:
        raise ValueError(
            f"{folder} holds no results.json of an experiment: give the --out of condvae design experiment"
        )
    try:
        return figures.draw(result, folder)
    except (KeyError, TypeError, AttributeError, IndexError) as error:
        raise ValueError(
            f"{folder / 'results.json'} has been altered ({type(error).__name__}: {error}): call condvae design "
            "experiment with the options of before, which writes it again from the scans"
        ) from error


def _in_both(data: Dataset) -> int | None:
    """Patients who are in training images and in test images; None where nobody said who is on them."""
    if data.test.members is None or data.train.members is None:
        return None
    return len(np.intersect1d(data.test.members, data.train.members))
