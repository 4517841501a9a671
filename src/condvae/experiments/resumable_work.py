"""Work that several processes can share, and that can be resumed if a process was killed.

The work is split into units. The result of each unit is one file, in a folder named by a fingerprint of everything that
the result depends on. Files are written atomically. Processes that compute the same unit write the same content, so it
does not matter which of them writes last.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple, TypeAlias

import torch
from torch import Tensor

from condvae.runtime.fingerprints import fingerprint, slug_of
from condvae.runtime.messages import Say
from condvae.runtime.progress import track, with_display
from condvae.runtime.ranks import World
from condvae.weights import sealed_file

ResultTensors: TypeAlias = Mapping[str, Tensor]
"""The results of a unit of work: tensors by name, whose first axis runs over the unit's images."""

_LONGEST = 50
"""The name of a job's folder contains at most this many characters of the job's name."""


def joined(pieces: Sequence[ResultTensors]) -> dict[str, Tensor]:
    """Concatenate the results of several sets of images, name by name, along the axis of images."""
    return {name: torch.cat([piece[name] for piece in pieces]) for name in pieces[0]}


class Shard(NamedTuple):
    """One of `of` shards, with a number from 1 to `of`. An independent process computes each shard."""

    number: int
    of: int

    @classmethod
    def parse(cls, text: str) -> "Shard":
        number, slash, of = text.partition("/")
        if not (slash and number.isdecimal() and of.isdecimal() and 1 <= int(number) <= int(of)):
            raise ValueError(f"{text!r} is not a shard: expected I/N with I from 1 to N, such as 2/8")
        return cls(int(number), int(of))

    @classmethod
    def of_text(cls, text: str | None, *, ranks: int) -> "Shard | None":
        """Parse the value of --shard; return None if it was not given.

        Raise a ValueError if it is combined with torchrun, whose ranks already share the work.
        """
        if text is None:
            return None
        if ranks > 1:
            raise ValueError("--shard cannot be combined with torchrun, which splits the work: use one of the two")
        return cls.parse(text)


class ImageRange(NamedTuple):
    """The images from `first` to `stop` - 1. They are measured together, and their result is one file."""

    first: int
    stop: int

    def __str__(self) -> str:
        return f"{self.first:06}-{self.stop:06}"


def image_ranges(images: int, size: int) -> Iterator[ImageRange]:
    """Yield ranges of at most `size` images that together contain all images."""
    for first in range(0, images, size):
        yield ImageRange(first, min(first + size, images))


class ResultStore:
    """A folder of results of one job, one file for each unit of work."""

    def __init__(self, folder: Path, *, kind: str) -> None:
        self.folder, self.kind = folder, kind

    @classmethod
    def of_job(cls, out: Path, name: str, made_of: Mapping[str, Any], *, kind: str) -> "ResultStore":
        """Return the store of a job, whose folder name contains a fingerprint of `made_of`.

        made_of: everything that the results depend on, except rounding, as plain values. A job with other values gets
        another folder, so that results of different jobs are never mixed.
        """
        return cls(out / "runs" / f"{slug_of(name)[:_LONGEST]}-{fingerprint(made_of)}", kind=kind)

    def has(self, unit: object) -> bool:
        return self._file(unit).is_file()

    def put(
        self, unit: object, numbers: ResultTensors, *, seconds: float, notes: Mapping[str, Any] | None = None
    ) -> None:
        """Write the result of a unit atomically. notes: a JSON object that is stored in the same file."""
        plain = {name: tensor.cpu().contiguous() for name, tensor in numbers.items()}
        try:
            about = {"part": self._name(unit), "seconds": seconds, "notes": notes}
            sealed_file.write(self._file(unit), kind=self.kind, description=about, tensors=plain)
        except OSError as error:
            raise ValueError(f"{error}: free some space and run the same command again") from error

    def get(self, units: Iterable[object]) -> tuple[dict[str, Tensor], float]:
        """Return the concatenated results of these units, and their total time in seconds."""
        pieces, seconds = [], 0.0
        for unit in units:
            description, tensors = self._read(unit)
            pieces.append(tensors)
            seconds += float(description["seconds"])
        return joined(pieces), seconds

    def check_whole(self, units: Sequence[object]) -> None:
        """Raise a ValueError unless the results of all these units exist."""
        if missing := [unit for unit in units if not self.has(unit)]:
            raise ValueError(
                f"{self.folder} has no results for {len(missing)} of {len(units)} units of work, such as {missing[0]}: "
                "let all processes write to one shared folder"
            )

    def with_notes(self, unit: object) -> tuple[dict[str, Any], dict[str, Tensor]]:
        """Return the JSON object that `put` stored as `notes` with the result of a unit, and the result."""
        description, tensors = self._read(unit)
        return dict(description["notes"]), tensors

    def keep_only(self, unit: object) -> None:
        """Delete the results of all units except this one."""
        for path in self.folder.glob("*.safetensors"):
            if path != self._file(unit):
                path.unlink(missing_ok=True)

    def _read(self, unit: object) -> tuple[dict[str, Any], dict[str, Tensor]]:
        try:
            description, tensors = sealed_file.read(self._file(unit), kind=self.kind)
            if description.get("part") != self._name(unit):
                raise ValueError(f"{self._file(unit)} contains the result of another unit, {description.get('part')}")
        except ValueError as error:
            raise ValueError(f"{error}: delete the file and run the same command again to recompute it") from error
        return description, tensors

    def _name(self, unit: object) -> str:
        """Return the name that is stored in the unit's file, so that a copied or renamed file can be detected."""
        return f"{self.folder.name}/{unit}"

    def _file(self, unit: object) -> Path:
        return self.folder / f"{unit}.safetensors"


