"""What a run says: a live line, a JSON line for every report, and trackers for those who use them."""

import json
import math
import os
import secrets
import sys
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Protocol, TextIO

from PIL import Image


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
        self._run = wandb.init(
            project=project, id=name.read_text(), resume="allow", dir=str(folder), config=dict(options)
        )

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

    def keep_until(self, step: int) -> None:
        """Forget lines of later steps, and a last line cut short: those steps will be done again."""
        if not self.speaks or not self.path.exists():
            return
        kept = []
        for line in self.path.read_text().splitlines():
            try:
                record = json.loads(line)
            except ValueError:
                continue
            if record["step"] <= step:
                kept.append(line + "\n")
        handle, temporary = tempfile.mkstemp(dir=self.path.parent, prefix=".log.", suffix=".part", text=True)
        with os.fdopen(handle, "w") as file:
            file.writelines(kept)
        os.chmod(temporary, 0o644)
        os.replace(temporary, self.path)

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
        for tracker in self.trackers:
            tracker.numbers(step, numbers)

    def picture(self, step: int, name: str, image: Image.Image) -> None:
        for tracker in self.trackers:
            tracker.picture(step, name, image)

    def live(self, text: str) -> None:
        """The line of the moment: rewritten in place on a terminal, a line of its own elsewhere."""
        if not self.speaks:
            return
        if self.stream.isatty():
            self.stream.write(f"\r\x1b[K{text}")
            self._live = True
        else:
            self.stream.write(text + "\n")
        self.stream.flush()

    def say(self, text: str) -> None:
        """A line that stays."""
        if self.speaks:
            self.stream.write(("\n" if self._live else "") + text + "\n")
            self.stream.flush()
            self._live = False

    def warn(self, text: str) -> None:
        if self.speaks:
            self.say(f"warning: {text}")

    def close(self) -> None:
        if self._live:
            self.say("")
        for tracker in self.trackers:
            tracker.close()


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
