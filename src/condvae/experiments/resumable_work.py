"""Long measurements as many small files: any number of processes share the work, and a killed one is taken up again.

The work is cut into units whose results are files, in a folder named by a fingerprint of all that they depend on.
Every file is whole or not there, and written by nobody who has read it first: processes that were told the same write
the same, whoever is last.
"""

import contextlib
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import torch
from torch import Tensor
from tqdm import tqdm

from condvae.runtime.fingerprints import fingerprint, slug_of
from condvae.runtime.messages import Say
from condvae.runtime.ranks import World
from condvae.weights import sealed_file

ResultTensors: TypeAlias = Mapping[str, Tensor]
"""Of a unit of work, the first axis running over its images."""

_LONGEST = 50
"""Letters of a job's name in the name of its folder."""


def joined(pieces: Sequence[ResultTensors]) -> dict[str, Tensor]:
    """The same numbers of several lots of images, one after the other."""
    return {name: torch.cat([piece[name] for piece in pieces]) for name in pieces[0]}


class Shard(NamedTuple):
    """Number i, from 1, of n processes that share the work; they need not know of each other."""

    number: int
    of: int

    @classmethod
    def parse(cls, text: str) -> "Shard":
        number, slash, of = text.partition("/")
        if not (slash and number.isdecimal() and of.isdecimal() and 1 <= int(number) <= int(of)):
            raise ValueError(f"the shard {text!r} cannot be read, expected I/N with I from 1 to N, such as 2/8")
        return cls(int(number), int(of))

    @classmethod
    def of_text(cls, text: str | None, *, ranks: int) -> "Shard | None":
        """The shard of a command line, if one was given; ranks that torchrun has started have theirs already."""
        if text is None:
            return None
        if ranks > 1:
            raise ValueError("--shard is for processes that torchrun has not started: leave out one of the two")
        return cls.parse(text)


class ImageRange(NamedTuple):
    """Some of the images, which are measured together; the result is one file."""

    first: int
    stop: int

    def __str__(self) -> str:
        return f"{self.first:06}-{self.stop:06}"


def image_ranges(images: int, size: int) -> Iterator[ImageRange]:
    """All images in blocks of that size."""
    for first in range(0, images, size):
        yield ImageRange(first, min(first + size, images))


class ResultStore:
    """A folder of results that depend on the same things, each under the name of its unit of work."""

    def __init__(self, folder: Path, *, kind: str) -> None:
        self.folder, self.kind = folder, kind

    @classmethod
    def of_job(cls, out: Path, name: str, made_of: Mapping[str, Any], *, kind: str) -> "ResultStore":
        """The store of a job. made_of: plain values of all that its results depend on, but for the machine's rounding.

        Another value is another folder: what was measured otherwise is never taken for this job's.
        """
        return cls(out / "runs" / f"{slug_of(name)[:_LONGEST]}-{fingerprint(made_of)}", kind=kind)

    def has(self, unit: object) -> bool:
        return self._file(unit).is_file()

    def put(
        self, unit: object, numbers: ResultTensors, *, seconds: float, notes: Mapping[str, Any] | None = None
    ) -> None:
        """Write a part under a temporary name and rename it: a kill leaves no half of one. notes: JSON beside it."""
        plain = {name: tensor.cpu().contiguous() for name, tensor in numbers.items()}
        try:
            about = {"part": self._name(unit), "seconds": seconds, "notes": notes}
            sealed_file.write(self._file(unit), kind=self.kind, description=about, tensors=plain)
        except OSError as error:
            raise ValueError(f"{error}: make room for the results, and run once more") from error

    def get(self, units: Iterable[object]) -> tuple[dict[str, Tensor], float]:
        """The numbers of these units one after the other, and the seconds that they took together."""
        pieces, seconds = [], 0.0
        for unit in units:
            description, tensors = self._read(unit)
            pieces.append(tensors)
            seconds += float(description["seconds"])
        return joined(pieces), seconds

    def check_whole(self, units: Sequence[object]) -> None:
        """Raise a ValueError unless all of these are there."""
        if missing := [unit for unit in units if not self.has(unit)]:
            raise ValueError(
                f"{self.folder} lacks {len(missing)} of {len(units)} parts, the first is {missing[0]}: all "
                "processes must write to a folder that they share"
            )

    def notes(self, unit: object) -> dict[str, Any]:
        """What was written beside the numbers of a unit."""
        return dict(self._read(unit)[0]["notes"])

    def keep_only(self, unit: object) -> None:
        """Remove the results of all other units."""
        for path in self.folder.glob("*.safetensors"):
            if path != self._file(unit):
                path.unlink(missing_ok=True)

    def _read(self, unit: object) -> tuple[dict[str, Any], dict[str, Tensor]]:
        try:
            description, tensors = sealed_file.read(self._file(unit), kind=self.kind)
            if description.get("part") != self._name(unit):
                raise ValueError(f"{self._file(unit)} holds what was measured as {description.get('part')}")
        except ValueError as error:
            raise ValueError(f"{error}: remove it and run once more, which makes it again") from error
        return description, tensors

    def _name(self, unit: object) -> str:
        """Written into the part, by which a file that somebody has copied or renamed is found out."""
        return f"{self.folder.name}/{unit}"

    def _file(self, unit: object) -> Path:
        return self.folder / f"{unit}.safetensors"


