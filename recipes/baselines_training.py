"""The trainings of the comparison with learned baselines: what is trained, where it is, and with which budget."""

import json
import statistics
from collections.abc import Callable, Mapping, Sequence
from math import isclose
from pathlib import Path
from typing import Any, NamedTuple

import condvae
from condvae import weights
from condvae.completers.learned_names import STAGES
from condvae.training.presets import TRAIN_PRESETS
from condvae.training.run_folder import RunFolder
from condvae.training.schedule import part_of_limits

BASELINES = ("ce", "anp", "pic", "rfr", "comodgan", "vqvae", "diffusion")
IPA, VAE = "ipa", "vae"
RUNS = (*BASELINES, IPA)
"""The methods that are trained, by the names of their run folders."""
LONG = {"comodgan": "comodgan-long", "diffusion": "diffusion-long"}
"""Methods that can be trained for twice the budget. A snapshot after the budget then has their own name, the result the
other one. Their learning rates are constant, so that a snapshot is the result of a shorter training."""
PRESET = "cifar10-small"
"""The preset of IPA. Its holes are those of all methods."""
VAE_SHARE = 0.7
"""The part of IPA's budget that is spent on its VAE. The rest is for the partial encoder."""
_TOLERANCE = 1.05
"""A snapshot may be this many times later than the end of the budget."""
INTERVALS = {"evaluate_every": 5000, "checkpoint_every": 5000, "log_every": 100, "sheet_every": 0}
"""How many steps lie between two evaluations and so on. They are the same for all methods, since they take time."""


class Limits(NamedTuple):
    """When a training ends: after minutes, or after steps if that is sooner."""

    minutes: float
    steps: int | None = None

    def times(self, factor: float) -> "Limits":
        return Limits(**part_of_limits(factor, **self._asdict()))


def parts_of(name: str, budget: Limits) -> dict[str, Limits]:
    """Return the parts of the training of a model, and their budgets. budget: that of a method."""
    if name == IPA:  # a limit on steps, for a trial, applies to each part
        return {
            "VAE": budget.times(VAE_SHARE)._replace(steps=budget.steps),
            "partial encoder": budget.times(1 - VAE_SHARE)._replace(steps=budget.steps),
        }
    if name in STAGES:
        return {stage: budget.times(part) for stage, part in STAGES[name].items()}
    return {"network": budget.times(2) if name in LONG.values() else budget}


def models_of(methods: Sequence[str], *, long: bool = True) -> tuple[str, ...]:
    """Return the trained models of methods that are measured, IPA first. long: include those with twice the budget."""
    order = [name for name in (IPA, *BASELINES) if name in methods]
    return tuple(one for name in order for one in ((name, LONG[name]) if long and name in LONG else (name,)))


def model_of(name: str, out: Path) -> Path:
    """Return the file of a model: the result of a run, or its snapshot. Until it is written, this is no file."""
    run = RunFolder(out / name.removesuffix("-long"))
    is_long = run.snapshots.is_dir() or (run.options.is_file() and bool(run.stored_options().get("snapshot_minutes")))
    if name in LONG.values():
        return run.model if is_long else run.snapshots
    if name not in LONG or not is_long:
        return run.model
    snapshots = sorted(run.snapshots.glob("*.safetensors"))
    if len(snapshots) > 1:
        raise ValueError(f"{run.snapshots} has several snapshots: train {name} again, in another --out folder")
    return snapshots[0] if snapshots else run.snapshots


def train(
    run: str, out: Path, budget: Limits, *, long: bool, batch: int | None, seed: int, validation: int, **rest: Any
) -> None:
    """Train one method into its run folder, or continue to train it. A finished run stays as it is.

    long: train for twice the budget if the method is in `LONG`, with a snapshot after the budget. rest: other options,
    which change no result, such as the device.
    """
    shared: dict[str, Any] = {"seed": seed, "validation": validation}
    if batch is not None:
        shared["batch"] = batch
    observe = TRAIN_PRESETS[PRESET]["observe"]
    rest = {**rest, "evaluate_on": validation, "resume": True}

    def make(training: Callable[..., Path], folder: Path, limit: Limits, last: Limits, **own: Any) -> Path:
        """Train with a limit. last: the limit of the last stage, which is that of the run folder."""
        if is_finished(folder, {**shared, **last._asdict()}):
            return folder
        print(f"training {folder.name} for {limit.minutes:g} minutes", flush=True)
        return training(**own, **shared, **limit._asdict(), **rest, **INTERVALS, out=folder)

    long = long and run in LONG
    *before, last = parts_of(LONG[run] if long else run, budget).values()
    if run == IPA:
        vae = make(condvae.pretrain, out / VAE, *before, *before, preset=PRESET)
        make(condvae.train, out / IPA, last, last, preset=PRESET, observe=observe, artifact=vae)
        return
    snapshots: dict[str, Any] = {}
    if long:
        snapshots = {"snapshot_minutes": budget.minutes, "snapshot_at": () if budget.steps is None else budget.steps}
    whole = budget if run in STAGES else last
    make(condvae.train, out / run, whole, last, baseline=run, observe=observe, **snapshots)


