r"""Does pretraining pay? Train conditional VAEs on CIFAR-10 from scratch, with an artifact of CIFAR-10, and with one of
other images, three times each, and measure them against time, as in the paper's figure fig:training.

    condvae fetch cifar10
    condvae fetch metrics
    python recipes/pretraining_cifar10.py --out out/pretraining --other tiny64-a.zip tiny64-b.zip

This takes about 35 minutes on one H200. If the command is interrupted, repeat it to resume. To share the work between
the jobs of a job array, or between processes on one GPU, run it once with --pace-only, which trains the artifacts and
measures the time of a step; then once for each shard, with --shard 1/15 to 15/15; and at last without both, which
writes the report. recipes/pretraining_results.py makes docs/results/pretraining.md from it.
"""

import sys
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Literal

import tyro

from condvae.experiments.pretraining import PretrainingSettings, Shard, experiment
from condvae.metrics import LPIPS, Inception
from condvae.metrics.feature_networks import FeatureNetworks
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
    precision: Literal["exact", "fast"] = "exact"
    """Precision of the Inception network; see `condvae evaluate --help`."""
    device: str = "auto"

    def __post_init__(self) -> None:
        """Check nothing: `main` checks the settings, so that the message is one line and not a box of tyro."""


def main(options: Options) -> None:
    settings = PretrainingSettings(**{one.name: getattr(options, one.name) for one in fields(PretrainingSettings)})
    with join(options.device) as world:
        shard = Shard.of_text(options.shard, ranks=world.size)
        # Loaded before the artifacts are trained, since these files may be missing.
        networks = FeatureNetworks(
            lpips=LPIPS.load().to(world.device),
            inception=Inception.load(precision=options.precision).to(world.device),
        )
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
    except Stopped as stopped:
        print(f"pretraining_cifar10: {stopped}", file=sys.stderr)
        sys.exit(130)
    except (ValueError, OSError) as error:
        print(f"pretraining_cifar10: {error}", file=sys.stderr)
        sys.exit(2)
