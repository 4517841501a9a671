"""`experiment`: scores compared by how well they tell strange images from ordinary ones, in as many calls and
processes as it takes.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from condvae.completers.baseline_names import BASELINES
from condvae.completers.by_name import baselines_of
from condvae.completers.interface import Completer
from condvae.conditional import ConditionalVAE
from condvae.data import Dataset
from condvae.experiments.ood import report
from condvae.experiments.ood.jobs import jobs_of, work_units
from condvae.experiments.ood.measure import TEST, TRAINING, OODContext
from condvae.experiments.ood.plan import OODSettings
from condvae.experiments.ood.summary import ALL, PAPERS
from condvae.experiments.resumable_work import Shard, work_together
from condvae.ood.completed import ITSELF
from condvae.ood.sets import Foreign, OODSet, own
from condvae.runtime.checks import check_whole
from condvae.runtime.messages import Say, silent
from condvae.runtime.ranks import World


def experiment(
    models: Mapping[str, ConditionalVAE],
    data: Dataset,
    out: Path,
    *,
    settings: OODSettings | None = None,
    foreign: Mapping[str, Dataset] | None = None,
    completers: Mapping[str, Completer] | None = None,
    data_name: str = "",
    block: int | None = None,
    world: World | None = None,
    shard: Shard | None = None,
    say: Say = print,
) -> dict[str, Any] | None:
    """Score test images and strange ones in every way and report AUROCs; the report is also written to `out`.

    models: by the names that the report gives them. foreign: other data sets by name, of the models' image size.
    completers: {NAME: completer} for baselines called completed-NAME. block: images that are measured together.
    data_name: as the report calls it.

    What is there already is not done again: a killed call goes on, and models, scores and sets can be added later. None
    where the report is not this process's to write: of shards, and of ranks that do not lead.
    """
    settings = settings or OODSettings()
    if block is not None:
        check_whole(block, "the number of images that are measured together", least=1)
    device = check_models(models)
    world = world or World(0, 1, device)
    say = say if world.leads else silent
    _check_data(data)
    made = _completers(settings, data, dict(completers or {}))
    context = OODContext(models, data, settings, _sets(settings, dict(foreign or {})), made, device)
    context.check()
    report.REPORT.claim(out)
    say(f"data: {data.summary()}")
    _tell_numbers(context, say)
    jobs = list(jobs_of(context, out, block))
    if not work_together(work_units(jobs, context), world, shard, say):
        return None
    result = report.assemble(jobs, context, data_name or data.kind)
    report.write(result, context, out, say)
    return result


def check_models(models: Mapping[str, ConditionalVAE]) -> torch.device:
    """Where all models are; a ValueError for those that cannot be compared."""
    if not models:
        raise ValueError("no models were given, expected at least one")
    takes = {name: (model.artifact.config.image_size, model.artifact.config.channels) for name, model in models.items()}
    for name, model in models.items():
        if not name.strip() or not name.isprintable():
            raise ValueError(f"a model is called {name!r}: give it a name of one line")
        if model.partial_config.channels != model.artifact.config.channels + 1:
            raise ValueError(f"{name} was not trained to complete images: nothing can be hidden from it")
    (first, one), *_ = takes.items()
    for name, other in takes.items():
        if other != one:
            raise ValueError(
                f"{first} takes images of {one[0]} x {one[0]} x {one[1]}, {name} of {other[0]} x {other[0]} x "
                f"{other[1]}: give models of one kind"
            )
    return next(iter(models.values())).device


def _check_data(data: Dataset) -> None:
    if len(data.test) < 2:
        raise ValueError(f"there are {len(data.test)} test images, expected two at least: give data that has some")
    if len(data.train) < 2:
        raise ValueError(
            f"there are {len(data.train)} training images, expected two at least, which densities are fitted to: give "
            "data that has some"
        )


def _sets(settings: OODSettings, foreign: Mapping[str, Dataset]) -> Sequence[OODSet]:
    """Those that are asked for by name, then the foreign ones."""
    sets: list[OODSet] = [own(name) for name in settings.sets]
    for name, data in foreign.items():
        if name in {TEST, TRAINING, ALL, PAPERS, *(one.name for one in sets)} or not name.strip():
            raise ValueError(f"a set is called {name!r}, which has a meaning already: give it another name")
        sets.append(Foreign(name=name, data=data))
    if not sets:
        raise ValueError("no sets of strange images were given: give --sets, or other data with --against NAME=PATH")
    return sets


def _completers(settings: OODSettings, data: Dataset, given: Mapping[str, Completer]) -> dict[str, Completer]:
    """All that may complete: those that were given, and fillers that some baseline asks for by name."""
    reserved = (ITSELF, *BASELINES)
    if taken := [name for name in given if name in reserved or "-" in name]:
        raise ValueError(
            f"a completer is called {taken[0]!r}: give it a name without dashes that is none of {', '.join(reserved)}"
        )
    for name in settings.baselines:
        if name.partition("-")[0] != "completed":
            raise ValueError(f"unknown baseline {name!r}, expected completed-NAME, such as completed-ipa")
    asked = [name.split("-")[1] for name in (*settings.scores, *settings.baselines) if name.startswith("completed-")]
    fillers = [name for name in dict.fromkeys(asked) if name in BASELINES]
    return {**baselines_of(fillers, data.train), **given}


def _tell_numbers(context: OODContext, say: Say) -> None:
    """What one should know before long work."""
    sets = ", ".join(f"{name} {len(images):,}" for name, images in context.levels.items())
    say(f"{len(context.methods)} methods, made of {len(context.readings.all)} readings; images: {sets}")
