"""Train several variants of a model, called arms, for a minute or two each, and compare them.

Each arm has a complete learning-rate schedule: first a VAE, then a partial encoder. Arms that differ only in the
partial encoder share one VAE. All arms are measured by `condvae.evaluate` on the same test images, with the settings of
the plan. A plan is a TOML file such as `recipes/arms/faces64.toml`:

    pretrain = { preset = "faces64", minutes = 1.25 }       # options of `condvae pretrain` for all arms
    train = { preset = "faces64", minutes = 0.5 }           # options of `condvae train` for all arms
    evaluate = { images = 1000, deep_images = 100, n = 20 } # settings of `condvae evaluate`

    [[arms]]
    name = "wide"
    pretrain = { lr = 5e-4 }                                # other options of this arm
    noise_floor = 0.08                                      # of its likelihood
    stages = [[64, 64, 32, 2, 2, 0], [32, 128, 32, 3, 8]]   # its network, as in the tables of `condvae.vdvae.presets`

`noise_floor` and `stages` may also be given for all arms. Without them, they are those of the preset.

    python recipes/arms.py recipes/arms/faces64.toml --data faces64-a.zip faces64-b.zip faces64-c.zip --out arms

This writes arms/arms.json and arms/arms.md. A call that was interrupted continues where it stopped. Compile kernels
before the arms are timed, with `--trial`, which makes three steps of each and measures nothing.
"""

import dataclasses
import json
import statistics
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import tyro

import condvae
from condvae import weights
from condvae.experiments.evaluation.plan import EvaluationSettings
from condvae.likelihood import GaussianPixels
from condvae.runtime.atomic import write_text
from condvae.runtime.checks import strict
from condvae.runtime.fingerprints import fingerprint, slug_of
from condvae.runtime.scripts import run_script
from condvae.training import PretrainOptions, TrainOptions
from condvae.training.entry_points import network_config
from condvae.training.presets import options_from
from condvae.training.run_folder import RunFolder
from condvae.vdvae.presets import stages_of_rows

TRIAL = {"steps": 3, "warm_up": 1, "evaluate_on": 2}
"""Options of training that replace those of the plan in a trial."""
SHARED = {"sheet_every": 0, "evaluate_every": 10**6, "checkpoint_every": 10**6, "log_every": 50, "resume": True}
"""Training options of all arms. Evaluations and checkpoints take time, so they are made only at the end."""


FACTS = {
    "weights": "{:,}", "images_per_second": "{:,.0f}", "steps": "{:,}", "skipped": "{:.1%}", "gradient_norm": "{:.3g}",
    "bits_per_dim": "{:.4f}",
}  # fmt: skip
"""Columns about both trainings, of the VAE and of the partial encoder, and how numbers are written."""
METRICS = {
    "fid": "{mean:.1f} ± {standard_error:.1f}",
    "p_ids": "{mean:.1%}",
    "lpips_gt": "{mean:.4f} ± {standard_error:.4f}",
    "lpips_gt@1": "{mean:.4f}",
    "calibration_error@white": "{mean:.3f}",
    "calibration_error@smooth": "{mean:.3f}",
}
"""Columns about completions."""
HEAD = [name.replace("_", " ") for name in ("arm", *FACTS, *METRICS)]


@dataclass(frozen=True, kw_only=True)
class Options:
    """Train several variants of a model for a short time, and compare them."""

    plan: Annotated[Path, tyro.conf.Positional]
    """A TOML file with the arms."""
    data: tuple[Path, ...]
    """Data sets with training and test images, which are joined."""
    out: Path
    """Folder for the run folders, the evaluations, arms.json and arms.md."""
    arms: tuple[str, ...] = ()
    """Names of the arms to train, in this order. If not given, all of the plan."""
    trial: bool = False
    """Make three steps of each training and measure nothing, to compile all kernels before the arms are timed."""
    vaes: bool = False
    """Train only the VAEs of the arms, and measure nothing."""
    device: str = "auto"


