"""`experiment`: policies compared by how well their scans let g tell who has a finding, in as many calls and processes
as it takes.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from condvae.completers import NearestTrainingImages
from condvae.completers.interface import Completer
from condvae.completers.model_completer import ModelCompleter
from condvae.conditional import ConditionalVAE
from condvae.data import Dataset
from condvae.design.classifier import Classifier
from condvae.design.scanning import full_image
from condvae.design.sources import check_completes
from condvae.experiments.design import report
from condvae.experiments.design.jobs import jobs_of, work_units
from condvae.experiments.design.measure import DesignContext
from condvae.experiments.design.plan import IPA, NEAREST, DesignSettings
from condvae.experiments.design.tasks import tasks_of
from condvae.experiments.resumable_work import Shard, work_together
from condvae.runtime.checks import check_whole
from condvae.runtime.messages import Say, silent
from condvae.runtime.ranks import World
from condvae.sampling.plain import PixelChoice
from condvae.vdvae.temperature import TemperatureLike

_PIXELS_AT_ONCE = {"cuda": 2**18, "cpu": 2**15}
"""Of the completions that a model computes together, those of an image always."""


def experiment(
    model: ConditionalVAE | None,
    classifier: Classifier,
    data: Dataset,
    out: Path,
    *,
    settings: DesignSettings | None = None,
    completers: Mapping[str, Completer] | None = None,
    temperature: TemperatureLike = 1.0,
    pixels: PixelChoice = "mean",
    data_name: str = "",
    model_name: str | None = None,
    classifier_name: str | None = None,
    block: int | None = None,
    world: World | None = None,
    shard: Shard | None = None,
    say: Say = print,
) -> dict[str, Any] | None:
    """Scan the test images by every policy and report how well g does; the report is also written to `out`.

    model: completes for the policies eig-ipa and epe-ipa, at that temperature. completers: {NAME: completer} for
    policies called eig-NAME and epe-NAME. block: images that are scanned together. data_name, model_name,
    classifier_name: as the report calls them.

    What is there already is not done again: a killed call goes on, and a policy or a task can be added later. None
    where the report is not this process's to write: of shards, and of ranks that do not lead.
    """
    settings = settings or DesignSettings()
    if block is not None:
        check_whole(block, "the number of images that are scanned together", least=1)
    world = world or World(0, 1, _device(model, classifier))
    say = say if world.leads else silent
    _check_data(data, classifier, world.device)
    made = _completers(model, data, settings, dict(completers or {}), temperature, pixels, say)
    context = DesignContext(classifier, data, settings, made, world.device)
    tasks = tasks_of(settings.tasks, classifier, context.test, data.label_names)
    _check_steps(context)
    report.REPORT.claim(out)
    _tell(data, context, say)
    jobs = list(jobs_of(context, [task.variable for task in tasks], out, block))
    for task in tasks:
        if task.trouble:
            say(task.trouble)
    if not work_together(work_units(jobs, context), world, shard, say):
        return None
    names = {"data": data_name or data.kind, "model": model_name, "classifier": classifier_name}
    result = report.assemble(jobs, tasks, context, names)
    report.REPORT.write(result, out, say)
    return result


def _completers(
    model: ConditionalVAE | None,
    data: Dataset,
    settings: DesignSettings,
    given: dict[str, Completer],
    temperature: TemperatureLike,
    pixels: PixelChoice,
    say: Say,
) -> dict[str, Completer]:
    """Those that policies ask for, by name."""
    if reserved := sorted({IPA, NEAREST} & given.keys()):
        raise ValueError(f"a completer is called {reserved[0]!r}, which has a meaning already: give it another name")
    made: dict[str, Completer] = {}
    for policy in settings.policies:
        name = settings.spec(policy).completer
        if name is None or name in made:
            continue
        if name == NEAREST:
            made[name] = NearestTrainingImages(images=data.train)
        elif name == IPA:
            if model is None:
                raise ValueError(f"{policy} needs a model: give one, or other --policies")
            made[name] = _model_completer(model, data, settings.n, temperature, pixels, say)
        elif name in given:
            made[name] = given[name]
        else:
            there = ", ".join([IPA, NEAREST, *given])
            raise ValueError(f"{policy} needs a completer called {name}, there are {there}: give it in `completers`")
    return made


def _model_completer(
    model: ConditionalVAE, data: Dataset, n: int, temperature: TemperatureLike, pixels: PixelChoice, say: Say
) -> ModelCompleter:
    config = model.artifact.config
    check_completes(model)
    if (config.image_size, config.channels) != (data.test.size, data.test.channels):
        raise ValueError(
            f"the data has images of {data.test.size} x {data.test.size} x {data.test.channels}, the model makes "
            f"{config.image_size} x {config.image_size} x {config.channels}: give data of its kind"
        )
    chunk = sampler_chunk(model, n)
    return ModelCompleter.of(model, name=IPA, temperature=temperature, pixels=pixels, chunk=chunk, say=say)


def sampler_chunk(model: ConditionalVAE, n: int) -> int:
    """Completions that a model computes together where each image has n."""
    device, size = model.device, model.artifact.config.image_size
    return n * max(1, _PIXELS_AT_ONCE.get(device.type, _PIXELS_AT_ONCE["cpu"]) // (n * size**2))


def _check_data(data: Dataset, classifier: Classifier, device: torch.device) -> None:
    """Raise a ValueError for what could not be scanned, before anything is."""
    if not len(data.test):
        raise ValueError("there are no test images to scan: give data that has some, such as a folder test/")
    if not len(data.train):
        raise ValueError("there are no training images, by which the first scan is chosen: give data that has some")
    # An image that the classifier does not take is refused here and not minutes later.
    images = data.test.take(np.zeros(1, dtype=np.int64)).images.to(device)
    full_image(images, classifier)


def _check_steps(context: DesignContext) -> None:
    """Raise a ValueError if a scan could find nothing new to show, which would come out minutes later."""
    most, side, steps = context.candidates.scans_for_all, context.candidates.side, context.settings.steps
    if steps > most and any(context.settings.spec(policy).kind != "full" for policy in context.settings.policies):
        raise ValueError(
            f"{steps} scans were asked for, but {most} of {side} x {side} pixels can show all there is, and nothing is "
            f"left to scan: give at most {most} --steps, or a smaller --side"
        )


def _tell(data: Dataset, context: DesignContext, say: Say) -> None:
    """What one should know before hours of work."""
    say(f"data: {data.summary()}")
    if context.test.members is None:
        say("the data does not say whose images they are: intervals are over images, as if no two were of one patient")
    elif shared := data.seen_before(context.test):
        count = len(np.unique(context.test.members))
        say(f"{shared} of the {count} patients are in training images too, which flatters every number")
    specs = [context.settings.spec(policy) for policy in context.settings.policies]
    if any(spec.n == 1 and spec.estimator == "eig" and spec.kind in ("completions", "uncond") for spec in specs):
        say("by one image no location tells more than another, so policies by eig choose at random: give -n 2 or more")


def _device(model: ConditionalVAE | None, classifier: Classifier) -> torch.device:
    if model is not None:
        return model.device
    weights = getattr(classifier, "parameters", lambda: iter(()))
    first = next(iter(weights()), None)
    return torch.device("cpu") if first is None else torch.device(first.device)