def is_finished(folder: Path, options: Mapping[str, Any]) -> bool:
    """Return whether a run folder has a model that was trained with these options."""
    run = RunFolder(folder)
    return run.model.is_file() and options.items() <= run.stored_options().items()


def training_of(name: str, out: Path) -> dict[str, Any]:
    """Return what the model files and logs of a model say about its training: the sums, and each of its parts."""
    header = weights.describe(model_of(name, out))
    run = out / name.removesuffix("-long")
    *before, last = {IPA: ("VAE", "partial encoder"), **STAGES}.get(name, ("network",))
    records, folders = [header.record], [run]
    for part in reversed(before):  # the record of a model contains that of the model from which it started
        records.insert(0, records[0]["artifact" if name == IPA else "init"])
        folders.insert(0, out / VAE if name == IPA else run / part)
    parts = zip((*before, last), records, folders, strict=True)
    return summed(header.parameters, {part: of_run(record, folder) for part, record, folder in parts})


def summed(count: int, parts: Mapping[str, Any]) -> dict[str, Any]:
    minutes = round(sum(part["minutes"] for part in parts.values()), 2)
    return {"weights": count, "minutes": minutes, "parts": parts}


def of_run(record: Mapping[str, Any], run: Path) -> dict[str, Any]:
    """Return what a training record and the log of its run folder say, up to the last step of the record."""
    lines = [json.loads(line) for line in (run / "log.jsonl").read_text().splitlines()]
    lines = [line for line in lines if line.get("step", 0) <= record["steps"]]
    speeds = [line["images_per_second"] for line in lines if line.get("images_per_second")]
    trained = [line["weights"] for line in lines if line["event"] == "start"]
    return {
        **part_of(record),
        "trained_weights": trained[0] if trained else None,
        "images_per_second": round(statistics.median(speeds), 1) if speeds else None,
    }


def part_of(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return the entries of a training record that describe the budget and the data."""
    options = record["options"]
    return {
        **{key: record[key] for key in ("minutes", "steps", "images_seen", "device", "data")},
        **{key: options.get(key) for key in ("batch", "lr", "seed", "split_seed", "validation", "observe")},
        "budget": {key: options.get(key) for key in ("minutes", "steps")},
    }


def training_in(model: str) -> dict[str, Any]:
    """Return the training of a finished conditional model, of which there is a model file, but no log."""
    header = weights.describe(model)
    trained = {"VAE": header.record.get("artifact"), "partial encoder": header.record}
    return summed(header.parameters, {name: part_of(record) for name, record in trained.items() if record})


def check_equal(trainings: Mapping[str, Any]) -> None:
    """Raise a ValueError unless all methods were trained on the same images and with the same kind of holes."""
    parts = [(name, part) for name, found in trainings.items() for part in found["parts"].values()]
    for key in ("data", "split_seed", "validation", "seed", "observe"):
        first, *others = [(name, part[key]) for name, part in parts if part[key] is not None]
        for name, value in others:
            if value != first[1]:
                raise ValueError(
                    f"{name} was trained with {key} {value}, but {first[0]} with {first[1]}: train all methods with "
                    "the same options"
                )


def check_budgets(trainings: Mapping[str, Any], budget: Limits) -> None:
    """Raise a ValueError unless each model was trained with its budget. budget: that of a method."""
    for name, found in trainings.items():
        if name in LONG and found["minutes"] > _TOLERANCE * budget.minutes:
            raise ValueError(
                f"the snapshot of {name} was made after {found['minutes']:g} minutes, expected {budget.minutes:g}: "
                "train it again with the same --minutes"
            )
        for part, expected in parts_of(name, budget).items():
            given = found["parts"].get(part, {}).get("budget", {})
            # A snapshot belongs to a training of twice the budget.
            allowed = (expected, expected.times(2)) if name in LONG else (expected,)
            minutes = given.get("minutes", 0)
            if not any(
                given.get("steps") == one.steps and isclose(minutes, one.minutes, abs_tol=1e-4) for one in allowed
            ):
                raise ValueError(
                    f"{name} was trained with --minutes {given.get('minutes')} and --steps {given.get('steps')} "
                    f"({part}), expected {expected.minutes:g} and {expected.steps}: give the same --minutes and "
                    "--steps for all trainings and for the evaluation"
                )
