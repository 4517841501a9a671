"""Select the pictures that a call works on: files that it names, and files in folders, where bad files are skipped."""

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, NamedTuple, Protocol, TypeVar

import numpy as np
import torch
from torch import Tensor

from condvae.images.archive import opened
from condvae.images.decode import fit
from condvae.images.holes import Hole
from condvae.images.reading import Picture, read_picture
from condvae.images.recorded_files import KINDS, read_recorded
from condvae.runtime.fingerprints import FileId
from condvae.runtime.messages import Say, counted, printable, warn_with
from condvae.runtime.pixels import from_uint8
from condvae.runtime.progress import track

_NOTED = 5
"""Maximum number of pictures whose messages are printed; further pictures with messages are only counted."""
_MOST_BYTES_WAITING = 2**27
"""Maximum memory, in bytes, for pictures that are prepared in advance."""

T = TypeVar("T")


class PreparedPicture(Protocol):
    """A picture that is prepared for a model."""

    @property
    def nbytes(self) -> int:
        """Memory that the prepared picture takes, in bytes."""

    @property
    def hole_file(self) -> FileId | None:
        """The picture file that the hole was read from, if any."""


P = TypeVar("P", bound=PreparedPicture)


@dataclass(frozen=True, kw_only=True)
class SelectedPicture:
    """An image file to process, with its hole."""

    path: Path
    hole: Hole
    named: bool = True
    """True if the call names this file. False if it was found in a folder; it is then skipped if it cannot be read."""
    sha256: str | None = None
    """The SHA-256 that the file's content must have; None allows any content."""
    hole_sha256: str | None = None
    """The SHA-256 that the content of the hole's picture file must have; None allows any content."""
    white: int | None = None
    """The grey level that is white if the file has 16-bit pixels; None to find it out."""

    def read(self) -> Picture:
        picture = read_picture(self.path, white=self.white)
        check_same(picture.file, self.sha256)
        return picture

    def prepare(self, prepare: Callable[[Picture, Hole], P]) -> P:
        """Read and prepare the picture; raise ValueError if this fails, or if a file has not the expected SHA-256."""
        prepared = prepare(self.read(), self.hole.for_file(self.path))
        check_same(prepared.hole_file, self.hole_sha256)
        return prepared


def select_pictures(
    paths: Sequence[Path],
    hole: Hole,
    say: Say,
    *,
    done: str,
    out: Path | None = None,
    white: int | None = None,
) -> list[SelectedPicture]:
    """Return every image file once, in the order of the call.

    Left out are the files in the output folder `out`, and in subfolders those that an earlier call has written.

    done: what happens to the files, as a participle for messages, such as "completed" in "it is completed once".
    white: the grey level that is white in files with 16-bit pixels; None to find it out for each file.
    """
    if not paths:
        raise ValueError("no images were given: name at least one file or folder")
    found: dict[Path, SelectedPicture] = {}
    for path in paths:
        if not path.is_dir():
            if (real := _real(path)) in found:
                say(f"{printable(path)} was named twice: it is {done} once")
            found.setdefault(real, SelectedPicture(path=path, hole=hole, white=white))
            continue
        with opened(path) as files:
            every = [path / name for name in files.images()]
        read = [file for file in every if out is None or _real(out) not in _real(file).parents]
        if not read and every:
            raise ValueError(
                f"all images in {printable(path)} are in the --out folder, which is not read: give another --out"
            )
        earlier = _earlier_outputs(read, path)
        inside = [file for file in read if file not in earlier]
        if not inside and earlier:
            raise ValueError(
                f"all images in {printable(path)} are outputs of earlier calls: name their folder to use them"
            )
        if earlier:
            say(f"left out {counted(len(earlier), 'output')} of earlier calls: name their folder to use them")
        if not inside:
            raise ValueError(
                f"{printable(path)} holds no images{files.except_own}: give image files, or a folder of images"
            )
        for file in inside:
            found.setdefault(_real(file), SelectedPicture(path=file, named=False, hole=hole, white=white))
    return list(found.values())


