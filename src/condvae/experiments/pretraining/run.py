"""`experiment`: train all arms, measure their snapshots and write the report, in any number of calls and processes."""

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from condvae import observe
from condvae.data import Dataset, open_data
from condvae.experiments.pretraining import report
from condvae.experiments.pretraining.jobs import jobs_of
from condvae.experiments.pretraining.measure import PretrainingContext
from condvae.experiments.pretraining.plan import COMPLETION, SCRATCH, PretrainingSettings
from condvae.experiments.pretraining.training_runs import Arm
from condvae.experiments.resumable_work import Shard, work_together
from condvae.metrics.feature_networks import FeatureNetworks
from condvae.observe import Label, LinearProcess, PictureProcess
from condvae.runtime.folders import check_apart
from condvae.runtime.messages import Say
from condvae.runtime.ranks import World
from condvae.training import TrainOptions, options_for
from condvae.vdvae import preset


def experiment(
    artifacts: Mapping[str, str | Path],
    data: str | Path,
    out: Path,
    *,
    networks: FeatureNetworks,
    world: World,
    settings: PretrainingSettings | None = None,
    shard: Shard | None = None,
    pace_only: bool = False,
    only: Collection[str] = (),
    say: Say = print,
) -> dict[str, Any] | None:
    """Compare conditional training with artifacts and from scratch; return the numbers and write a report to `out`.

    artifacts: {name of the arm: model file or name}. The first one is also used for the other conditions. All must have
    the network of `settings.preset`. The arm called scratch has no artifact.
    pace_only: only measure the time of a step of each arm. Do this first if several processes will share a device,
    since they slow each other down. It does not depend on the weights of the artifacts, so any with the right network
    will do.
    only: names of arms. Only their work is done, and the artifacts of other arms may be missing. A later call without
    it uses the results.

    Results that are already in `out` are reused, and interrupted trainings are resumed, so a killed call can be
    repeated. The return value is None with a shard, `pace_only` or `only`.
    """
    settings = settings or PretrainingSettings()
    if world.size > 1:
        raise ValueError("the experiment cannot run under torchrun: run one process for each shard, with --shard I/N")
    if not artifacts and not only:
        raise ValueError("no artifact was given, expected at least one: the first one is compared on all conditions")
    check_apart(str(data), out)
    arms = read_arms(artifacts, settings, only)
    opened = open_data_for(settings, data)
    report.REPORT.claim(out)
    say(f"data: {opened.summary()}")
    context = PretrainingContext(opened, Path(data), settings, networks, world.device)
    jobs = jobs_of(context, arms, out)
    units = jobs.units(context, pace_only=pace_only)
    finished = work_together(units, world, shard, say, guide="docs/guides/train.md")
    if finished and pace_only:
        for job in jobs.pace:
            say(f"{job.run}: {1000 * job.of_training('seconds_per_step'):.2f} ms per step")
    if not finished or pace_only or only:
        return None
    jobs.check_whole(context)
    result = report.assemble(jobs, context, arms, Path(data).name)
    report.write(result, jobs, context, out, say)
    return result


def read_arms(
    artifacts: Mapping[str, str | Path], settings: PretrainingSettings, only: Collection[str] = ()
) -> list[Arm]:
    """Return the arm without an artifact, and one arm for each artifact. only: names of arms, or () for all."""
    names = (SCRATCH, *artifacts)
    if unknown := [name for name in only if name not in names]:
        raise ValueError(f"--only contains {unknown[0]}, expected some of {', '.join(names)}")
    arms = [Arm(name=SCRATCH)] if not only or SCRATCH in only else []
    for number, (name, path) in enumerate(artifacts.items()):
        if not only or name in only:
            arms.append(Arm.with_artifact(name, path, settings, for_conditions=number == 0))
    return arms


def open_data_for(settings: PretrainingSettings, path: str | Path) -> Dataset:
    """Open the data, with the images that all trainings hold out as validation set.

    Raise a ValueError if there are too few images, or if they do not fit the network or a condition.
    """
    data = open_data(path, validation=settings.validation)
    wanted = preset(settings.network)
    if (data.train.size, data.train.channels) != (wanted.image_size, wanted.channels):
        raise ValueError(
            f"the data has images of {data.train.size} x {data.train.size} x {data.train.channels}, but the network "
            f"{settings.network} makes {wanted.image_size} x {wanted.image_size} x {wanted.channels}: give other data"
        )
    batch = settings.batch or options_for(TrainOptions, settings.preset, data=(Path(),), out=Path()).batch
    if len(data.train) < batch:
        raise ValueError(
            f"the data has {len(data.train):,} training images beside the {len(data.validation):,} for validation, but "
            f"a batch has {batch:,}: give more images, or a smaller --validation or --batch"
        )
    _check_main(settings.condition, data)
    if len(data.test) < settings.images:
        raise ValueError(
            f"the data has {len(data.test):,} test images, but --images is {settings.images:,}: give more test images, "
            f"or --images {len(data.test)}"
        )
    settings.for_test_set(len(data.test))  # checks that the other numbers of images fit
    for condition in settings.conditions:
        process = observe.parse((condition,))
        if not isinstance(process, Label | LinearProcess):
            raise ValueError(
                f"--conditions contains {condition}, expected grey, low-resolution or label: leave it out, since its "
                "information beyond the latents cannot be measured"
            )
        if isinstance(process, LinearProcess) and wanted.likelihood.kind != "gaussian":
            raise ValueError(
                f"the condition {condition} needs Gaussian pixels, but the likelihood of the network "
                f"{settings.network} is {wanted.likelihood.kind}: leave it out of --conditions, or give another preset"
            )
        if isinstance(process, Label) and data.test.labels is None:
            raise ValueError(f"the data has no labels for the condition {condition}: leave it out of --conditions")
    return data


def _check_main(condition: str, data: Dataset) -> None:
    """Raise a ValueError unless the main condition is completion, or a translation that the data can be used for."""
    if condition == COMPLETION:
        return
    process = observe.parse((condition,))
    if not isinstance(process, Label | PictureProcess):
        raise ValueError(f"--condition is {condition}, expected {COMPLETION} or a translation, such as edges")
    one = data.test.take(np.arange(1)).batch()
    process.observe(one, normalise=lambda images: images, generator=torch.Generator())
