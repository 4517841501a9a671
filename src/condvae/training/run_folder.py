"""The folder of one run, and what can be told from it.

options.json               what was asked for
artifact.safetensors       the frozen artifact, where there is one
init.safetensors           the model that the run started from, where there is one
log.jsonl                  one line per report
checkpoints/step-*         from which the run goes on
sheets/step-*.png          contact sheets
best.safetensors           the weights' average that did best on held-out images
model.safetensors          the finished model
"""

import json
from pathlib import Path
from typing import IO, Any

from condvae.runtime.atomic import PARTS, write_text
from condvae.runtime.ranks import job_name
from condvae.training.checkpoint import Checkpoints, Position
from condvae.training.options import TrainingOptions


class RunFolder:
    """Paths, and the right to write there."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.options = path / "options.json"
        self.artifact = path / "artifact.safetensors"
        self.checkpoints = path / "checkpoints"
        self.sheets = path / "sheets"
        self.best = path / "best.safetensors"
        self.model = path / "model.safetensors"
        self.init = path / "init.safetensors"
        self.job = path / ".job"
        self._lock: IO[str] | None = None

    @property
    def began(self) -> bool:
        """Whether there is a checkpoint to go on from."""
        return Checkpoints(self.checkpoints).steps() != []

    def refuse_others(self, options: TrainingOptions, *, resume: bool) -> None:
        """Raise a ValueError if the folder is another run's; writes nothing."""
        if self.path.exists() and not self.path.is_dir():
            raise ValueError(f"{self.path} is a file: give a folder for the run")
        if not self.began:
            for file in (self.model, self.best):
                if file.exists():
                    raise ValueError(
                        f"{self.path} holds {file.name} but no checkpoint to go on from: "
                        "give another --out, or move it away"
                    )
            return
        if not resume:
            raise ValueError(f"{self.path} already holds a run: --resume goes on with it, another --out starts anew")
        stored = self.stored_options()
        if stored.get("verb") != options.verb:
            raise ValueError(f"{self.path} holds a run of condvae {stored.get('verb')}: give another --out")
        if differences := options.differences(stored):
            raise ValueError(
                f"{self.path} holds a run with other options ({'; '.join(differences)}): "
                "resume with the same ones, or start in another folder"
            )

    def claim(self, options: TrainingOptions, *, data: str, resume: bool) -> None:
        """Make the folder this run's own. data: a line that says which images it learns from."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            self._hold()
        except OSError as error:
            raise ValueError(f"{self.path} cannot be written ({error.strerror}): give another --out") from error
        try:
            self._begin(options, data=data, resume=resume)
        except BaseException:
            self.release()  # the next call of this process may have better options
            raise

    def _begin(self, options: TrainingOptions, *, data: str, resume: bool) -> None:
        self.refuse_others(options, resume=resume)
        if self.began:
            before = self.stored_options().get("data_summary")
            if before != data:
                raise ValueError(f"{self.path} holds a run on other data ({before}; now {data}): resume with the same")
        for unfinished in (*self.path.glob(PARTS), *self.checkpoints.glob(PARTS)):
            unfinished.unlink(missing_ok=True)  # of a process that was killed while it wrote
        self.job.write_text(job_name())
        write_text(self.options, json.dumps({**options.to_dict(), "data_summary": data}, indent=1) + "\n")

    def of_this_job(self) -> bool:
        """Whether the run was begun by the torchrun that has now started this process again."""
        return self.job.is_file() and self.job.read_text() == job_name()

    def release(self) -> None:
        if self._lock:
            self._lock.close()
            self._lock = None

    def stored_options(self) -> dict[str, Any]:
        try:
            stored = json.loads(self.options.read_text())
        except (OSError, ValueError) as error:
            raise ValueError(
                f"{self.options} cannot be read, so it is not known what run this is ({error}): start in another folder"
            ) from error
        if not isinstance(stored, dict):
            raise ValueError(f"{self.options} holds no options")
        return stored

    def held(self) -> bool:
        """Whether a process is training here now."""
        if not (self.path / ".lock").exists():
            return False
        try:
            self._hold()
        except (ValueError, OSError):
            return True
        self.release()
        return False

    def _hold(self) -> None:
        """Two trainings in one folder would destroy each other's files. The lock dies with its process."""
        try:
            import fcntl
        except ImportError:  # not a POSIX system: no lock
            return
        lock = (self.path / ".lock").open("w")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            lock.close()
            raise ValueError(f"another process trains in {self.path}: wait for it, or give another --out") from None
        self._lock = lock


def describe_run(path: Path) -> dict[str, Any]:
    """What a run folder says of itself: options, position, last figures, and whether its checkpoints are whole."""
    folder = RunFolder(path)
    if not folder.options.is_file():
        raise ValueError(f"{path} is a folder, but not one of a condvae run")
    checkpoints = Checkpoints(folder.checkpoints)
    found: dict[int, str] = {}
    position: Position | None = None
    for step in checkpoints.steps():
        try:
            position, _ = checkpoints.read(checkpoints.path(step))
            found[step] = "whole"
        except ValueError as error:
            found[step] = f"damaged: {error}"
    events: dict[str, dict[str, Any]] = {}
    log = folder.path / "log.jsonl"
    for line in log.read_text(errors="replace").splitlines() if log.is_file() else []:
        try:
            record = json.loads(line)
            events[record["event"]] = record
        except (ValueError, KeyError, TypeError):
            continue
    return {
        "options": folder.stored_options(),
        "step": position.step if position else 0,
        "best_step": position.best_step if position else None,
        "best_nats_per_dim": position.best_loss if position else None,
        "rollbacks": position.rollbacks if position else 0,
        "seconds": position.elapsed if position else 0.0,
        "finished": folder.model.is_file(),
        "running": folder.held(),
        "checkpoints": found,
        "last": events,
    }
