"""`experiment`: train all arms, measure their snapshots and write the report, in any number of calls and processes."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from condvae import observe
from condvae.data import Dataset, open_data
from condvae.experiments.pretraining import report
from condvae.experiments.pretraining.jobs import jobs_of
from condvae.experiments.pretraining.measure import PretrainingContext
from condvae.experiments.pretraining.plan import SCRATCH, PretrainingSettings
from condvae.experiments.pretraining.training_runs import Arm
from condvae.experiments.resumable_work import Shard, work_together
from condvae.metrics.feature_networks import FeatureNetworks
from condvae.observe import Label, LinearProcess
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
    say: Say = print,
) -> dict[str, Any] | None:
    """Compare conditional training with artifacts and from scratch; return the numbers and write a report to `out`.

    artifacts: {name of the arm: model file or name}. The first one is also used for the other conditions. All must have
    the network of `settings.preset`. The arm called scratch has no artifact.
    pace_only: only measure the time of a step of each arm. Do this first if several processes will share a device,
    since they slow each other down.

    Results that are already in `out` are reused, and interrupted trainings are resumed, so a killed call can be
    repeated. The return value is None with a shard or `pace_only`.
    """
    settings = settings or PretrainingSettings()
    if world.size > 1:
        raise ValueError("the experiment cannot run under torchrun: run one process for each shard, with --shard I/N")
    if not artifacts:
        raise ValueError("no artifact was given, expected at least one: the first one is compared on all conditions")
    check_apart(str(data), out)
    arms = read_arms(artifacts, settings)
    opened = open_data_for(settings, data)
    report.REPORT.claim(out)
    say(f"data: {opened.summary()}")
    context = PretrainingContext(opened, Path(data), settings, networks, world.device)
    jobs = jobs_of(context, arms, out)
    units = jobs.units(context, pace_only=pace_only)
    if not work_together(units, world, shard, say, guide="docs/guides/train.md") or pace_only:
        return None
    jobs.check_whole(context)
    result = report.assemble(jobs, context, arms, Path(data).name)
    report.write(result, jobs, context, out, say)
    return result


def read_arms(artifacts: Mapping[str, str | Path], settings: PretrainingSettings) -> list[Arm]:
    """Return the arm without an artifact, and one arm for each artifact."""
    return [Arm(name=SCRATCH), *(Arm.with_artifact(name, path, settings) for name, path in artifacts.items())]


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
    if len(data.test) < settings.images:
        raise ValueError(
            f"the data has {len(data.test):,} test images, but --images is {settings.images:,}: give more test images, "
            f"or --images {len(data.test)}"
        )
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
