"""`experiment`: policies compared by how well their scans let g tell who has a finding, in as many sittings and
processes as it takes.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch

from condvae.baselines import Completer, NearestTrainingImages
from condvae.completers import ModelCompleter
from condvae.data import Dataset
from condvae.design.classifier import Classifier
from condvae.design.experiment import report
from condvae.design.experiment.plan import IPA, NEAREST, Settings
from condvae.design.experiment.runs import BLOCK, Laboratory
from condvae.design.experiment.tasks import tasks_of
from condvae.design.scanning import full_image
from condvae.partial import ConditionalVAE
from condvae.registry import Say, silent
from condvae.sample import Pixels
from condvae.sampler import Sampler
from condvae.temperature import TemperatureLike, per_group
from condvae.train.world import World
from condvae.workshare import Shard, work

_PIXELS_AT_ONCE = {"cuda": 2**18, "cpu": 2**15}
"""Of the completions that a model computes together."""


def experiment(
    model: ConditionalVAE | None,
    classifier: Classifier,
    data: Dataset,
    out: Path,
    *,
    settings: Settings | None = None,
    completers: Mapping[str, Completer] | None = None,
    temperature: TemperatureLike = 1.0,
    pixels: Pixels = "mean",
    data_name: str = "",
    block: int | None = None,
    world: World | None = None,
    shard: Shard | None = None,
    say: Say = print,
) -> dict[str, Any] | None:
    """Scan the test images by every policy and report how well g does; the report is also written to `out`.

    model: completes for the policies eig-ipa and epe-ipa, at that temperature. completers: {NAME: completer} for
    policies called eig-NAME and epe-NAME. block: images that are scanned together.

    What is there already is not done again: a killed call goes on, and a policy or a task can be added later. None
    where the report is not this process's to write: of shards, and of ranks that do not lead.
    """
    settings = settings or Settings()
    world = world or World(0, 1, _device(model, classifier))
    say = say if world.leads else silent
    _check_data(data, classifier, world.device)
    made = _completers(model, data, settings, dict(completers or {}), temperature, pixels, say)
    lab = Laboratory(classifier, data, settings, made, world.device)
    tasks = tasks_of(settings.tasks, classifier, data.test.subset(lab.rows), data.label_names)
    report.claim(out)
    size = block or BLOCK.get(world.device.type, BLOCK["cpu"])
    jobs = list(lab.jobs([task.variable for task in tasks], out, size))
    for task in tasks:
        if task.trouble:
            say(task.trouble)
    work(lab.chores(jobs), shard or Shard(world.rank + 1, world.size), say, shows=world.leads)
    world.sum(torch.zeros(1, device=world.device))  # here all have finished
    if shard is not None:
        say(f"shard {shard.number} of {shard.of} is through: a call without --shard, after all of them, reports")
    if shard is not None or not world.leads:
        return None
    result = report.assemble(jobs, tasks, lab, data_name=data_name or data.kind)
    report.write(result, out, say)
    return result


def _completers(
    model: ConditionalVAE | None,
    data: Dataset,
    settings: Settings,
    given: dict[str, Completer],
    temperature: TemperatureLike,
    pixels: Pixels,
    say: Say,
) -> dict[str, Completer]:
    """Those that policies ask for, by name."""
    if reserved := sorted({IPA, NEAREST} & given.keys()):
        raise ValueError(f"a completer is called {reserved[0]!r}, which has a meaning already: give it another name")
    made: dict[str, Completer] = {}
    for policy in settings.policies:
        name = settings.way(policy).completer
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
    model: ConditionalVAE, data: Dataset, n: int, temperature: TemperatureLike, pixels: Pixels, say: Say
) -> ModelCompleter:
    config, device = model.artifact.config, model.artifact.decoder.gain.device
    if model.partial_config.channels != config.channels + 1:
        raise ValueError("the model was not trained to complete images, which is what is asked of it here")
    if (config.image_size, config.channels) != (data.test.size, data.test.channels):
        raise ValueError(
            f"the data has images of {data.test.size} x {data.test.size} x {data.test.channels}, the model makes "
            f"{config.image_size} x {config.image_size} x {config.channels}: give data of its kind"
        )
    # On a CPU "auto" would take whichever precision is faster at the moment: no two runs need agree.
    precision: Literal["auto", "fp32"] = "auto" if device.type == "cuda" else "fp32"
    beside = max(1, _PIXELS_AT_ONCE.get(device.type, 2**15) // (n * config.image_size**2))
    sampler = Sampler(model, precision=precision, chunk=n * beside, say=say)
    return ModelCompleter(name=IPA, sampler=sampler, temperature=per_group(temperature, config), pixels=pixels)


def _check_data(data: Dataset, classifier: Classifier, device: torch.device) -> None:
    """Raise a ValueError for what could not be scanned, before anything is."""
    if not len(data.test):
        raise ValueError("there are no test images to scan: give data that has some, such as a folder test/")
    if not len(data.train):
        raise ValueError("there are no training images, by which the first scan is chosen: give data that has some")
    # An image that the classifier does not take is refused here and not minutes later.
    images = data.test.take(np.zeros(1, dtype=np.int64)).images.to(device)
    said, expected = full_image(images, classifier), (1, len(classifier.names), classifier.outcomes)
    if said.shape != expected:
        raise ValueError(f"the classifier gave {list(said.shape)} for one image, expected {list(expected)}")


def _device(model: ConditionalVAE | None, classifier: Classifier) -> torch.device:
    if model is not None:
        return model.artifact.decoder.gain.device
    weights = getattr(classifier, "parameters", lambda: iter(()))
    first = next(iter(weights()), None)
    return torch.device("cpu") if first is None else torch.device(first.device)
