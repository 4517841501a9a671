"""The folder of one run, its lock, and a summary of its content.

options.json               the options of the run
artifact.safetensors       a copy of the frozen artifact, if there is one
init.safetensors           a copy of the model given as --init, if there is one
log.jsonl                  the log, one JSON object per line
checkpoints/step-*         checkpoints, from which the run can be resumed
sheets/step-*.png          contact sheets
snapshots/step-*           model files with the averaged weights after the steps of --snapshot-at
best.safetensors           the averaged weights with the lowest loss on held-out images
model.safetensors          the finished model: the averaged weights at the end
"""

import json
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from PIL import Image

from condvae.runtime.atomic import PARTS, is_temporary, replacing, write_text
from condvae.runtime.folders import check_apart
from condvae.runtime.json_reading import parse_json, read_json_file
from condvae.runtime.messages import reason_of, short
from condvae.runtime.ranks import job_name
from condvae.training.checkpoint import Checkpoints, Position
from condvae.training.options import TrainingOptions

_MOST_LOG_BYTES = 2**26
"""Number of bytes at the end of a log that a summary is made from."""
_SHEETS, _SNAPSHOTS = "step-*.png", "step-*.safetensors"
_LOG_BEGIN = b'{"event": "start"'
"""The first bytes of every log."""


class RunFolder:
    """The paths of one run, and a lock that keeps other processes from training in the same folder."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.options = path / "options.json"
        self.artifact = path / "artifact.safetensors"
        self.checkpoints = path / "checkpoints"
        self.sheets = path / "sheets"
        self.snapshots = path / "snapshots"
        self.log = path / "log.jsonl"
        self.best = path / "best.safetensors"
        self.model = path / "model.safetensors"
        self.init = path / "init.safetensors"
        self.job = path / ".job"
        self._lock: IO[str] | None = None

    @property
    def has_checkpoint(self) -> bool:
        """Whether there is a checkpoint from which the run can be resumed."""
        return Checkpoints(self.checkpoints).steps() != []

    def copied(self, copy: Path, given: Path) -> Path:
        """Return where to read a starting model: a resumed run uses its copy, since the original may have moved."""
        return copy if self.has_checkpoint and copy.is_file() else given

    def check_same_run(self, options: TrainingOptions, *, resume: bool) -> None:
        """Raise ValueError if the folder is inside the data, or has a run that cannot be continued. Write nothing."""
        for data in options.data:
            check_apart(str(data), self.path)
        if self.path.exists() and not self.path.is_dir():
            raise ValueError(f"{self.path} is a file: give a folder as --out")
        if self._lock is None and (self.path / ".lock").exists():
            with suppress(OSError):  # `claim` says what is wrong
                self._acquire_lock()
                self.release()
        if not self.has_checkpoint:
            for file in self._would_be_lost():
                raise ValueError(
                    f"{self.path} contains {file.relative_to(self.path)} but no checkpoint to resume from: "
                    "choose another --out folder, or move the file away"
                )
            return
        if not resume:
            raise ValueError(
                f"{self.path} already contains a run: add --resume to continue it, or choose another --out folder"
            )
        stored = self.stored_options()
        if stored.get("verb") != options.verb:
            raise ValueError(
                f"{self.path} contains a run of condvae {short(str(stored.get('verb')))}: choose another --out folder"
            )
        if differences := options.differences(stored):
            raise ValueError(
                f"{self.path} contains a run with other options ({'; '.join(differences)}): "
                "resume with the same options, or choose another --out folder"
            )

    def _would_be_lost(self) -> Iterator[Path]:
        """Yield the files that a new run would replace, except those of a run that ended before its first checkpoint.

        Such a run has written its options first, so that they tell whose the other files are.
        """
        yield from (file for file in (self.model, self.best, *sorted(self.snapshots.glob(_SNAPSHOTS))) if file.exists())
        if not _is_start_of_log(self.log):
            yield self.log
        if not self._has_own_options():
            files = (self.options, self.artifact, self.init, self.log, *sorted(self.sheets.glob(_SHEETS)))
            yield from (file for file in files if file.exists())

    def _has_own_options(self) -> bool:
        try:
            return {"verb", "data_summary"} <= self.stored_options().keys()
        except ValueError:
            return False

    def claim(self, options: TrainingOptions, *, data: str, resume: bool) -> None:
        """Create the folder if needed, lock it, and write the options. data: a text that identifies the data set."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            self._acquire_lock()
        except OSError as error:
            raise ValueError(
                f"{self.path} cannot be written ({error.strerror}): choose another --out folder"
            ) from error
        try:
            self._begin(options, data=data, resume=resume)
        except BaseException:
            self.release()  # so that another call in this process can use the folder
            raise

    def _begin(self, options: TrainingOptions, *, data: str, resume: bool) -> None:
        self.check_same_run(options, resume=resume)
        configurations = _configurations(options)
        if self.has_checkpoint:
            stored = self.stored_options()
            if (before := stored.get("data_summary")) != data:
                raise ValueError(
                    f"{self.path} contains a run on other data (before: {short(str(before), 200)}; now: {data}): "
                    "resume with the same data"
                )
            if stored.get("configurations", configurations) != configurations:
                raise ValueError(
                    f"{', '.join(configurations)} has changed since the run in {self.path} began: restore the file, or "
                    "choose another --out folder"
                )
        for unfinished in self.path.rglob(PARTS):
            if is_temporary(unfinished):  # left by a process that was killed while writing
                unfinished.unlink(missing_ok=True)
        write_text(self.job, job_name())
        found = {**options.to_dict(), "data_summary": data, "configurations": configurations}
        write_text(self.options, json.dumps(found, indent=1) + "\n")

    def of_this_job(self) -> bool:
        """Return whether the run in this folder belongs to the torchrun job that has started this process."""
        return self.job.is_file() and self.job.read_text() == job_name()

    def snapshot(self, step: int) -> Path:
        """Return the path of the model file with the averaged weights after a step."""
        return self.snapshots / f"step-{step:09}.safetensors"

    def write_sheet(self, step: int, picture: Image.Image) -> None:
        """Write the contact sheet of a step."""
        self.sheets.mkdir(exist_ok=True)
        with replacing(self.sheets / f"step-{step:09}.png") as temporary:
            picture.save(temporary, format="png")

    def release(self) -> None:
        if self._lock:
            self._lock.close()
            self._lock = None

    def stored_options(self) -> dict[str, Any]:
        try:
            stored = read_json_file(self.options)
        except (OSError, ValueError) as error:
            raise ValueError(
                f"the options of the run, {self.options}, cannot be read ({reason_of(error)}): choose another --out "
                "folder"
            ) from error
        if not isinstance(stored, dict):
            raise ValueError(f"{self.options} does not contain the options of a run: choose another --out folder")
        return stored

    def is_locked(self) -> bool:
        """Return whether a process is training in this folder now."""
        if not (self.path / ".lock").exists():
            return False
        try:
            self._acquire_lock()
        except (ValueError, OSError):
            return True
        self.release()
        return False

    def _acquire_lock(self) -> None:
        """Lock the folder until `release` or the end of the process, so that no other training writes into it."""
        try:
            import fcntl
        except ImportError:  # not a POSIX system: no lock
            return
        lock = (self.path / ".lock").open("a")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            lock.close()
            raise ValueError(
                f"another process is training in {self.path}: wait for it, or choose another --out folder"
            ) from None
        self._lock = lock


