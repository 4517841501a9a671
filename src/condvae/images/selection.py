"""Which pictures a call means: files that are named, and those in folders, of which bad ones are skipped."""

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
"""Pictures whose notes are printed; of more, how many there are."""
_MOST_BYTES_WAITING = 2**27
"""Of pictures that were prepared before their turn."""

T = TypeVar("T")


class PreparedPicture(Protocol):
    """What a model needs of a picture."""

    @property
    def nbytes(self) -> int: ...

    @property
    def hole_file(self) -> FileId | None:
        """Where it was read what is hidden."""


P = TypeVar("P", bound=PreparedPicture)


@dataclass(frozen=True, kw_only=True)
class SelectedPicture:
    """One file to work on."""

    path: Path
    hole: Hole
    named: bool = True
    """Else it was found in a folder, and is skipped if it is bad."""
    sha256: str | None = None
    """What its content has to be; None: anything."""
    hole_sha256: str | None = None

    def read(self) -> Picture:
        picture = read_picture(self.path)
        check_same(picture.file, self.sha256)
        return picture

    def prepare(self, prepare: Callable[[Picture, Hole], P]) -> P:
        """A ValueError if it is bad, or if it is not the file that is meant."""
        prepared = prepare(self.read(), self.hole.for_file(self.path))
        check_same(prepared.hole_file, self.hole_sha256)
        return prepared


def select_pictures(
    paths: Sequence[Path], hole: Hole, say: Say, *, done: str, out: Path | None = None
) -> list[SelectedPicture]:
    """Every file once, in the order of the call; what lies in the folder that is written to is no input.

    done: what is done to them, as in "it is completed once".
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
                f"{printable(path)} is written to, and its images are no input: give another folder for --out"
            )
        if not inside:
            raise ValueError(f"{printable(path)} holds no images: name image files, or a folder of them")
        for file in inside:
            found.setdefault(_real(file), SelectedPicture(path=file, named=False, hole=hole))
    return list(found.values())


class SkippedFiles:
    """A bad file that was named is an error; bad files in folders are skipped, and named at the end."""

    def __init__(self, total: int, *, done: str) -> None:
        self.reasons: list[str] = []
        self._total, self._done = total, done

    def attempt(self, one: SelectedPicture, work: Callable[[], T]) -> T | None:
        """What comes of a file; None: it is skipped."""
        try:
            return work()
        except ValueError as error:
            if one.named:
                raise
            self.reasons.append(str(error))
            return None

    def check_not_all(self) -> None:
        """A ValueError if no file was good."""
        if len(self.reasons) == self._total:
            raise ValueError(f"none of the {self._total} images could be {self._done}: {self.reasons[0]}")

    def tell(self, say: Say) -> None:
        """Which files were skipped, and why, in one line."""
        if reasons := self.reasons:
            more = f"; and {len(reasons) - _NOTED} more" if len(reasons) > _NOTED else ""
            say(f"{len(reasons)} of {self._total} files were passed over: {'; '.join(reasons[:_NOTED])}{more}")


class PictureQueue(Generic[P]):
    """Selected pictures, each read and prepared once.

    Those that were named are prepared at the start, so that a bad one is refused before anything is computed. Memory is
    bounded: what does not fit is dropped after this check, and prepared again in its turn.
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
        """What was prepared of a picture; None: it is skipped."""
        if one in self._waiting:
            return self._waiting.pop(one)
        return self.skipped.attempt(one, lambda: one.prepare(self._prepare))


class WholeImages(NamedTuple):
    """Pictures at a model's size."""

    x: Tensor
    """[B, C, size, size] in [-1, 1]"""
    paths: list[Path]


def read_images(
    paths: Sequence[Path], *, channels: int, size: int, done: str, out: Path | None = None, say: Say = print
) -> WholeImages:
    """Image files and those in folders, cropped and resized, on white where they are transparent."""
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
    """Tells what there is to say of the first few pictures, and counts the others."""

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
    """Each file, and how to say something meanwhile: with a bar on a terminal, a line for each in a log."""
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
    """A ValueError if a file has another content than it had."""
    if sha256 is not None and file is not None and file.sha256 != sha256:
        raise ValueError(
            f"{printable(file.path)} is not the file that the record was made with: its content has changed"
        )


def _real(path: Path) -> Path:
    """Behind all links, even those that run in circles, which `Path.resolve` would not forgive."""
    return Path(os.path.realpath(path))
