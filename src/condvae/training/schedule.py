"""How the learning rate moves, and when training ends: after a number of steps, or on time."""

import math
import time
from dataclasses import dataclass
from typing import Literal

from condvae.runtime.checks import check_choice


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """Factor on the learning rate: linear warm-up, then constant or a decay over the budget."""

    decay: Literal["constant", "cosine", "linear"] = "constant"
    warm_up: int = 100
    final: float = 0.0
    """The factor at the end of a decay."""

    def __post_init__(self) -> None:
        check_choice(self.decay, "the schedule", ("constant", "cosine", "linear"))
        if self.warm_up < 0 or not 0 <= self.final <= 1:
            raise ValueError(
                f"warm_up is {self.warm_up} and final is {self.final}, expected 0 or more steps and a factor of 0 to 1"
            )

    def factor(self, step: int, progress: float) -> float:
        """Return the factor for step 0, 1, ... progress: the fraction of the budget that is used up, 0 to 1."""
        warm = min(1.0, (step + 1) / self.warm_up) if self.warm_up else 1.0
        left = 1 - min(max(progress, 0.0), 1.0)
        if self.decay == "constant":
            return warm
        shape = left if self.decay == "linear" else 0.5 - 0.5 * math.cos(math.pi * left)
        return warm * (self.final + (1 - self.final) * shape)


class Budget:
    """Steps, or minutes, or both: training ends with the first to run out.

    Minutes are kept by reading the clock now and then (`look`) and counting steps in between, so that no step waits for
    the device to know the time, and all ranks, told the same reading, agree on every learning rate and on the end.
    """

    def __init__(self, *, steps: int | None, minutes: float | None) -> None:
        if steps is None and minutes is None:
            raise ValueError("say when training ends: give a number of steps, or minutes, or both")
        if steps is not None and steps < 1:
            raise ValueError(f"steps is {steps}, expected a whole number from 1")
        if minutes is not None and not minutes > 0:
            raise ValueError(f"minutes is {minutes}, expected a positive number")
        self.steps = steps
        self.seconds = None if minutes is None else 60 * minutes
        self.reserve = 0.0
        """Seconds kept for the last evaluation and for writing the model."""
        self._seen = (0, 0.0)
        self.pace = 0.0
        """Seconds a step, as of late."""

    def look(self, step: int, elapsed: float, *, reserve: float | None = None, settling: bool = False) -> None:
        """So many seconds have gone by when `step` steps are done. settling: the last ones say nothing of the pace."""
        before, then = self._seen
        if step > before and elapsed > then and not settling:
            self.pace = (elapsed - then) / (step - before)
        self._seen = (step, elapsed)
        if reserve is not None:
            self.reserve = reserve

    def elapsed(self, step: int) -> float:
        """Seconds gone by after `step` steps, as far as is known."""
        seen, elapsed = self._seen
        return elapsed + (step - seen) * self.pace

    def progress(self, step: int) -> float:
        """The share of the budget that is used up, 1 at its end."""
        shares = []
        if self.steps is not None:
            shares.append(step / self.steps)
        if self.seconds is not None:
            shares.append(self.elapsed(step) / max(self.seconds - self.reserve, 1e-9))
        return max(shares)

    def over(self, step: int) -> bool:
        if self.steps is not None and step >= self.steps:
            return True
        # With a clock alone, one step is made in any case; the next must still fit.
        return self.seconds is not None and step > 0 and self.elapsed(step + 1) > self.seconds - self.reserve

    def seconds_left(self, step: int) -> float | None:
        """Until the end, where it can be told."""
        guesses = []
        if self.steps is not None and self.pace:
            guesses.append((self.steps - step) * self.pace)
        if self.seconds is not None:
            guesses.append(self.seconds - self.elapsed(step))
        return max(0.0, min(guesses)) if guesses else None


class Stopwatch:
    """Seconds since the run began, those of earlier sessions included."""

    def __init__(self, before: float = 0.0) -> None:
        self._start = time.monotonic() - before

    def add(self, before: float) -> None:
        self._start -= before

    def __call__(self) -> float:
        return time.monotonic() - self._start
