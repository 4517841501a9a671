"""The arms of the experiment, and the trainings that it makes of them with `condvae.train`."""

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from condvae import weights
from condvae.conditional import ConditionalVAE
from condvae.experiments.pretraining.plan import COMPLETION, SCRATCH, TARGETS, PretrainingSettings
from condvae.runtime.fingerprints import digest_of
from condvae.runtime.json_reading import parse_json
from condvae.training import TrainOptions, options_for, train
from condvae.training.run_folder import RunFolder
from condvae.vdvae import preset

_CHECKPOINTS = 10
"""How many checkpoints a training writes, from which it can be resumed."""
_LINES = 6
"""How many lines the log of a training that measures the pace has. Reading the clock waits for the device."""


@dataclass(frozen=True, kw_only=True)
class Arm:
    """One way to get a conditional model: with a frozen artifact, or from scratch."""

    name: str
    artifact: Path | None = None
    identity: str = SCRATCH
    """A digest of the artifact's weights."""
    minutes: float = 0.0
    """How long the artifact's own training took, from its training record."""
    for_conditions: bool = True
    """Whether it is also trained for the other conditions: from scratch, and with the first artifact."""
    pretraining: Mapping[str, Any] | None = None
    """What the training record of the artifact says about its data and steps."""

    @classmethod
    def with_artifact(
        cls, name: str, path: str | Path, settings: PretrainingSettings, *, for_conditions: bool = True
    ) -> "Arm":
        """Read an artifact; raise ValueError if it does not have the network of the experiment."""
        if name == SCRATCH or not name.isprintable() or not name.strip():
            raise ValueError(f"an artifact cannot be called {name!r}: give it another name")
        vae, network = weights.load_vae(path), settings.network
        wanted, found = preset(network), vae.config
        if (found.image_size, found.channels) != (wanted.image_size, wanted.channels):
            raise ValueError(
                f"the artifact {name} ({path}) makes images of {found.image_size} x {found.image_size} x "
                f"{found.channels}, but the network {network} makes {wanted.image_size} x {wanted.image_size} x "
                f"{wanted.channels}: give an artifact that was trained with this network"
            )
        if _without_normalisation(found.to_dict()) != _without_normalisation(wanted.to_dict()):
            raise ValueError(
                f"the artifact {name} ({path}) has another network than {network}, so the arms could not be compared: "
                f"give one that was trained with --preset {settings.preset}"
            )
        record = weights.describe(path).record
        record = record.get("artifact", record) if weights.describe(path).partial else record
        if not isinstance(record.get("minutes"), int | float):
            raise ValueError(
                f"the artifact {name} ({path}) does not say how long its training took: give a model file of condvae"
            )
        kept = {key: record[key] for key in ("data", "steps", "images_seen", "device") if key in record}
        return cls(
            name=name,
            artifact=Path(path),
            identity=digest_of(vae, found.to_dict()),
            minutes=float(record["minutes"]),
            for_conditions=for_conditions,
            pretraining=kept,
        )


def _without_normalisation(config: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in config.items() if key != "normalisation"}


