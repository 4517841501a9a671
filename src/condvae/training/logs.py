"""What a run says: a live line, a JSON line for every report, and trackers for those who use them."""

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


class Tracker(Protocol):
    """Someone else's page of curves and pictures."""

    def numbers(self, step: int, values: Mapping[str, float]) -> None: ...

    def picture(self, step: int, name: str, image: Image.Image) -> None: ...

    def close(self) -> None: ...


class TensorBoard:
    """Event files in the run folder: `tensorboard --logdir RUN`."""

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
    """A run of a Weights & Biases project; WANDB_MODE=offline keeps it on this machine."""

    def __init__(self, folder: Path, project: str, options: Mapping[str, Any]) -> None:
        try:
            import wandb
        except ImportError as error:
            raise ValueError("Weights & Biases is not installed: pip install 'condvae[track]'") from error
        # The id lives in the run folder, so that a resumed run goes on in the same curves.
        name = folder / "wandb-id"
        if not name.exists():
            name.write_text(secrets.token_hex(4))
        self._wandb = wandb
        try:
            self._run = wandb.init(
                project=project, id=name.read_text(), resume="allow", dir=str(folder), config=dict(options)
            )
        except wandb.Error as error:
            raise ValueError(f"Weights & Biases: {error}: log in with it, or set WANDB_MODE=offline") from error

    def numbers(self, step: int, values: Mapping[str, float]) -> None:
        self._run.log(dict(values), step=step)

    def picture(self, step: int, name: str, image: Image.Image) -> None:
        self._run.log({name: self._wandb.Image(image)}, step=step)

    def close(self) -> None:
        self._run.finish()


class RunLog:
    """`log.jsonl` in the run folder, the terminal, and the trackers. Only the leading rank has one that speaks."""

    def __init__(
        self, folder: Path, *, speaks: bool, trackers: Iterable[Tracker] = (), stream: TextIO | None = None
    ) -> None:
        self.path = folder / "log.jsonl"
        self.speaks = speaks
        self.trackers = list(trackers) if speaks else []
        self.stream = stream or sys.stdout
        self._live = False
        self._lost = False

    def keep_until(self, step: int, *, without: tuple[str, ...] = ()) -> None:
        """Forget lines of later steps and lines cut short, and of this step events that will come again."""
        if not self.speaks or not self.path.exists():
            return
        kept = []
        for line in self.path.read_text(errors="replace").splitlines():
            try:
                record = json.loads(line)
                again = record["step"] == step and record["event"] in without
                if record["step"] <= step and not again:
                    kept.append(line + "\n")
            except (ValueError, KeyError, TypeError):
                continue
        try:
            with replacing(self.path) as temporary:
                temporary.write_text("".join(kept))
        except OSError as error:
            self.warn(f"{self.path} cannot be written ({error.strerror}): it keeps lines that will come again")

    def record(self, event: str, step: int, **values: Any) -> None:
        """One line of JSON, and its numbers to the trackers."""
        if not self.speaks:
            return
        # NaN is no JSON: where there is no number, null says so.
        line = json.dumps(_plain({"event": event, "step": step, **values})) + "\n"
        try:
            with self.path.open("a") as file:
                file.write(line)
        except OSError as error:
            if not self._lost:
                self.warn(f"{self.path} cannot be written ({error.strerror}): training goes on, its log has gaps")
            self._lost = True
        numbers = dict(_numbers(event, values))
        self._track(lambda tracker: tracker.numbers(step, numbers))

    def picture(self, step: int, name: str, image: Image.Image) -> None:
        """A picture for the trackers."""
        self._track(lambda tracker: tracker.picture(step, name, image))

    def _track(self, tell: Callable[[Tracker], None]) -> None:
        """A tracker that fails, for want of a network or of disk, is left behind: training does not depend on it."""
        for tracker in list(self.trackers):
            try:
                tell(tracker)
            except Exception as error:
                self.trackers.remove(tracker)
                self.warn(f"{type(tracker).__name__} has failed ({error}): training goes on without it")

    def live(self, text: str) -> None:
        """The line of the moment: rewritten in place on a terminal, a line of its own elsewhere."""
        if self.speaks and self.stream.isatty():
            self._print(f"\r\x1b[K{text}")
            self._live = True
        else:
            self.say(text)

    def say(self, text: str) -> None:
        """A line that stays."""
        if self.speaks:
            self._print(("\n" if self._live else "") + text + "\n")
            self._live = False

    def _print(self, text: str) -> None:
        try:
            self.stream.write(text)
            self.stream.flush()
        except OSError:
            # The terminal is gone, or a pipe closed: no reason to stop training, nor to fail at the very end, when
            # Python writes out what is left.
            if self.stream is sys.stdout:
                os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())

    def warn(self, text: str) -> None:
        if self.speaks:
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
    """1:02:03 or 2:03."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
