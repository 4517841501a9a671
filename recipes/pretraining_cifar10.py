r"""Does pretraining pay? Train conditional VAEs on CIFAR-10 from scratch, with an artifact of CIFAR-10, and with one of
other images, three times each, and measure them against time, as in the paper's figure fig:training.

    condvae fetch cifar10
    condvae fetch metrics
    python recipes/pretraining_cifar10.py --out out/pretraining --other tiny64-a.zip tiny64-b.zip \
        --short-minutes 1.5 --precision fast --processes 8

If the command is interrupted, repeat it to resume. These networks are too small to fill a large GPU, so several
processes finish earlier than one, most of all under NVIDIA's Multi-Process Service (nvidia-cuda-mps-control -d).

For a job array, run the command once with --pace-only, which trains the artifacts and measures the time of a step; then
one job for each shard, with --shard 1/9 to 9/9; and at last without both, which writes the report.
recipes/pretraining_results.py makes docs/results/pretraining.md from it.
"""

import dataclasses
import sys
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, fields
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Literal

import tyro

from condvae.experiments.pretraining import PretrainingSettings, Shard, experiment
from condvae.experiments.pretraining.run import open_data_for, read_arms
from condvae.experiments.pretraining.training_runs import runs_of
from condvae.metrics import LPIPS, Inception
from condvae.metrics.feature_networks import FeatureNetworks
from condvae.runtime.checks import check_whole
from condvae.runtime.ranks import join
from condvae.training import PretrainOptions, Stopped, options_for, pretrain
from condvae.vdvae import preset


@dataclass(frozen=True, kw_only=True)
class Options(PretrainingSettings):
    """Run the experiment."""

    out: Path
    """Folder for the report, in experiment/, and for the artifacts that are trained first, in vae-*/."""
    data: Path = Path("cifar10")
    """The data set that all arms are trained and measured on."""
    artifact: str = "cifar10"
    """The artifact of the arm ipa: a VAE that was pretrained on the same data."""
    other: tuple[Path, ...] = ()
    """Other images. If they are given, a VAE is pretrained on them first, for the arm transfer."""
    other_minutes: float = 4.0
    """How many minutes to pretrain the VAE of the arm transfer."""
    short_minutes: float = 0.0
    """If above 0, a VAE is also pretrained on --data for so many minutes, for the arm ipa-short."""
    shard: str | None = None
    """Do only shard I of N, given as I/N."""
    pace_only: bool = False
    """Only train the artifacts and measure the time of a step."""
    processes: int = 1
    """How many processes share the work on this machine. The time of a step is measured before they start."""
    precision: Literal["exact", "fast"] = "exact"
    """Precision of the Inception network; see `condvae evaluate --help`."""
    device: str = "auto"
    """Where to compute. auto uses a GPU if there is one."""

    def __post_init__(self) -> None:
        """Check nothing: `main` checks the settings, so that the message is one line and not a box of tyro."""


def main(options: Options) -> None:
    check_whole(options.processes, "--processes", least=1)
    if options.processes == 1:
        run(options)
        return
    if options.shard is not None or options.pace_only:
        raise ValueError("--processes cannot be combined with --shard or --pace-only: leave one of them out")
    alone = dataclasses.replace(options, processes=1)
    with pool(1) as one:  # a process of its own, so that this one holds no memory of the GPU
        one.submit(run, dataclasses.replace(alone, pace_only=True)).result()
    settings = settings_of(options)
    runs = runs_of(read_arms(artifacts_of(options), settings), settings)  # a shard for each
    shards = [f"{number}/{len(runs)}" for number, one in enumerate(runs, start=1) if one.steps]
    with pool(options.processes) as several:
        started = [several.submit(run, dataclasses.replace(alone, shard=shard)) for shard in shards]
        try:
            for future in started:
                future.result()
        except BaseException:
            several.shutdown(wait=False, cancel_futures=True)
            raise
    run(alone)


def pool(processes: int) -> ProcessPoolExecutor:
    """Return a pool of processes in which each shard gets a new process, which frees its memory at the end."""
    return ProcessPoolExecutor(processes, mp_context=get_context("spawn"), max_tasks_per_child=1)


def settings_of(options: Options) -> PretrainingSettings:
    return PretrainingSettings(**{one.name: getattr(options, one.name) for one in fields(PretrainingSettings)})


def run(options: Options) -> None:
    """Do the work of one process."""
    settings = settings_of(options)
    with join(options.device) as world:
        shard = Shard.of_text(options.shard, ranks=world.size)
        # Checked before the artifacts are trained.
        networks = FeatureNetworks(
            lpips=LPIPS.load().to(world.device),
            inception=Inception.load(precision=options.precision).to(world.device),
        )
        open_data_for(settings, options.data)
        experiment(
            artifacts_of(options),
            options.data,
            options.out / "experiment",
            networks=networks,
            world=world,
            settings=settings,
            shard=shard,
            pace_only=options.pace_only,
        )


def artifacts_of(options: Options) -> dict[str, str | Path]:
    """Return the artifacts by the names of their arms, after training those that are missing."""
    found: dict[str, str | Path] = {"ipa": options.artifact}
    if options.other:
        found["transfer"] = vae_of(options, "other", options.other, options.other_minutes)
    if options.short_minutes:
        found["ipa-short"] = vae_of(options, "short", (options.data,), options.short_minutes)
    return found


def vae_of(options: Options, name: str, data: tuple[Path, ...], minutes: float) -> Path:
    folder = options.out / f"vae-{name}"
    if (model := folder / "model.safetensors").is_file():
        return model
    if options.shard is not None:
        raise ValueError(f"{model} does not exist yet: run the command with --pace-only before the shards")
    given: dict[str, Any] = {"data": data, "minutes": minutes, "out": folder, "resume": True, "device": options.device}
    given |= {"validation": options.validation, "evaluate_on": options.validation, "evaluate_every": 10_000}
    given |= {"checkpoint_every": 5_000, "log_every": 200, "sheet_every": 0}
    given |= {"batch": options.batch} if options.batch else {}
    given |= {"size": preset(options.network).image_size} if name == "other" else {}
    return pretrain(options_for(PretrainOptions, options.preset, **given))


if __name__ == "__main__":
    try:
        main(tyro.cli(Options, description=__doc__))
    except (KeyboardInterrupt, Stopped):
        print("pretraining_cifar10: interrupted: repeat the command to resume", file=sys.stderr)
        sys.exit(130)
    except (ValueError, OSError) as error:
        print(f"pretraining_cifar10: {error}", file=sys.stderr)
        sys.exit(2)