@dataclass(frozen=True, kw_only=True, eq=False)
class WorkUnit:
    """One unit of work."""

    what: str
    """What it is part of, in words: one line is logged for all units in a row that are part of the same."""
    store: ResultStore
    unit: object
    images: int
    measure: Callable[[], ResultTensors]
    prepare: Callable[[Say], object] | None = None
    """Called before, its time not counted."""

    @property
    def done(self) -> bool:
        return self.store.has(self.unit)


def work(units: Sequence[WorkUnit], place: Shard, say: Say, *, shows: bool) -> None:
    """Do every n-th unit, if its result is not there yet; logs when a group of units finishes."""
    share = units[place.number - 1 :: place.of]
    mine = [one for one in share if not one.done]
    if len(mine) < len(share):
        say(f"{len(share) - len(mine)} of {len(share)} units of work are done already")
    spent, images = 0.0, 0
    # disable=None: no bar where there is no terminal.
    with tqdm(total=len(mine), unit="unit", leave=False, disable=None if shows else True) as bar:
        for i, one in enumerate(mine):
            bar.set_description(one.what)
            if not one.done:  # another process may have been told the same
                if one.prepare is not None:
                    with _bar_hidden(bar):
                        one.prepare(say)
                begin = time.perf_counter()
                numbers = {name: tensor.cpu() for name, tensor in one.measure().items()}  # waits for the device
                seconds = time.perf_counter() - begin
                one.store.put(one.unit, numbers, seconds=seconds)
                spent, images = spent + seconds, images + one.images
            bar.update()
            last = i + 1 == len(mine) or mine[i + 1].what != one.what
            if last and images:
                with _bar_hidden(bar):
                    say(f"{one.what}: {images:,} images in {spent:.1f} s, {images / max(spent, 1e-9):,.1f} images/s")
                spent, images = 0.0, 0


def work_together(units: Sequence[WorkUnit], world: World, shard: Shard | None, say: Say) -> bool:
    """Do this process's share and wait for the other ranks; whether the report is this process's to write."""
    work(units, shard or Shard(world.rank + 1, world.size), say, shows=world.leads)
    world.sum(torch.zeros(1, device=world.device))  # here all ranks have finished
    if shard is not None:
        say(f"shard {shard.number} of {shard.of} is through: a call without --shard, after all of them, reports")
    return shard is None and world.leads


@contextlib.contextmanager
def _bar_hidden(bar: "tqdm[Any]") -> Iterator[None]:
    """Lines may be printed meanwhile."""
    if not bar.disable:
        bar.clear()
    yield
    if not bar.disable:
        bar.refresh()
