"""`experiment`: compare policies by how well g predicts findings from their scans. The work can be split over several
calls and processes.
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
from condvae.runtime.messages import Say, silent, warn_with
from condvae.runtime.ranks import World
from condvae.sampling.plain import PixelChoice
from condvae.vdvae.temperature import TemperatureLike

_PIXELS_AT_ONCE = {"cuda": 2**18, "cpu": 2**15}
"""The most pixels of completions that are computed together. All completions of one image are always together."""


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
    """Scan the test images with every policy, write a report on how well g then predicts to `out`, and return it.

    model: draws completions for the policies eig-ipa and epe-ipa, with the given temperature and pixels.
    completers: other completers by NAME, for policies called eig-NAME and epe-NAME.
    block: number of images that are scanned together.
    data_name, model_name, classifier_name: the names of data, model and classifier in the report.

    Results that already exist in `out` are kept: a killed call continues, and policies or tasks can be added later.
    Returns None in processes that do not write the report: shards, and ranks other than the first.
    """
    settings = settings or DesignSettings()
    if block is not None:
        check_whole(block, "the number of images scanned together", least=1)
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
            warn_with(say)(task.trouble)
    if not work_together(work_units(jobs, context), world, shard, say, guide="docs/guides/design.md"):
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
    """Return the completers that the policies need, by name."""
    if reserved := sorted({IPA, NEAREST} & given.keys()):
        raise ValueError(f"the completer name {reserved[0]!r} is reserved: give the completer another name")
    made: dict[str, Completer] = {}
    for policy in settings.policies:
        name = settings.spec(policy).completer
        if name is None or name in made:
            continue
        if name == NEAREST:
            made[name] = NearestTrainingImages(images=data.train)
        elif name == IPA:
            if model is None:
                raise ValueError(f"{policy} needs a model: give a model, or choose other --policies")
            made[name] = _model_completer(model, data, settings.n, temperature, pixels, say)
        elif name in given:
            made[name] = given[name]
        else:
            there = ", ".join([IPA, NEAREST, *given])
            raise ValueError(
                f"{policy} needs a completer called {name}, but the completers are {there}: add it to `completers`"
            )
    return made


def _model_completer(
    model: ConditionalVAE, data: Dataset, n: int, temperature: TemperatureLike, pixels: PixelChoice, say: Say
) -> ModelCompleter:
    config = model.artifact.config
    check_completes(model)
    if (config.image_size, config.channels) != (data.test.size, data.test.channels):
        raise ValueError(
            f"the images are {data.test.size} x {data.test.size} x {data.test.channels}, but the model makes "
            f"{config.image_size} x {config.image_size} x {config.channels}: give a model for these images"
        )
    chunk = sampler_chunk(model, n)
    return ModelCompleter.of(model, name=IPA, temperature=temperature, pixels=pixels, chunk=chunk, say=say)


def sampler_chunk(model: ConditionalVAE, n: int) -> int:
    """Return how many completions the model computes together: a multiple of n, the number of completions per image."""
    device, size = model.device, model.artifact.config.image_size
    return n * max(1, _PIXELS_AT_ONCE.get(device.type, _PIXELS_AT_ONCE["cpu"]) // (n * size**2))


def _check_data(data: Dataset, classifier: Classifier, device: torch.device) -> None:
    """Raise a ValueError if the data cannot be scanned, before any work is done."""
    if not len(data.test):
        raise ValueError("there are no test images to scan: give data with test images, such as a folder test/")
    if not len(data.train):
        raise ValueError(
            "there are no training images, which are needed to choose the first scan: give data with training images"
        )
    # Try one image, so that a classifier for other images fails here and not minutes later.
    images = data.test.take(np.zeros(1, dtype=np.int64)).images.to(device)
    full_image(images, classifier)


def _check_steps(context: DesignContext) -> None:
    """Raise a ValueError if the last scans could find no hidden pixel, because this would be an error minutes later."""
    most, side, steps = context.candidates.scans_for_all, context.candidates.side, context.settings.steps
    if steps > most and any(context.settings.spec(policy).kind != "full" for policy in context.settings.policies):
        raise ValueError(
            f"--steps is {steps}, but {most} scans of {side} x {side} pixels can cover the whole grid, after which "
            f"nothing is left to scan: give at most --steps {most}, or a smaller --side"
        )


def _tell(data: Dataset, context: DesignContext, say: Say) -> None:
    """Print a summary of the data, and warnings, before the long computation."""
    say(f"data: {data.summary()}")
    warn = warn_with(say)
    if context.test.members is None:
        warn("the data does not name patients: intervals treat every image as a separate patient")
    elif shared := data.seen_before(context.test):
        count = len(np.unique(context.test.members))
        warn(f"{shared} of the {count} test patients also have training images, which makes every result look too good")
    specs = [context.settings.spec(policy) for policy in context.settings.policies]
    if any(spec.n == 1 and spec.estimator == "eig" and spec.kind in ("completions", "uncond") for spec in specs):
        warn(
            "with only one completion or training image every EIG is 0, so policies that maximise it choose at random: "
            "give -n 2 or more"
        )


def _device(model: ConditionalVAE | None, classifier: Classifier) -> torch.device:
    if model is not None:
        return model.device
    weights = getattr(classifier, "parameters", lambda: iter(()))
    first = next(iter(weights()), None)
    return torch.device("cpu") if first is None else torch.device(first.device)
