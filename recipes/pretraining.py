r"""Does pretraining pay? Train conditional VAEs on CIFAR-10 from scratch, with an artifact of CIFAR-10, and with one of
other images, three times each, and measure them against time, as in the paper's figure fig:training.

    condvae fetch cifar10
    condvae fetch metrics
    python recipes/pretraining.py --out out/pretraining --other tiny64-a.zip tiny64-b.zip \
        --short-minutes 1.5 --precision fast --processes 8

If the command is interrupted, repeat it to resume. These networks are too small to fill a large GPU, so several
processes finish earlier than one, most of all under NVIDIA's Multi-Process Service (nvidia-cuda-mps-control -d).

For a job array, run the command once with --pace-only, which trains the artifacts and measures the time of a step; then
one job for each shard, with --shard 1/9 to 9/9; and at last without both, which writes the report.
recipes/pretraining_results.py makes docs/results/pretraining.md from it.
"""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from condvae.experiments.pretraining.run import open_data_for
from condvae.training import PretrainOptions, options_for, pretrain
from condvae.vdvae import preset

sys.path.insert(0, str(Path(__file__).parents[1]))
from recipes.pretraining_work import Task, WorkOptions, run_recipe, settings_of, work_on


@dataclass(frozen=True, kw_only=True)
class Options(WorkOptions):
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


def main(options: Options) -> None:
    work_on(options, tasks_of)


def tasks_of(options: Options) -> list[Task]:
    open_data_for(settings_of(options), options.data)  # checked before the artifacts are trained
    return [Task(artifacts_of(options), options.data, options.out / "experiment")]


def artifacts_of(options: Options) -> dict[str, str | Path]:
    """Return the artifacts by the names of their arms, after training those that are missing."""
    found: dict[str, str | Path] = {"ipa": options.artifact}
    if options.other:
        found["transfer"] = vae_of(options, "other", "transfer", options.other, options.other_minutes)
    if options.short_minutes:
        found["ipa-short"] = vae_of(options, "short", "ipa-short", (options.data,), options.short_minutes)
    return found


def vae_of(options: Options, name: str, arm: str, data: tuple[Path, ...], minutes: float) -> Path:
    folder = options.out / f"vae-{name}"
    if (model := folder / "model.safetensors").is_file() or (options.only and arm not in options.only):
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
    run_recipe(main, Options, __doc__)
