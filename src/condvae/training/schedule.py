"""The schedule of the learning rate, and the budget of steps or minutes after which training ends."""

import math
import time
from dataclasses import dataclass
from typing import Any, Literal

from condvae.runtime.checks import check_choice


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """Gives the factor on the learning rate: a linear warm-up from zero, then 1 or a decay over the budget."""

    decay: Literal["constant", "cosine", "linear"] = "constant"
    warm_up: int = 100
    final: float = 0.0
    """The factor at the end of training, after a cosine or linear decay."""

    def __post_init__(self) -> None:
        check_choice(self.decay, "the schedule", ("constant", "cosine", "linear"))
        if self.warm_up < 0 or not 0 <= self.final <= 1:
            raise ValueError(
                f"warm_up is {self.warm_up} and final is {self.final}, expected a warm_up of 0 or more steps and a "
                "final factor from 0 to 1"
            )

    def factor(self, step: int, progress: float) -> float:
        """Return the factor for a step, counted from 0. progress: the fraction of the budget that is used up."""
        warm = min(1.0, (step + 1) / self.warm_up) if self.warm_up else 1.0
        left = 1 - min(max(progress, 0.0), 1.0)
        if self.decay == "constant":
            return warm
        shape = left if self.decay == "linear" else 0.5 - 0.5 * math.cos(math.pi * left)
        return warm * (self.final + (1 - self.final) * shape)


def part_of_limits(part: float, *, steps: int | None, minutes: float | None) -> dict[str, Any]:
    """Return the limits, steps and minutes, of a part of a training. None means no limit."""
    return {
        "steps": None if steps is None else max(1, round(part * steps)),
        "minutes": None if minutes is None else round(part * minutes, 6),
    }


class Budget:
    """A limit on steps, on minutes, or on both. Training ends when one of them is reached.

    The clock is read only now and then (`record_time`); in between, the time is extrapolated from the number of steps.
    So no step has to wait for the device. All ranks receive the same clock readings, so they use the same learning
    rates and end at the same step.
    """

    def __init__(self, *, steps: int | None, minutes: float | None) -> None:
        if steps is None and minutes is None:
            raise ValueError("training has no end: give --steps, --minutes or both")
        if steps is not None and steps < 1:
            raise ValueError(f"--steps is {steps}, expected a whole number of at least 1")
        if minutes is not None and not minutes > 0:
            raise ValueError(f"--minutes is {minutes}, expected a positive number")
        self.steps = steps
        self.seconds = None if minutes is None else 60 * minutes
        self.reserve = 0.0
        """Seconds reserved for the last evaluation and for writing the model."""
        self._last_reading = (0, 0.0)  # step, seconds
        self.pace = 0.0
        """Seconds per step, measured between the last two clock readings."""

    def record_time(self, step: int, elapsed: float, *, reserve: float | None = None, settling: bool = False) -> None:
        """Record that `elapsed` seconds have passed after `step` steps, and update the estimated time per step.

        reserve: the new value of `reserve`, unless None. settling: keep the old time per step, because compilation
        slowed down the last steps.
        """
        before, then = self._last_reading
        if step > before and elapsed > then and not settling:
            self.pace = (elapsed - then) / (step - before)
        self._last_reading = (step, elapsed)
        if reserve is not None:
            self.reserve = reserve

    def elapsed(self, step: int) -> float:
        """Estimate the seconds that have passed after `step` steps."""
        last_step, elapsed = self._last_reading
        return elapsed + (step - last_step) * self.pace

    def progress(self, step: int) -> float:
        """Return the fraction of the budget that is used up: 0 at the start, 1 at the end."""
        shares = []
        if self.steps is not None:
            shares.append(step / self.steps)
        if self.seconds is not None:
            shares.append(self.elapsed(step) / max(self.seconds - self.reserve, 1e-9))
        return max(shares)

    def over(self, step: int) -> bool:
        if self.steps is not None and step >= self.steps:
            return True
        # With only a time limit, at least one step is made; each later one must fit into the remaining time.
        return self.seconds is not None and step > 0 and self.past(self.seconds, step)

    def past(self, seconds: float, step: int) -> bool:
        """Return whether a run with a limit of this many seconds would end after `step` steps."""
        return self.elapsed(step + 1) > seconds - self.reserve

    def seconds_left(self, step: int) -> float | None:
        """Estimate the seconds until training ends. Return None while the time per step is not known."""
        guesses = []
        if self.steps is not None and self.pace:
            guesses.append((self.steps - step) * self.pace)
        if self.seconds is not None:
            guesses.append(self.seconds - self.elapsed(step))
        return max(0.0, min(guesses)) if guesses else None


class Stopwatch:
    """Measures how many seconds a run has taken, including the time before it was resumed."""

    def __init__(self, before: float = 0.0) -> None:
        self._start = time.monotonic() - before

    def add(self, before: float) -> None:
        self._start -= before

    def __call__(self) -> float:
        return time.monotonic() - self._start