class SkippedFiles:
    """Skips and reports bad files that were found in folders. A bad file that the call names is an error instead."""

    def __init__(self, total: int, *, done: str) -> None:
        self.reasons: list[str] = []
        self._total, self._done = total, done

    def attempt(self, one: SelectedPicture, work: Callable[[], T]) -> T | None:
        """Call `work`, which processes one file, and return its result; return None if the file was skipped."""
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
            if self._total == 1:
                raise ValueError(f"the only image could not be {self._done}: {self.reasons[0]}")
            raise ValueError(f"none of the {self._total} images could be {self._done}: {self.reasons[0]}")

    def tell(self, say: Say) -> None:
        """Warn in one line which files were skipped, and why."""
        if reasons := self.reasons:
            more = f"; and {len(reasons) - _NOTED} more" if len(reasons) > _NOTED else ""
            warn_with(say)(f"skipped {len(reasons)} of {self._total} files: {'; '.join(reasons[:_NOTED])}{more}")


class PictureQueue(Generic[P]):
    """Reads the selected pictures and prepares them for a model.

    Files that the call names are prepared at the start, so that a bad one is refused before anything is computed. If
    they take too much memory, the last ones are dropped, and prepared again when they are taken from the queue.
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
        """Remove a picture from the queue and return it, prepared; return None if it was skipped."""
        if one in self._waiting:
            return self._waiting.pop(one)
        return self.skipped.attempt(one, lambda: one.prepare(self._prepare))


class WholeImages(NamedTuple):
    """Images without holes, cropped and resized to a model's image size, and their files."""

    x: Tensor
    """[B, C, size, size]: the images, with values in [-1, 1]."""
    files: list[FileId]


def read_images(
    paths: Sequence[Path],
    *,
    channels: int,
    size: int,
    done: str,
    out: Path | None = None,
    say: Say = print,
) -> WholeImages:
    """Read image files, and all image files in folders.

    Each image is cropped to its largest centred square, with transparent pixels on white, and resized to size x size.
    """
    selected = select_pictures(paths, Hole(), say, done=done, out=out)
    skipped, notes = SkippedFiles(len(selected), done=done), LimitedNotes()
    found = {}
    for one in tracked(selected, "reading"):
        if (picture := skipped.attempt(one, one.read)) is not None:
            assert picture.file is not None  # it was read from a path
            notes.tell(picture.notes, say)
            found[picture.file] = fit(picture.on_white(), channels=channels, size=size)
    skipped.check_not_all()
    skipped.tell(say)
    return WholeImages(from_uint8(torch.from_numpy(np.stack(list(found.values()))).permute(0, 3, 1, 2)), list(found))


class LimitedNotes:
    """Prints the messages of the first few pictures that have messages, and counts further such pictures."""

    def __init__(self) -> None:
        self._told = self.untold = 0

    def tell(self, notes: Sequence[str], tell: Say) -> None:
        if notes and self._told == _NOTED:
            self.untold += 1
        elif notes:
            self._told += 1
            for note in notes:
                tell(note)


def tracked(selected: Sequence[SelectedPicture], what: str) -> Iterator[SelectedPicture]:
    """Yield each file, and count the finished ones as the progress of a job. what: the job, such as "completing"."""
    with track(what, total=len(selected)) as job:
        for one in selected:
            yield one
            job.update()


def check_same(file: FileId | None, sha256: str | None) -> None:
    """Raise ValueError if the file's content does not have this SHA-256; None allows any content."""
    if sha256 is not None and file is not None and file.sha256 != sha256:
        raise ValueError(
            f"{printable(file.path)} is not the file that the record was made with: its content has changed"
        )


def _earlier_outputs(files: Sequence[Path], top: Path) -> set[Path]:
    """Return those of the files that the record of an earlier call lists, in subfolders of the folder `top`."""
    folders = {file.parent for file in files} - {top}
    marks = {kind.file for kind in KINDS}
    found = ((folder, read_recorded(folder / mark)) for folder in folders for mark in marks)
    return {folder / name for folder, recorded in found if recorded for name in recorded.names} & set(files)


def _real(path: Path) -> Path:
    """Resolve symbolic links in a path. Unlike `Path.resolve`, this also accepts circular links."""
    return Path(os.path.realpath(path))