def _configurations(options: TrainingOptions) -> dict[str, Any]:
    """Return the contents of the JSON files that configure the network, by their paths."""
    found: dict[str, Any] = {}
    for name in ("network", "scratch", "baseline"):
        value = getattr(options, name, None)
        if value and Path(value).suffix == ".json":
            with suppress(OSError, ValueError):  # the network cannot be made from this file, which gives the error
                found[str(value)] = read_json_file(Path(value))
    return found


def _is_start_of_log(log: Path) -> bool:
    """Return whether a file is the log of a run, or the run was killed before it has written all of the first line."""
    if not log.exists():
        return True
    try:
        with log.open("rb") as file:
            return _LOG_BEGIN.startswith(file.read(len(_LOG_BEGIN)))
    except OSError:
        return False


def _last_lines(log: Path) -> list[str]:
    with log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - _MOST_LOG_BYTES))
        return file.read(_MOST_LOG_BYTES).decode(errors="replace").splitlines()


def describe_run(path: Path) -> dict[str, Any]:
    """Summarise a run folder: options, progress, the last log line of each kind, and which checkpoints are intact."""
    folder = RunFolder(path)
    if not folder.options.is_file():
        inside = sorted(one.parent.name for one in path.glob("*/options.json"))
        hint = f", but there are runs inside it: {', '.join(inside)}" if inside else ""
        raise ValueError(f"{path} is not a run folder of condvae: it contains no options.json{hint}")
    checkpoints = Checkpoints(folder.checkpoints)
    found: dict[int, str] = {}
    position: Position | None = None
    for step in checkpoints.steps():
        try:
            position, _ = checkpoints.read(checkpoints.path(step))
            found[step] = "intact"
        except ValueError as error:
            found[step] = f"damaged: {error}"
    events: dict[str, dict[str, Any]] = {}
    for line in _last_lines(folder.log) if folder.log.is_file() else []:
        try:
            record = parse_json(line)
            events[str(record["event"])] = dict(record)
        except (ValueError, KeyError, TypeError):
            continue
    return {
        "options": folder.stored_options(),
        "step": position.step if position else 0,
        "best_step": position.best_step if position else None,
        "best_loss": position.best_loss if position else None,
        "rollbacks": position.rollbacks if position else 0,
        "seconds": position.elapsed if position else 0.0,
        "finished": folder.model.is_file(),
        "running": folder.is_locked(),
        "checkpoints": found,
        "last": events,
    }
