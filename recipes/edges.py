r"""Edges to photos: train conditional VAEs that draw shoes and bags from their edges, as in the paper's section 4, and
measure them against time. For each of the data sets there are three arms: with an artifact of other images (transfer,
the paper's setting), from scratch, and with an artifact of shoes and bags (ipa).

    condvae fetch metrics
    condvae pretrain --preset tiny64 --data tiny64-a.zip tiny64-b.zip --minutes 12 --out out/tiny-vae
    condvae pretrain --preset tiny64 --data shoes64.zip bags64.zip --minutes 5 --out out/shoesbags-vae
    python recipes/edges.py --shoes shoes64.zip --bags bags64.zip --transfer-artifact out/tiny-vae \
        --ipa-artifact out/shoesbags-vae --out out/edges --precision fast --processes 6

If the command is interrupted, repeat it to resume. The reports are in out/edges/shoes and out/edges/bags.

The time of a step is measured first. If other jobs will use the GPU, do this before them, with --pace-only and any
artifacts of the network, even briefly trained ones; it also tells how to choose --steps and --scratch-steps such that
all arms are measured after the same minutes. The arm from scratch can be trained before the artifacts exist, with
--only scratch. recipes/edges_results.py makes docs/results/edges.md from the reports.
"""

import sys
from dataclasses import dataclass
from pathlib import Path

from condvae.experiments.pretraining.plan import SCRATCH

sys.path.insert(0, str(Path(__file__).parents[1]))
from recipes.pretraining_work import Task, WorkOptions, run_recipe, work_on

TRANSFER, IPA = "transfer", "ipa"


@dataclass(frozen=True, kw_only=True)
class Options(WorkOptions):
    """Run the experiment. Every test image is used, unless --images says otherwise."""

    out: Path
    """Folder for the reports, in shoes/ and bags/."""
    shoes: Path | None = None
    """Data set of shoes."""
    bags: Path | None = None
    """Data set of bags."""
    transfer_artifact: Path | None = None
    """The artifact of the arm transfer: a VAE that was pretrained on other images."""
    ipa_artifact: Path | None = None
    """The artifact of the arm ipa: a VAE that was pretrained on shoes and bags."""

    preset: str = "tiny64"
    condition: str = "edges"
    seeds: int = 2
    steps: tuple[int, ...] = (325, 650, 1_300, 2_260, 3_870)
    scratch_steps: tuple[int, ...] = (120, 240, 480, 840, 1_440)
    conditions: tuple[str, ...] = ()
    pace_steps: int = 240
    lr: float = 1e-3
    validation: int = 200
    n: int = 50
    images: int = 0
    bound_images: int = 0


def main(options: Options) -> None:
    work_on(options, tasks_of)


def tasks_of(options: Options) -> list[Task]:
    sets = {name: data for name in ("shoes", "bags") if (data := getattr(options, name)) is not None}
    if not sets:
        raise ValueError("no data set was given: give --shoes, --bags or both")
    artifacts = artifacts_of(options)
    return [Task(artifacts, data, options.out / name) for name, data in sets.items()]


def artifacts_of(options: Options) -> dict[str, str | Path]:
    """Return the artifacts of the arms. Those of arms that --only leaves out may be missing."""
    wanted = options.only or (SCRATCH, TRANSFER, IPA)
    found: dict[str, str | Path] = {}
    for arm, path in ((TRANSFER, options.transfer_artifact), (IPA, options.ipa_artifact)):
        if path is None and arm in wanted:
            raise ValueError(f"the arm {arm} has no artifact: give --{arm}-artifact, or other arms with --only")
        found[arm] = Path() if path is None else path
    return found


if __name__ == "__main__":
    run_recipe(main, Options, __doc__)
