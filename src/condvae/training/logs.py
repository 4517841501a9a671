"""Logs of a run: a progress line in the terminal, JSON lines in a file, and optional experiment trackers."""

import json
import math
import os
import secrets
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Protocol, TextIO

from PIL import Image

from condvae.runtime.atomic import replacing
from condvae.runtime.json_reading import parse_json


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
    """The log of a run: `log.jsonl` in the run folder, the terminal, and trackers. It is only enabled on rank 0."""

    def __init__(
        self, folder: Path, *, enabled: bool, trackers: Iterable[Tracker] = (), stream: TextIO | None = None
    ) -> None:
        self.path = folder / "log.jsonl"
        self.enabled = enabled
        self.trackers = list(trackers) if enabled else []
        self.stream = stream or sys.stdout
        self._live = False  # whether the cursor is on a progress line
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

    def live(self, text: str) -> None:
        """Print a progress line. In a terminal it replaces the last progress line; elsewhere it is an ordinary line."""
        if self.enabled and self.stream.isatty():
            self._print(f"\r\x1b[K{text}")
            self._live = True
        else:
            self.say(text)

    def say(self, text: str) -> None:
        """Print a line that later progress lines do not replace."""
        if self.enabled:
            self._print(("\n" if self._live else "") + text + "\n")
            self._live = False

    def _print(self, text: str) -> None:
        try:
            self.stream.write(text)
            self.stream.flush()
        except OSError:
            # The terminal or pipe was closed. Training continues, and later output goes to /dev/null, so that Python's
            # flush at exit does not fail either.
            if self.stream is sys.stdout:
                os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())

    def warn(self, text: str) -> None:
        if self.enabled:
            self.say(f"warning: {text}")

    def close(self) -> None:
        if self._live:
            self.say("")
        self._track(lambda tracker: tracker.close())


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


def duration(seconds: float) -> str:
    """Format seconds as 1:02:03 or 2:03."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
