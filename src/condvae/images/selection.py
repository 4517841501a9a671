"""Selects the pictures that a call works on: named files, and files in folders, where bad files are skipped."""

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, NamedTuple, Protocol, TypeVar

import numpy as np
import torch
from torch import Tensor
from tqdm import tqdm

from condvae.images.archive import opened
from condvae.images.decode import fit
from condvae.images.holes import Hole
from condvae.images.reading import Picture, printable, read_picture
from condvae.runtime.fingerprints import FileId
from condvae.runtime.messages import Say
from condvae.runtime.pixels import from_uint8

_NOTED = 5
"""Most pictures whose notes are printed; the others are only counted."""
_MOST_BYTES_WAITING = 2**27
"""Most memory, in bytes, for pictures that were prepared before their turn."""

T = TypeVar("T")


class PreparedPicture(Protocol):
    """A picture prepared for a model."""

    @property
    def nbytes(self) -> int: ...

    @property
    def hole_file(self) -> FileId | None:
        """The file that the hole was read from, if any."""


P = TypeVar("P", bound=PreparedPicture)


@dataclass(frozen=True, kw_only=True)
class SelectedPicture:
    """One file to work on."""

    path: Path
    hole: Hole
    named: bool = True
    """True if the call names this file. Otherwise it was found in a folder, and is skipped if it is bad."""
    sha256: str | None = None
    """The SHA-256 that the file must have; None allows any content."""
    hole_sha256: str | None = None

    def read(self) -> Picture:
        picture = read_picture(self.path)
        check_same(picture.file, self.sha256)
        return picture

    def prepare(self, prepare: Callable[[Picture, Hole], P]) -> P:
        """Read and prepare the picture; raise ValueError if it is bad, or if its content is not the expected one."""
        prepared = prepare(self.read(), self.hole.for_file(self.path))
        check_same(prepared.hole_file, self.hole_sha256)
        return prepared


def select_pictures(
    paths: Sequence[Path], hole: Hole, say: Say, *, done: str, out: Path | None = None
) -> list[SelectedPicture]:
    """Return every file once, in the order of the call; files in the output folder `out` are not used as input.

    done: a participle for messages, such as "completed" in "it is completed once".
    """
    if not paths:
        raise ValueError("no images were given: name at least one file or folder")
    found: dict[Path, SelectedPicture] = {}
    for path in paths:
        if not path.is_dir():
            if (real := _real(path)) in found:
                say(f"{printable(path)} was named twice: it is {done} once")
            found.setdefault(real, SelectedPicture(path=path, hole=hole))
            continue
        with opened(path) as files:
            every = [path / name for name in files.images()]
        inside = [file for file in every if out is None or _real(out) not in _real(file).parents]
        if not inside and every:
            raise ValueError(
                f"all images in {printable(path)} are in the --out folder, which is not read: give another --out"
            )
        if not inside:
            raise ValueError(f"{printable(path)} holds no images: give image files, or a folder of images")
        for file in inside:
            found.setdefault(_real(file), SelectedPicture(path=file, named=False, hole=hole))
    return list(found.values())


class SkippedFiles:
    """Handles bad files: a bad file that the call names is an error; bad files in folders are skipped and reported."""

    def __init__(self, total: int, *, done: str) -> None:
        self.reasons: list[str] = []
        self._total, self._done = total, done

    def attempt(self, one: SelectedPicture, work: Callable[[], T]) -> T | None:
        """Process one file; return None if it was skipped."""
        try:
            return work()
        except ValueError as error:
            if one.named:
                raise
            self.reasons.append(str(error))
            return None

    def check_not_all(self) -> None:
        """Raise ValueError if all files were skipped."""
        if len(self.reasons) == self._total:
            none = "the only image could not" if self._total == 1 else f"none of the {self._total} images could"
            raise ValueError(f"{none} be {self._done}: {self.reasons[0]}")

    def tell(self, say: Say) -> None:
        """Report in one line which files were skipped, and why."""
        if reasons := self.reasons:
            more = f"; and {len(reasons) - _NOTED} more" if len(reasons) > _NOTED else ""
            say(f"skipped {len(reasons)} of {self._total} files: {'; '.join(reasons[:_NOTED])}{more}")


class PictureQueue(Generic[P]):
    """Selected pictures, each read and prepared once.

    Named files are prepared at the start, so that a bad one is refused before anything is computed. To bound the
    memory, pictures that do not fit are dropped after this check, and prepared again in their turn.
    """

    def __init__(
        self, selected: Sequence[SelectedPicture], prepare: Callable[[Picture, Hole], P], *, done: str
    ) -> None:
        self.skipped = SkippedFiles(len(selected), done=done)
        self._prepare = prepare
        self._waiting: dict[SelectedPicture, P] = {}
        room = _MOST_BYTES_WAITING
        for one in selected:
            if one.named and (prepared := one.prepare(prepare)).nbytes <= room:
                room -= prepared.nbytes
                self._waiting[one] = prepared

    def take(self, one: SelectedPicture) -> P | None:
        """Return a prepared picture; None if it was skipped."""
        if one in self._waiting:
            return self._waiting.pop(one)
        return self.skipped.attempt(one, lambda: one.prepare(self._prepare))


class WholeImages(NamedTuple):
    """Whole pictures at a model's size, and their paths."""

    x: Tensor
    """[B, C, size, size] in [-1, 1]"""
    paths: list[Path]


def read_images(
    paths: Sequence[Path], *, channels: int, size: int, done: str, out: Path | None = None, say: Say = print
) -> WholeImages:
    """Read image files, and those in folders, cropped and resized; transparent pixels are shown on white."""
    selected = select_pictures(paths, Hole(), say, done=done, out=out)
    skipped = SkippedFiles(len(selected), done=done)
    found = {}
    for one in selected:
        if (picture := skipped.attempt(one, one.read)) is not None:
            found[one.path] = fit(picture.on_white(), channels=channels, size=size)
    skipped.check_not_all()
    skipped.tell(say)
    return WholeImages(from_uint8(torch.from_numpy(np.stack(list(found.values()))).permute(0, 3, 1, 2)), list(found))


class LimitedNotes:
    """Prints the notes of the first few pictures that have notes, and counts the others."""

    def __init__(self) -> None:
        self._told = self.untold = 0

    def tell(self, notes: Sequence[str], tell: Say) -> None:
        if notes and self._told == _NOTED:
            self.untold += 1
        elif notes:
            self._told += 1
            for note in notes:
                tell(note)


def progress(selected: Sequence[SelectedPicture], say: Say) -> Iterator[tuple[SelectedPicture, Say]]:
    """Yield each file and a function that prints; show a progress bar on a terminal, else print one line per file."""
    if not sys.stderr.isatty():
        for i, one in enumerate(selected):
            if len(selected) > 1:
                say(f"{i + 1} of {len(selected)}: {printable(one.path)}")
            yield one, say
        return
    with tqdm(selected, unit="image", disable=len(selected) == 1) as bar:
        for one in bar:
            yield one, bar.write


def check_same(file: FileId | None, sha256: str | None) -> None:
    """Raise ValueError if a file does not have this SHA-256; None allows any content."""
    if sha256 is not None and file is not None and file.sha256 != sha256:
        raise ValueError(
            f"{printable(file.path)} is not the file that the record was made with: its content has changed"
        )


def _real(path: Path) -> Path:
    """Resolve symbolic links; unlike `Path.resolve`, accept circular ones."""
    return Path(os.path.realpath(path))
