"""Many image files in one call: folders, bad files among them, progress, and the repetition of a record."""

import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tqdm import tqdm

from condvae.completion.call import PictureCompleter
from condvae.completion.folder import CompletionFolder
from condvae.completion.holes import Hole
from condvae.completion.inputs import FileId, Picture, read_picture, shown
from condvae.completion.record import Settings, read_record
from condvae.data.files import opened
from condvae.registry import Say

_NOTED = 5
"""Pictures whose notes are printed; of more, how many there are."""


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """One file to complete."""

    path: Path
    hole: Hole
    named: bool = True
    """Else it was found in a folder, and is passed over if it is bad."""
    sha256: str | None = None
    """What its content has to be; None: anything."""
    hole_sha256: str | None = None

    def look(self, completer: PictureCompleter) -> None:
        """A ValueError if it cannot be completed, or is not the file that is meant."""
        seen = completer.view(self.read(), self.hole.for_file(self.path))
        _check_same(seen.hole_file, self.hole_sha256)

    def read(self) -> Picture:
        picture = read_picture(self.path)
        _check_same(picture.file, self.sha256)
        return picture


def complete_files(
    paths: Sequence[Path],
    hole: Hole,
    out: Path,
    *,
    model: str | Path,
    settings: Settings,
    chunk: int | None = None,
    device: str | None = None,
    say: Say = print,
) -> Path:
    """Complete image files and those in folders; writes single files, sheets and a record, and returns the sheet."""
    wanted = _wanted(paths, hole, out, say)
    return _complete(wanted, hole, out, model, settings, chunk=chunk, device=device, say=say)


def repeat(record: Path, out: Path, *, chunk: int | None = None, say: Say = print) -> Path:
    """What `complete_files` did, from its record: byte for byte, if versions and machine are the same."""
    told = read_record(record)
    for note in told.notes:
        say(note)
    wanted = []
    for entry in told.entries:
        assert entry.file is not None  # or it would not have been read
        way = told.hole.way
        hole = replace(told.hole, **{way: entry.hole_file.path}) if entry.hole_file else told.hole  # type: ignore[arg-type]
        digest = entry.hole_file.sha256 if entry.hole_file else None
        wanted.append(Wanted(path=entry.file.path, hole=hole, sha256=entry.file.sha256, hole_sha256=digest))
    return _complete(
        wanted,
        told.hole,
        out,
        told.model,
        told.settings,
        chunk=chunk,
        device=told.device,
        say=say,
        model_sha256=told.model_sha256,
    )


def _complete(
    wanted: Sequence[Wanted],
    hole: Hole,
    out: Path,
    model: str | Path,
    settings: Settings,
    *,
    chunk: int | None,
    device: str | None,
    say: Say,
    model_sha256: str | None = None,
) -> Path:
    notes, passed_over, done = _Notes(), list[str](), 0
    with CompletionFolder(out) as folder:
        completer = PictureCompleter(model, settings, device=device, chunk=chunk)
        _check_same(completer.identity.file if completer.identity else None, model_sha256)
        for one in wanted:  # what is wrong with a file that was named should be known before anything is computed
            if one.named:
                one.look(completer)
        for one, tell in _progress(wanted, say):
            try:
                made = completer(one.read(), one.hole.for_file(one.path))
            except ValueError as error:
                if one.named:
                    raise
                passed_over.append(str(error))
                continue
            notes.tell(made.notes, tell)
            folder.add(made)
            done += 1
        if not done:
            raise ValueError(f"none of the {len(wanted)} images could be completed: {passed_over[0]}")
        sheet = folder.finish(completer.made(hole))
    if notes.untold:
        say(f"the like holds for {notes.untold} more")
    if passed_over:
        more = f"; and {len(passed_over) - _NOTED} more" if len(passed_over) > _NOTED else ""
        say(f"{len(passed_over)} of {len(wanted)} files were passed over: {'; '.join(passed_over[:_NOTED])}{more}")
    return sheet


class _Notes:
    """Tells what was done to the first few pictures, and counts the others."""

    def __init__(self) -> None:
        self._told = self.untold = 0

    def tell(self, notes: Sequence[str], tell: Say) -> None:
        if notes and self._told == _NOTED:
            self.untold += 1
        elif notes:
            self._told += 1
            for note in notes:
                tell(note)


def _progress(wanted: Sequence[Wanted], say: Say) -> Iterator[tuple[Wanted, Say]]:
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


def _wanted(paths: Sequence[Path], hole: Hole, out: Path, say: Say) -> list[Wanted]:
    """Every file once, in the order of the call; what lies in the folder that is written to is no input."""
    if not paths:
        raise ValueError("no images were given: name at least one file or folder")
    found: dict[Path, Wanted] = {}
    for path in paths:
        if not path.is_dir():
            if (real := _real(path)) in found:
                say(f"{shown(path)} was named twice: it is completed once")
            found.setdefault(real, Wanted(path=path, hole=hole))
            continue
        with opened(path) as files:
            every = [path / name for name in files.images()]
        inside = [file for file in every if _real(out) not in _real(file).parents]
        if not inside and every:
            raise ValueError(f"{shown(path)} is written to, and its images are no input: give another folder for --out")
        if not inside:
            raise ValueError(f"{shown(path)} holds no images: name image files, or a folder of them")
        for file in inside:
            found.setdefault(_real(file), Wanted(path=file, named=False, hole=hole))
    return list(found.values())


def _real(path: Path) -> Path:
    """Behind all links, even those that run in circles, which `Path.resolve` would not forgive."""
    return Path(os.path.realpath(path))


def _check_same(file: FileId | None, sha256: str | None) -> None:
    if sha256 is not None and file is not None and file.sha256 != sha256:
        raise ValueError(f"{shown(file.path)} is not the file that the record was made with: its content has changed")