@dataclass(frozen=True, kw_only=True)
class TrainingRun:
    """One training of one arm, whose snapshots are measured."""

    arm: Arm
    condition: str
    """`COMPLETION`, or the observation process as text, such as "grey"."""
    seed: int
    steps: tuple[int, ...]
    """After how many steps there is a snapshot; the last number ends the training. Empty to measure the pace only."""

    def __str__(self) -> str:
        where = () if self.condition == COMPLETION else (self.condition,)
        if not self.steps:
            return ", ".join((self._paced, *where, "pace"))
        return ", ".join((self.arm.name, *where, f"seed {self.seed}"))

    @property
    def _paced(self) -> str:
        """What the pace is of. All arms with an artifact train the same weights, so they have the same pace."""
        return SCRATCH if self.arm.artifact is None else "artifact"

    def options(self, settings: PretrainingSettings, data: Path, out: Path, device: str) -> TrainOptions:
        last = self.steps[-1] if self.steps else settings.pace_steps
        given: dict[str, Any] = {"data": (data,), "out": out, "device": device, "resume": True, "seed": self.seed}
        given |= {"steps": last, "snapshot_at": self.steps, "schedule": "constant", "validation": settings.validation}
        given |= {"evaluate_every": last, "evaluate_on": settings.validation, "sheet_every": 0}
        # A checkpoint would count as part of the steps before it, so the pace is measured without any.
        given |= {"checkpoint_every": max(1, last // _CHECKPOINTS) if self.steps else last}
        given |= {"log_every": max(1, settings.pace_steps // _LINES)}
        given |= {"lr": settings.lr} | ({} if settings.batch is None else {"batch": settings.batch})
        if self.condition != COMPLETION:
            given["observe"] = (self.condition,)
        given |= {"scratch": settings.network} if self.arm.artifact is None else {"artifact": self.arm.artifact}
        return options_for(TrainOptions, settings.preset, **given)

    def made_of(self, settings: PretrainingSettings, data_digest: str) -> dict[str, Any]:
        """Return everything that the weights of the snapshots depend on, except rounding.

        The pace depends on the network of the artifact, but not on its weights.
        """
        options = _kept(self.options(settings, Path(), Path(), "cpu").to_dict())
        artifact = self.arm.identity if self.steps else [self._paced, settings.network]
        return {"options": options, "steps": self.steps, "artifact": artifact, "data": data_digest}

    def train(self, settings: PretrainingSettings, data: Path, folder: Path, device: str) -> dict[str, float]:
        """Train, or continue a training that was interrupted. The pace is measured from the start again.

        Return the median time of a step, and the last -ELBO of held-out images with each of the `TARGETS`.
        """
        if not self.steps:
            shutil.rmtree(folder, ignore_errors=True)
        options = self.options(settings, data, folder, device)
        train(options)
        return numbers_of(RunFolder(folder).log, options.batch)

    def snapshot(self, settings: PretrainingSettings, folder: Path, step: int) -> ConditionalVAE:
        """Read a snapshot; raise ValueError if it is missing or belongs to another training."""
        path = RunFolder(folder).snapshot(step)
        again = f"delete {folder.parent} and run the same command again, which repeats this training"
        if not path.is_file():
            raise ValueError(f"{path} is missing: {again}")
        record, model = weights.describe(path).record, weights.load_conditional(path)
        mine = (step, _kept(self.options(settings, Path(), Path(), "cpu").for_record()))
        if (record.get("steps"), _kept(record.get("options", {}))) != mine or not self._has_artifact(model):
            raise ValueError(f"{path} does not belong to this training ({self}, {step:,} steps): {again}")
        return model

    def _has_artifact(self, model: ConditionalVAE) -> bool:
        if self.arm.artifact is None:
            return True
        return digest_of(model.artifact, model.artifact.config.to_dict()) == self.arm.identity


def _kept(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options that change the weights of a training."""
    return {key: value for key, value in options.items() if key not in TrainOptions.MAY_CHANGE}


def numbers_of(log: Path, batch: int) -> dict[str, float]:
    """Read the numbers of a training from its log."""
    events = [parse_json(line) for line in log.read_text().splitlines()]
    rates = [event["images_per_second"] for event in events if event["event"] == "train"]
    *_, last = (event for event in events if event["event"] == "evaluation")
    # The first lines are left out, because their steps compile kernels.
    seconds = batch / float(median(rates[2:] or rates))
    return {"seconds_per_step": seconds, **{target: last[target] for target in TARGETS}}


def runs_of(arms: Sequence[Arm], settings: PretrainingSettings) -> list[TrainingRun]:
    """List all trainings: first those that measure the pace, then those from scratch, which take longest."""

    def of(arm: Arm, condition: str, seed: int, steps: Sequence[int]) -> TrainingRun:
        return TrainingRun(arm=arm, condition=condition, seed=seed, steps=tuple(steps))

    scratch = [arm for arm in arms if arm.artifact is None]
    frozen = [arm for arm in arms if arm.artifact is not None]
    first = [arm for arm in frozen if arm.for_conditions]
    seeds, main, conditions = range(settings.seeds), settings.condition, settings.conditions
    return [
        *(of(arm, condition, 0, ()) for condition in (main, *conditions) for arm in (*scratch, *frozen[:1])),
        *(of(arm, main, seed, settings.scratch_steps) for seed in seeds for arm in scratch),
        *(of(arm, condition, 0, settings.scratch_condition_steps) for condition in conditions for arm in scratch),
        *(of(arm, main, seed, settings.steps) for seed in seeds for arm in frozen),
        *(of(arm, condition, 0, settings.condition_steps) for condition in conditions for arm in first),
    ]
