"""Which image files a call means: those that are named, and those in folders, of which bad ones are passed over."""

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tqdm import tqdm

from condvae.images.archive import opened
from condvae.images.holes import Hole
from condvae.images.reading import FileId, Picture, read_picture, shown
from condvae.runtime.messages import Say

_NOTED = 5
"""Pictures whose notes are printed; of more, how many there are."""


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """One file to work on."""

    path: Path
    hole: Hole
    named: bool = True
    """Else it was found in a folder, and is passed over if it is bad."""
    sha256: str | None = None
    """What its content has to be; None: anything."""
    hole_sha256: str | None = None

    def look(self, view: Callable[[Picture, Hole], Any]) -> None:
        """A ValueError if a model cannot see it, or it is not the file that is meant."""
        seen = view(self.read(), self.hole.for_file(self.path))
        check_same(seen.hole_file, self.hole_sha256)

    def read(self) -> Picture:
        picture = read_picture(self.path)
        check_same(picture.file, self.sha256)
        return picture


def wanted_files(paths: Sequence[Path], hole: Hole, say: Say, *, done: str, out: Path | None = None) -> list[Wanted]:
    """Every file once, in the order of the call; what lies in the folder that is written to is no input.

    done: what is done to them, as in "it is completed once".
    """
    if not paths:
        raise ValueError("no images were given: name at least one file or folder")
    found: dict[Path, Wanted] = {}
    for path in paths:
        if not path.is_dir():
            if (real := _real(path)) in found:
                say(f"{shown(path)} was named twice: it is {done} once")
            found.setdefault(real, Wanted(path=path, hole=hole))
            continue
        with opened(path) as files:
            every = [path / name for name in files.images()]
        inside = [file for file in every if out is None or _real(out) not in _real(file).parents]
        if not inside and every:
            raise ValueError(f"{shown(path)} is written to, and its images are no input: give another folder for --out")
        if not inside:
            raise ValueError(f"{shown(path)} holds no images: name image files, or a folder of them")
        for file in inside:
            found.setdefault(_real(file), Wanted(path=file, named=False, hole=hole))
    return list(found.values())


class Notes:
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


def progress(wanted: Sequence[Wanted], say: Say) -> Iterator[tuple[Wanted, Say]]:
    """Each file, and how to say something meanwhile: with a bar on a terminal, a line for each in a log."""
    if not sys.stderr.isatty():
        for i, one in enumerate(wanted):
            if len(wanted) > 1:
                say(f"{i + 1} of {len(wanted)}: {shown(one.path)}")
            yield one, say
        return
    with tqdm(wanted, unit="image", disable=len(wanted) == 1) as bar:
        for one in bar:
            yield one, bar.write


def passed_over(reasons: Sequence[str], of: int) -> str:
    """Which files were passed over, and why, in one line."""
    more = f"; and {len(reasons) - _NOTED} more" if len(reasons) > _NOTED else ""
    return f"{len(reasons)} of {of} files were passed over: {'; '.join(reasons[:_NOTED])}{more}"


def check_same(file: FileId | None, sha256: str | None) -> None:
    """A ValueError if a file has another content than it had."""
    if sha256 is not None and file is not None and file.sha256 != sha256:
        raise ValueError(f"{shown(file.path)} is not the file that the record was made with: its content has changed")


def _real(path: Path) -> Path:
    """Behind all links, even those that run in circles, which `Path.resolve` would not forgive."""
    return Path(os.path.realpath(path))