@dataclass(frozen=True, kw_only=True)
class Arm:
    """One variant: what differs from the options of all arms."""

    name: str
    pretrain: Mapping[str, Any] = field(default_factory=dict)
    train: Mapping[str, Any] = field(default_factory=dict)
    noise_floor: float | None = None
    """Noise floor of the likelihood. None: as in the plan, or else in the preset."""
    stages: list[list[int]] | None = None
    """The network, one row per resolution. None: as in the plan, or else in the preset."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """The options of all arms, and the arms."""

    pretrain: dict[str, Any]
    train: dict[str, Any]
    evaluate: dict[str, Any]
    arms: dict[str, Arm]
    noise_floor: float | None = None
    stages: list[list[int]] | None = None

    @classmethod
    def read(cls, path: Path) -> "Plan":
        """Read a plan; raise ValueError if it is not TOML, or has unknown keys or two arms of the same name."""
        try:
            plain = tomllib.loads(path.read_text())
        except tomllib.TOMLDecodeError as error:
            raise ValueError(f"{path} is not valid TOML: {error}") from error
        arms = [strict(Arm, one, where=f"an arm of {path}") for one in plain.pop("arms", [])]
        if len({arm.name for arm in arms}) < max(len(arms), 1):
            raise ValueError(f"{path} needs at least one arm, and each needs a name of its own")
        return strict(cls, {**plain, "arms": {arm.name: arm for arm in arms}}, where=str(path))


def main(options: Options) -> None:
    plan = Plan.read(options.plan)
    if unknown := [name for name in options.arms if name not in plan.arms]:
        raise ValueError(f"{options.plan} has no arm {unknown[0]!r}, expected some of {', '.join(plan.arms)}")
    chosen = [plan.arms[name] for name in options.arms or plan.arms]
    for arm in chosen:  # train nothing if an option of a later arm is wrong
        own, _ = pretrain_options(plan, arm, options)
        for one in (own, train_options(plan, arm, RunFolder(own.out), options)):
            one.check()
    strict(EvaluationSettings, plan.evaluate, where="evaluate")
    found = options.out / "arms.json"
    rows: dict[str, Any] = json.loads(found.read_text()) if found.is_file() else {}
    for arm in chosen:
        print(f"arm {arm.name}", flush=True)
        vae = pretrained(plan, arm, options)
        if options.vaes:
            continue
        run = trained(plan, arm, vae, options)
        if options.trial:
            continue
        metrics = measured(plan, arm, run, options)
        rows[arm.name] = {"VAE": part_of(vae), "partial encoder": part_of(run), "metrics": metrics}
        write_text(found, json.dumps(rows, indent=1))
        write_text(options.out / "arms.md", table(rows))
        print(table({arm.name: rows[arm.name]}), flush=True)


def pretrain_options(plan: Plan, arm: Arm, options: Options) -> tuple[PretrainOptions, dict[str, Any]]:
    """Return the options of an arm's VAE, and its network as plain data, which is to be written to a file."""
    given = {**SHARED, **plan.pretrain, **arm.pretrain, **(TRIAL if options.trial else {})}
    shared = {"data": options.data, "device": options.device}
    config = network_config(options_from(PretrainOptions, None, {**given, **shared, "out": options.out}).network)
    if stages := arm.stages or plan.stages:
        config = dataclasses.replace(config, stages=stages_of_rows(stages))
    if floor := arm.noise_floor or plan.noise_floor:
        config = dataclasses.replace(config, likelihood=GaussianPixels(noise_floor=floor))
    plain = config.to_dict()
    folder = options.out / f"vae-{fingerprint({'network': plain, 'options': given})[:8]}"
    given |= {**shared, "network": str(folder.with_suffix(".json")), "out": folder}
    return options_from(PretrainOptions, None, given), plain


def train_options(plan: Plan, arm: Arm, vae: RunFolder, options: Options) -> TrainOptions:
    """Return the options of an arm's partial encoder. Its folder is that of the VAE and these options."""
    given = {**SHARED, **plan.train, **arm.train, **(TRIAL if options.trial else {})}
    name = f"{slug_of(arm.name)}-{fingerprint({'vae': vae.path.name, 'options': given})[:8]}"
    rest = {"data": options.data, "artifact": vae.path, "out": options.out / name, "device": options.device}
    return options_from(TrainOptions, None, {**given, **rest})


def pretrained(plan: Plan, arm: Arm, options: Options) -> RunFolder:
    """Train the VAE of an arm, unless this was done before, and return its run folder."""
    own, network = pretrain_options(plan, arm, options)
    run = RunFolder(own.out)
    if not run.model.is_file():
        options.out.mkdir(parents=True, exist_ok=True)
        write_text(Path(own.network), json.dumps(network))
        condvae.pretrain(own)
    return run


def trained(plan: Plan, arm: Arm, vae: RunFolder, options: Options) -> RunFolder:
    """Train the partial encoder of an arm, unless this was done before, and return its run folder."""
    own = train_options(plan, arm, vae, options)
    run = RunFolder(own.out)
    if not run.model.is_file():
        condvae.train(own)
    return run


def measured(plan: Plan, arm: Arm, run: RunFolder, options: Options) -> dict[str, Any]:
    """Measure an arm, unless this was done before. Return its metrics in the mixture of bins."""
    report = condvae.evaluate(
        None,
        options.data,
        against={arm.name: run.model},
        out=options.out / "evaluation",
        baselines=(),
        precision="fast",
        device=options.device,
        say=lambda line: None,
        **plan.evaluate,
    )
    assert report is not None
    methods = [found for name, found in report["methods"].items() if name.startswith(f"{arm.name}, ")]
    return {name: by_column["mixture"] for name, by_column in methods[0]["metrics"].items()}


def part_of(run: RunFolder) -> dict[str, Any]:
    """Return what the log of a training says."""
    lines = [json.loads(line) for line in run.log.read_text().splitlines()]
    steps = [line for line in lines if line["event"] == "train"]
    last = [line for line in lines if line["event"] == "evaluation"][-1]
    middle = {name: statistics.median(line[name] for line in steps) for name in ("images_per_second", "gradient_norm")}
    record = weights.describe(run.model).record
    return {
        **middle,
        "largest_gradient_norm": max(line["gradient_norm"] for line in steps),
        "weights": lines[0]["weights"],
        "steps": record["steps"],
        "minutes": record["minutes"],
        "skipped": 1 - record["updates"] / record["steps"],
        "bits_per_dim": last["bits_per_dim"],
        "kl_nats": steps[-1]["kl_nats"],
    }


def table(rows: Mapping[str, Any]) -> str:
    """Return a Markdown table of the arms."""
    lines: list[Sequence[str]] = [HEAD, ["---"] * len(HEAD)]
    for name, row in rows.items():
        parts, metrics = (row["VAE"], row["partial encoder"]), row["metrics"]
        lines.append(
            [
                name,
                *(", ".join(form.format(part[key]) for part in parts) for key, form in FACTS.items()),
                *(form.format(**metrics[key]) if key in metrics else "" for key, form in METRICS.items()),
            ]
        )
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


if __name__ == "__main__":
    run_script(main, Options, __doc__)
