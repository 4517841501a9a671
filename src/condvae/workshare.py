"""Long measurements as many small files: any number of processes share the work, and a killed one is taken up again.

The work is cut into chores whose results are files, in a folder named by a fingerprint of all that they depend on.
Every file is whole or not there, and written by nobody who has read it first: processes that were told the same write
the same, whoever is last.
"""

import contextlib
import hashlib
import json
import os
import re
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeAlias, runtime_checkable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from tqdm import tqdm

from condvae import registry
from condvae.data import ImageSet
from condvae.registry import Say
from condvae.train.evaluation import spread
from condvae.weights import sealed_file

Numbers: TypeAlias = Mapping[str, Tensor]
"""Of a chore, the first axis running over its images."""

_HASHED = 20_000
"""Images of a set that its digest looks at."""


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


class Block(NamedTuple):
    """Some of the images, which are measured together; the result is one file."""

    first: int
    stop: int

    def __str__(self) -> str:
        return f"{self.first:06}-{self.stop:06}"


def blocks(images: int, size: int) -> Iterator[Block]:
    """All images in blocks of that size."""
    for first in range(0, images, size):
        yield Block(first, min(first + size, images))


class Shelf:
    """A folder of results that depend on the same things, each under the name of its unit of work."""

    def __init__(self, folder: Path, *, kind: str) -> None:
        self.folder, self.kind = folder, kind

    def has(self, unit: object) -> bool:
        return self._file(unit).is_file()

    def put(self, unit: object, numbers: Numbers, *, seconds: float) -> None:
        """Write a part under a temporary name and rename it: a kill leaves no half of one."""
        plain = {name: tensor.cpu().contiguous() for name, tensor in numbers.items()}
        try:
            about = {"part": self._name(unit), "seconds": seconds}
            sealed_file.write(self._file(unit), kind=self.kind, description=about, tensors=plain)
        except OSError as error:
            raise ValueError(f"{error}: make room for the results, and run once more") from error

    def get(self, units: Iterable[object]) -> tuple[dict[str, Tensor], float]:
        """The numbers of these units one after the other, and the seconds that they took together."""
        pieces, seconds = [], 0.0
        for unit in units:
            try:
                description, tensors = sealed_file.read(self._file(unit), kind=self.kind)
                if description.get("part") != self._name(unit):
                    raise ValueError(f"{self._file(unit)} holds what was measured as {description.get('part')}")
            except ValueError as error:
                raise ValueError(f"{error}: remove it and run once more, which makes it again") from error
            pieces.append(tensors)
            seconds += float(description["seconds"])
        return {name: torch.cat([piece[name] for piece in pieces]) for name in pieces[0]}, seconds

    def check_whole(self, units: Sequence[object]) -> None:
        """Raise a ValueError unless all of these are there."""
        if missing := [unit for unit in units if not self.has(unit)]:
            raise ValueError(
                f"{self.folder} lacks {len(missing)} of {len(units)} parts, the first is {missing[0]}: all "
                "processes must write to a folder that they share"
            )

    def remove(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)
        try:
            self.folder.parent.rmdir()
        except OSError:  # other parts are in it
            return

    def _name(self, unit: object) -> str:
        """Written into the part, by which a file that somebody has copied or renamed is found out."""
        return f"{self.folder.name}/{unit}"

    def _file(self, unit: object) -> Path:
        return self.folder / f"{unit}.safetensors"


@dataclass(frozen=True, kw_only=True, eq=False)
class Chore:
    """One unit of work."""

    what: str
    """What it is part of, in words: chores that follow each other with the same are told of together."""
    shelf: Shelf
    unit: object
    images: int
    measure: Callable[[], Numbers]
    prepare: Callable[[Say], object] | None = None
    """Called before, its time not counted."""

    @property
    def done(self) -> bool:
        return self.shelf.has(self.unit)


def work(chores: Sequence[Chore], place: Shard, say: Say, *, shows: bool) -> None:
    """Do every n-th chore, if its result is not there yet; a line whenever what they are part of is through."""
    share = chores[place.number - 1 :: place.of]
    mine = [chore for chore in share if not chore.done]
    if len(mine) < len(share):
        say(f"{len(share) - len(mine)} of {len(share)} units of work are done already")
    spent, images = 0.0, 0
    # disable=None: no bar where there is no terminal.
    with tqdm(total=len(mine), unit="unit", leave=False, disable=None if shows else True) as bar:
        for i, chore in enumerate(mine):
            bar.set_description(chore.what)
            if not chore.done:  # another process may have been told the same
                if chore.prepare is not None:
                    with _aside(bar):
                        chore.prepare(say)
                begin = time.perf_counter()
                numbers = {name: tensor.cpu() for name, tensor in chore.measure().items()}  # waits for the device
                seconds = time.perf_counter() - begin
                chore.shelf.put(chore.unit, numbers, seconds=seconds)
                spent, images = spent + seconds, images + chore.images
            bar.update()
            last = i + 1 == len(mine) or mine[i + 1].what != chore.what
            if last and images:
                with _aside(bar):
                    say(f"{chore.what}: {images:,} images in {spent:.1f} s, {images / max(spent, 1e-9):,.1f} images/s")
                spent, images = 0.0, 0


