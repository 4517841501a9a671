"""Run the experiment on pretraining for one or several data sets, with several processes that share a device."""

import dataclasses
import sys
from collections.abc import Callable, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, fields
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias

from condvae.experiments.pretraining import PretrainingSettings, Shard, experiment
from condvae.experiments.pretraining.run import open_data_for, read_arms
from condvae.experiments.pretraining.training_runs import TrainingRun, runs_of
from condvae.metrics.feature_networks import FeatureNetworks
from condvae.runtime.checks import check_whole
from condvae.runtime.ranks import join
from condvae.runtime.scripts import run_script
from condvae.training import Stopped


@dataclass(frozen=True, kw_only=True)
class WorkOptions(PretrainingSettings):
    """What is trained and measured, and how the work is shared."""

    only: tuple[str, ...] = ()
    """Do only the work of these arms, such as scratch. The artifacts of other arms may be missing. Repeat the command
    without this option for the rest and for the report."""
    shard: str | None = None
    """Do only shard I of N, given as I/N."""
    pace_only: bool = False
    """Only measure the time of a step, before anything else runs on the device."""
    processes: int = 1
    """How many processes share the work on this machine. The time of a step is measured before they start."""
    precision: Literal["exact", "fast"] = "exact"
    """Precision of the Inception network; see `condvae evaluate --help`."""
    device: str = "auto"
    """Where to compute. auto uses a GPU if there is one."""

    def __post_init__(self) -> None:
        """Check nothing: `settings_of` checks the settings, so that the message is one line and not a box of tyro."""


class Task(NamedTuple):
    """One experiment: the arguments of `experiment` that differ between data sets."""

    artifacts: Mapping[str, str | Path]
    data: Path
    out: Path


TasksOf: TypeAlias = Callable[[Any], list[Task]]
"""A function from the options of a recipe to its tasks. Other processes call it, too, so it has a name in a module."""


def work_on(options: WorkOptions, tasks_of: TasksOf) -> None:
    """Do the work of all tasks, in as many processes as the options say."""
    check_whole(options.processes, "--processes", least=1)
    if options.processes == 1:
        run(options, tasks_of)
        return
    if options.shard is not None or options.pace_only:
        raise ValueError("--processes cannot be combined with --shard or --pace-only: leave one of them out")
    alone = dataclasses.replace(options, processes=1)
    with pool(1) as one:  # a process of its own, so that this one holds no memory of the GPU
        one.submit(run, dataclasses.replace(alone, pace_only=True), tasks_of).result()
    with pool(options.processes) as several:
        started = [
            several.submit(run, dataclasses.replace(alone, shard=shard), tasks_of, number)
            for number, shard in shards_of(options, tasks_of(options))
        ]
        try:
            for future in started:
                future.result()
        except BaseException:
            several.shutdown(wait=False, cancel_futures=True)
            raise
    run(alone, tasks_of)


def pool(processes: int) -> ProcessPoolExecutor:
    """Return a pool of processes in which each shard gets a new process, which frees its memory at the end."""
    return ProcessPoolExecutor(processes, mp_context=get_context("spawn"), max_tasks_per_child=1)


def shards_of(options: WorkOptions, tasks: list[Task]) -> list[tuple[int, str]]:
    """List the number of the task and the shard of each training. Those from scratch come first; they take longest."""
    settings, found = settings_of(options), list[tuple[TrainingRun, int, str]]()
    for number, task in enumerate(tasks):
        runs = runs_of(read_arms(task.artifacts, settings, options.only), settings)
        shards = (f"{i}/{len(runs)}" for i in range(1, len(runs) + 1))
        found += [(one, number, shard) for one, shard in zip(runs, shards, strict=True) if one.steps]
    found.sort(key=lambda one: one[0].arm.artifact is not None)
    return [(number, shard) for _, number, shard in found]


def settings_of(options: WorkOptions) -> PretrainingSettings:
    return PretrainingSettings(**{one.name: getattr(options, one.name) for one in fields(PretrainingSettings)})


def run(options: WorkOptions, tasks_of: TasksOf, number: int | None = None) -> None:
    """Do the work of one process, for the task with this number, or for all."""
    settings = settings_of(options)
    with join(options.device) as world:
        shard = Shard.of_text(options.shard, ranks=world.size)
        networks = FeatureNetworks.load(world.device, inception=options.precision)
        tasks = tasks_of(options)
        if len(tasks) > 1 and number is None:  # bad input of the last task is found before the work of the first
            for task in tasks:
                open_data_for(settings, task.data)
        for task in tasks if number is None else tasks[number : number + 1]:
            experiment(
                task.artifacts,
                task.data,
                task.out,
                networks=networks,
                world=world,
                settings=settings,
                shard=shard,
                pace_only=options.pace_only,
                only=options.only,
            )


def run_recipe(main: Callable[[Any], None], options: type[WorkOptions], description: str) -> None:
    """Run a recipe with the options of the command line. If it is interrupted, say that it can be resumed."""
    try:
        run_script(main, options, description)
    except (KeyboardInterrupt, Stopped):
        print("interrupted: repeat the command to resume", file=sys.stderr)
        sys.exit(130)