@dataclass(frozen=True, kw_only=True, eq=False)
class WorkUnit:
    """A part of an experiment whose result is one file."""

    what: str
    """A description for the log. Consecutive units with the same description share one line of the log."""
    store: ResultStore
    unit: object
    images: int
    measure: Callable[[], ResultTensors]
    prepare: Callable[[], object] | None = None
    """A function that is called before `measure`, and whose time is not counted."""
    together: str = ""
    """Units with the same text, unless it is empty, are computed by one process, in their order."""

    @property
    def done(self) -> bool:
        return self.store.has(self.unit)


class _Pace:
    """Estimates the time left. Units of one store take about the same time; those of others may take far longer."""

    def __init__(self, units: Sequence[WorkUnit]) -> None:
        # All keys exist from the start, because another thread reads them.
        self._waiting = Counter(one.store.folder for one in units)
        self._times: dict[Path, list[float]] = {folder: [] for folder in self._waiting}
        self._now: tuple[Path | None, float] = (None, 0.0)

    def begin(self, unit: WorkUnit) -> None:
        self._now = (unit.store.folder, time.perf_counter())

    def finish(self, unit: WorkUnit, seconds: float | None) -> None:
        """Count a unit as finished, and its time unless it is None."""
        self._waiting[unit.store.folder] -= 1
        if seconds is not None:
            self._times[unit.store.folder].append(seconds)

    def left(self) -> float | None:
        """Return the seconds left: the mean time of a store's units, or of all units if none of the store is done."""
        times = {folder: list(some) for folder, some in self._times.items()}
        every = [seconds for some in times.values() for seconds in some]
        if not every:
            return None
        current, begun = self._now
        if current is not None and not times[current]:  # the first unit of a store may already have taken longer
            times[current] = [max(fmean(every), time.perf_counter() - begun)]
        return sum(self._waiting[folder] * fmean(some or every) for folder, some in times.items())


def _share(units: Sequence[WorkUnit], shard: Shard) -> list[WorkUnit]:
    """Return every n-th unit for one of n shards, where units that belong together count as one."""
    groups: dict[str | int, list[WorkUnit]] = {}
    for number, one in enumerate(units):
        groups.setdefault(one.together or number, []).append(one)
    return [one for group in list(groups.values())[shard.number - 1 :: shard.of] for one in group]


def work(units: Sequence[WorkUnit], shard: Shard, say: Say, *, gpu_guide: str | None = None) -> None:
    """Compute the missing units of a shard, and log when a group of units with the same description finishes.

    gpu_guide: the page to name if the work takes long on a CPU; None on a GPU.
    """
    share = _share(units, shard)
    mine = [one for one in share if not one.done]
    if len(mine) < len(share):
        say(f"{len(share) - len(mine)} of {len(share)} units of work are done already")
    spent, images, pace = 0.0, 0, _Pace(mine)
    told: dict[str, Any] = {"unit": "unit", "left": pace.left, "gpu_guide": gpu_guide, "announce": bool(mine)}
    with track("measuring", total=len(mine), **told) as job:
        for i, one in enumerate(mine):
            job.note, seconds = f"now {one.what}", None
            pace.begin(one)
            if not one.done:  # another process with the same shard may have computed it
                if one.prepare is not None:
                    one.prepare()
                begin = time.perf_counter()
                numbers = {name: tensor.cpu() for name, tensor in one.measure().items()}  # waits for the device
                seconds = time.perf_counter() - begin
                one.store.put(one.unit, numbers, seconds=seconds)
                spent, images = spent + seconds, images + one.images
            pace.finish(one, seconds)
            job.update()
            last = i + 1 == len(mine) or mine[i + 1].what != one.what
            if last and images:
                say(f"{one.what}: {images:,} images in {spent:.1f} s, {images / max(spent, 1e-9):,.1f} images/s")
                spent, images = 0.0, 0


def work_together(
    units: Sequence[WorkUnit], world: World, shard: Shard | None, say: Say, *, guide: str | None = None
) -> bool:
    """Compute this process's share and wait for the other ranks; return whether this process writes the report.

    guide: the page that says how to use a GPU, for a hint if the work takes long on a CPU.
    """
    with with_display() if say is print else nullcontext():  # Python shows progress unless it gives `say`
        gpu_guide = guide if world.device.type == "cpu" else None
        work(units, shard or Shard(world.rank + 1, world.size), say, gpu_guide=gpu_guide)
    world.sum(torch.zeros(1, device=world.device))  # returns when all ranks have finished
    if shard is not None:
        say(
            f"shard {shard.number} of {shard.of} is done: when all shards are done, run the command without --shard to "
            "write the report"
        )
    return shard is None and world.leads
