"""Logs of a run: messages on the console, JSON lines in a file, and optional experiment trackers."""

import json
import math
import os
import secrets
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from PIL import Image

from condvae.runtime.atomic import replacing
from condvae.runtime.json_reading import parse_json
from condvae.runtime.messages import Say, warn_with
from condvae.runtime.progress import say as print_message

if TYPE_CHECKING:
    from condvae.training.step import Progress


class Tracker(Protocol):
    """An external experiment tracker, which receives numbers and pictures."""

    def numbers(self, step: int, values: Mapping[str, float]) -> None:
        """Log the numbers of a step, by name."""

    def picture(self, step: int, name: str, image: Image.Image) -> None:
        """Log a picture that was drawn at a step."""

    def close(self) -> None:
        """End the log."""


class TensorBoard:
    """Write TensorBoard event files into the run folder; view them with `tensorboard --logdir RUN`."""

    def __init__(self, folder: Path) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError as error:
            raise ValueError("TensorBoard is not installed: pip install 'condvae[track]'") from error
        self._writer = SummaryWriter(str(folder / "tensorboard"))

    def numbers(self, step: int, values: Mapping[str, float]) -> None:
        for name, value in values.items():
            self._writer.add_scalar(name, value, step)

    def picture(self, step: int, name: str, image: Image.Image) -> None:
        import numpy as np

        self._writer.add_image(name, np.asarray(image), step, dataformats="HWC")

    def close(self) -> None:
        self._writer.close()


class WeightsAndBiases:
    """Log to a run of a Weights & Biases project; WANDB_MODE=offline keeps the data on this machine."""

    def __init__(self, folder: Path, project: str, options: Mapping[str, Any]) -> None:
        try:
            import wandb
        except ImportError as error:
            raise ValueError("Weights & Biases is not installed: pip install 'condvae[track]'") from error
        # The id is stored in the run folder, so that a resumed run continues the same curves.
        name = folder / "wandb-id"
        if not name.exists():
            name.write_text(secrets.token_hex(4))
        self._wandb = wandb
        try:
            self._run = wandb.init(
                project=project, id=name.read_text(), resume="allow", dir=str(folder), config=dict(options)
            )
        except wandb.Error as error:
            raise ValueError(
                f"Weights & Biases could not start ({error}): run `wandb login`, or set WANDB_MODE=offline"
            ) from error

    def numbers(self, step: int, values: Mapping[str, float]) -> None:
        self._run.log(dict(values), step=step)

    def picture(self, step: int, name: str, image: Image.Image) -> None:
        self._run.log({name: self._wandb.Image(image)}, step=step)

    def close(self) -> None:
        self._run.finish()


class RunLog:
    """The log of a run: `log.jsonl` in the run folder, the console, and trackers. It is only enabled on rank 0."""

    def __init__(
        self, folder: Path, *, enabled: bool, trackers: Iterable[Tracker] = (), say: Say = print_message
    ) -> None:
        self.path = folder / "log.jsonl"
        self.enabled = enabled
        self.trackers = list(trackers) if enabled else []
        self._say = say
        self._write_failed = False

    def keep_until(self, step: int, *, without: tuple[str, ...] = ()) -> None:
        """Delete the log lines that a resumed run will write again.

        These are incomplete lines, lines of later steps, and lines of this step whose event is in `without`.
        """
        if not self.enabled or not self.path.exists():
            return
        kept = []
        for line in self.path.read_text(errors="replace").splitlines():
            try:
                record = parse_json(line)
                again = record["step"] == step and record["event"] in without
                if record["step"] <= step and not again:
                    kept.append(line + "\n")
            except (ValueError, KeyError, TypeError):
                continue
        try:
            with replacing(self.path) as temporary:
                temporary.write_text("".join(kept))
        except OSError as error:
            self.warn(f"{self.path} cannot be written ({error.strerror}): some of its lines will appear twice")

    def record(self, event: str, step: int, **values: Any) -> None:
        """Append one JSON line to the log, and send its numbers to the trackers."""
        if not self.enabled:
            return
        # JSON has no NaN or infinity: `_plain` writes null instead.
        line = json.dumps(_plain({"event": event, "step": step, **values})) + "\n"
        try:
            with self.path.open("a") as file:
                file.write(line)
        except OSError as error:
            if not self._write_failed:
                self.warn(
                    f"{self.path} cannot be written ({error.strerror}): training continues, but its log will have gaps"
                )
            self._write_failed = True
        numbers = dict(_numbers(event, values))
        self._track(lambda tracker: tracker.numbers(step, numbers))

    def picture(self, step: int, name: str, image: Image.Image) -> None:
        """Send a picture to the trackers."""
        self._track(lambda tracker: tracker.picture(step, name, image))

    def _track(self, send: Callable[[Tracker], None]) -> None:
        """Call `send` with every tracker. Drop a tracker that fails, for example because it is offline; then warn."""
        for tracker in list(self.trackers):
            try:
                send(tracker)
            except Exception as error:
                self.trackers.remove(tracker)
                self.warn(f"{type(tracker).__name__} has failed ({error}): training continues without it")

    def say(self, text: str) -> None:
        """Print a message."""
        self._print(self._say, text)

    def warn(self, text: str) -> None:
        """Print a warning, also with --quiet."""
        self._print(warn_with(self._say), f"warning: {text}")

    def _print(self, say: Say, text: str) -> None:
        if not self.enabled:
            return
        try:
            say(text)
        except OSError:
            # The terminal or pipe was closed. Training continues, and later output goes to /dev/null, so that Python's
            # flush at exit does not fail either.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())

    def close(self) -> None:
        self._track(lambda tracker: tracker.close())


def step_note(progress: "Progress", described: list[str], *, batch: int, pace: float) -> str:
    """Describe the last training steps for the console.

    described: what the task says about them. pace: seconds per step, or 0 if not known.
    """
    speed = [f"{batch / pace:,.{0 if batch > 10 * pace else 1}f} images/s"] if pace else []
    return ", ".join([*speed, *described, *([f"{progress.skipped} skipped"] if progress.skipped else [])])


def _plain(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, Mapping):
        return {str(key): _plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    return value


def _numbers(prefix: str, values: Mapping[Any, Any]) -> Iterable[tuple[str, float]]:
    for key, value in values.items():
        if isinstance(value, Mapping):
            yield from _numbers(f"{prefix}/{key}", value)
        elif isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
            yield f"{prefix}/{key}", float(value)
