"""Run an experiment that compares how well scores separate strange from ordinary images. It can be resumed."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from condvae.completers.baseline_names import BASELINES
from condvae.completers.by_name import baselines_of
from condvae.completers.interface import Completer
from condvae.conditional import ConditionalVAE
from condvae.data import Dataset
from condvae.experiments.named_completers import CompleterLike, open_completers
from condvae.experiments.ood import report
from condvae.experiments.ood.jobs import jobs_of, work_units
from condvae.experiments.ood.measure import TEST, TRAINING, OODContext
from condvae.experiments.ood.plan import OODSettings
from condvae.experiments.ood.summary import ALL, PAPERS
from condvae.experiments.resumable_work import Shard, work_together
from condvae.ood.completion_score import ITSELF
from condvae.ood.strange_sets import Foreign, OODSet, own
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
    completers: Mapping[str, CompleterLike] | None = None,
    data_name: str = "",
    block: int | None = None,
    world: World | None = None,
    shard: Shard | None = None,
    say: Say = print,
) -> dict[str, Any] | None:
    """Score test images and strange images by every method; return the AUROCs, and write them as a report to `out`.

    models: {name in the report: model}. foreign: {name: data set}, other data whose images count as strange; they must
    have the models' image size. data_name: the name of `data` in the report. block: the number of images in a unit of
    work.
    completers: {NAME: completer}, used by the baselines called completed-NAME; a completer is any object that completes
    images, or a model: a learned baseline or a conditional VAE, its name, or its path. If the settings name no score
    that uses a completer, the baseline completed-NAME is added.

    Results that are already in `out` are reused. So repeating a killed call continues it, and models, scores and sets
    can be added later. Only the process that writes the report returns a result; a shard, and each rank except the
    first, returns None.
    """
    settings = settings or OODSettings()
    if block is not None:
        check_whole(block, "the number of images in a block", least=1)
    device = check_models(models)
    world = world or World(0, 1, device)
    say = say if world.leads else silent
    _check_data(data)
    given = dict(completers or {})
    settings = _with_baselines(settings, given)
    made = {**_simple_completers(settings, data), **_opened(given, next(iter(models.values())))}
    context = OODContext(models, data, settings, _sets(settings, dict(foreign or {})), made, device)
    context.check()
    report.REPORT.claim(out)
    say(f"data: {data.summary()}")
    _tell_numbers(context, say)
    jobs = list(jobs_of(context, out, block))
    if not work_together(work_units(jobs, context), world, shard, say, guide="docs/guides/detect.md"):
        return None
    result = report.assemble(jobs, context, data_name or data.kind)
    report.write(result, context, out, say)
    return result


def check_models(models: Mapping[str, ConditionalVAE]) -> torch.device:
    """Return the device of the models. Raise ValueError if the models do not suit the experiment or each other."""
    if not models:
        raise ValueError("no models were given, expected at least one")
    takes = {name: (model.artifact.config.image_size, model.artifact.config.channels) for name, model in models.items()}
    for name, model in models.items():
        if not name.strip() or not name.isprintable():
            raise ValueError(f"the model name {name!r} is empty or unprintable: give another name")
        if model.partial_config.channels != model.artifact.config.channels + 1:
            raise ValueError(f"the model {name} was not trained to complete holes: give a model that completes holes")
    (first, one), *_ = takes.items()
    for name, other in takes.items():
        if other != one:
            raise ValueError(
                f"{first} takes images of {one[0]} x {one[0]} x {one[1]}, but {name} takes {other[0]} x {other[0]} x "
                f"{other[1]} (height, width, channels): give models that take the same images"
            )
    return next(iter(models.values())).device


def _check_data(data: Dataset) -> None:
    if len(data.test) < 2:
        raise ValueError(
            f"the number of test images is {len(data.test)}, expected at least 2: give data with test images"
        )
    if len(data.train) < 2:
        raise ValueError(
            f"the number of training images is {len(data.train)}, but fitting a density needs at least 2: give data "
            "with training images"
        )


def _sets(settings: OODSettings, foreign: Mapping[str, Dataset]) -> Sequence[OODSet]:
    """Return the sets of strange images: the built-in sets in `settings.sets`, then the other data sets."""
    sets: list[OODSet] = [own(name) for name in settings.sets]
    for name, data in foreign.items():
        if name in {TEST, TRAINING, ALL, PAPERS, *(one.name for one in sets)} or not name.strip():
            raise ValueError(f"the set name {name!r} is empty or already in use: give another name")
        sets.append(Foreign(name=name, data=data))
    if not sets:
        raise ValueError("no sets of strange images were given: give --sets, or other data with --against NAME=PATH")
    return sets


def _with_baselines(settings: OODSettings, given: Mapping[str, CompleterLike]) -> OODSettings:
    """Return settings with a baseline completed-NAME for each given completer that no score uses yet."""
    reserved = (ITSELF, *BASELINES)
    for name in given:
        if name in reserved or "-" in name or not name.strip() or not name.isprintable():
            raise ValueError(
                f"a completer cannot be called {name!r}: give it a name that contains no dash and is not one of "
                f"{', '.join(reserved)}"
            )
    for name in settings.baselines:
        if name.partition("-")[0] != "completed":
            raise ValueError(f"unknown baseline {name!r}, expected completed-NAME, such as completed-ipa")
    used = _used_completers(settings)
    return replace(
        settings, baselines=(*settings.baselines, *(f"completed-{name}" for name in given if name not in used))
    )


def _used_completers(settings: OODSettings) -> list[str]:
    """Return the names of the completers that some score completed-NAME uses."""
    asked = [name.split("-")[1] for name in (*settings.scores, *settings.baselines) if name.startswith("completed-")]
    return list(dict.fromkeys(asked))


def _simple_completers(settings: OODSettings, data: Dataset) -> dict[str, Completer]:
    """Return the completers that are made from training images, if some score uses them."""
    return baselines_of([name for name in _used_completers(settings) if name in BASELINES], data.train)


def _opened(given: Mapping[str, CompleterLike], model: ConditionalVAE) -> dict[str, Completer]:
    """Open the given completers, which must complete images like those of the scored model, on its device."""
    return open_completers(given, size=model.image_size, channels=model.channels, device=model.device)


def _tell_numbers(context: OODContext, say: Say) -> None:
    """Print the numbers of methods, of kinds of features and of images, before the work begins."""
    sets = ", ".join(f"{name} {len(images):,}" for name, images in context.levels.items())
    say(f"{len(context.methods)} methods, computed from {len(context.readings.all)} kinds of features; images: {sets}")