@contextlib.contextmanager
def _aside(bar: "tqdm[Any]") -> Iterator[None]:
    """A line may be printed while the bar steps aside."""
    if not bar.disable:
        bar.clear()
    yield
    if not bar.disable:
        bar.refresh()


def fingerprint(of: Mapping[str, Any]) -> str:
    """A short name for plain values: another one for others."""
    return hashlib.sha256(json.dumps(of, sort_keys=True).encode()).hexdigest()[:24]


@runtime_checkable
class Weighted(Protocol):
    """Whatever has weights."""

    def state_dict(self) -> Mapping[str, Any]: ...


def digest_of(module: Weighted, config: Mapping[str, Any] | None = None) -> str:
    """A short name for a network: its kind, its weights, and what else it is made of, as plain values."""
    digest = hashlib.sha256(type(module).__name__.encode())
    digest.update(json.dumps(config, sort_keys=True).encode())
    for name, tensor in sorted(module.state_dict().items()):
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor.detach().cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()[:24]


def digest_of_set(images: ImageSet) -> str:
    """A digest of a set of images: of all of them, or of 20,000 evenly over it and their number."""
    digest = hashlib.sha256(str((len(images), images.size, images.channels)).encode())
    chosen = spread(len(images), _HASHED)
    for first in range(0, len(chosen), 1000):
        digest.update(pixels_of(images, chosen[first : first + 1000]))
    return digest.hexdigest()[:24]


def pixels_of(images: ImageSet, positions: NDArray[np.int64]) -> bytes:
    """Some images of a set, as they lie on disk."""
    return images.gather(positions).images.numpy().tobytes()


def slug_of(name: str) -> str:
    """A name as a file's."""
    return re.sub(r"[^\w.=+-]+", "-", name).strip("-.") or "method"


def check_folder(
    folder: Path, *, folders: Sequence[str], report: Sequence[str], what: str, ours: Callable[[Path], bool]
) -> None:
    """Raise a ValueError if it holds anything but these folders and files of a report.

    what: has made them, such as "an evaluation". ours: whether a results.json is of such a one.
    """
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"{folder} is a file: give a folder for the results")
    if not folder.is_dir():
        return
    visible = sorted(entry.name for entry in folder.iterdir() if not entry.name.startswith("."))
    if strangers := [name for name in visible if name not in (*folders, *report)]:
        raise ValueError(f"{folder} holds {strangers[0]}, which is not from {what}: give another --out")
    for name in visible:
        if name == "results.json" and not ours(folder / name):
            raise ValueError(f"{folder / name} is not from {what}: give another --out")
        if name in folders and not (folder / name).is_dir():
            raise ValueError(f"{folder / name} is a file, where a folder should be: give another --out")


def check_apart(data: str, out: Path) -> None:
    """Raise a ValueError where pictures among the images would be taken for some of them by the next call."""
    if Path(data).is_dir() and Path(data).resolve() in (out.resolve(), *out.resolve().parents):
        raise ValueError(f"{out} is inside {data}, where it would become part of the data: give another folder")


def make_folder(folder: Path) -> None:
    """Make it, or raise a ValueError if it cannot be written to."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe = folder / f".probe-{os.getpid()}"
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise ValueError(f"{folder} cannot be written to ({error.strerror}): give another --out") from error


def clear_away(folders: Iterable[Path]) -> None:
    """Remove what killed processes have left under temporary names long ago."""
    for folder in folders:
        registry.clear_away(folder, ".*.part")


def write_text(path: Path, text: str) -> None:
    """Whole, or the older one stays."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        temporary.write_text(text, encoding="utf-8")
        os.replace(temporary, path)
    except OSError as error:
        raise ValueError(f"{path} cannot be written ({error.strerror}): make room, and run once more") from error
    finally:
        temporary.unlink(missing_ok=True)


def read_json(path: Path, *, format: str) -> dict[str, Any] | None:
    """What a file of ours holds, which says so under "format", or None for any other."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) and found.get("format") == format else None
