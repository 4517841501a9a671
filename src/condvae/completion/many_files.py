"""Many image files in one call: folders, bad files among them, progress, and the repetition of a record."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from condvae.completion.folder import CompletionFolder
from condvae.completion.inspection import Inspection, by_strangeness
from condvae.completion.picture_completer import PictureCompleter
from condvae.completion.record import read_record
from condvae.completion.settings import CompletionSettings
from condvae.images.holes import Hole
from condvae.images.reading import printable
from condvae.images.selection import LimitedNotes, PictureQueue, SelectedPicture, check_same, progress, select_pictures
from condvae.runtime.messages import Say


def complete_files(
    paths: Sequence[Path],
    hole: Hole,
    out: Path,
    *,
    model: str | Path,
    settings: CompletionSettings,
    chunk: int | None = None,
    device: str | None = None,
    say: Say = print,
    inspect: Inspection | None = by_strangeness,
) -> Path:
    """Complete image files and those in folders; writes single files, sheets and a record, and returns the sheet."""
    selected = select_pictures(paths, hole, say, done="completed", out=out)
    return _complete(selected, hole, out, model, settings, chunk=chunk, device=device, say=say, inspect=inspect)


def repeat(
    record: Path, out: Path, *, chunk: int | None = None, say: Say = print, inspect: Inspection | None = by_strangeness
) -> Path:
    """What `complete_files` did, from its record: byte for byte, if versions and machine are the same."""
    told = read_record(record)
    for note in told.notes:
        say(note)
    selected = []
    for entry in told.images:
        assert entry.file is not None  # or it would not have been read
        way = told.hole.way
        hole = replace(told.hole, **{way: entry.hole_file.path}) if entry.hole_file else told.hole  # type: ignore[arg-type]
        digest = entry.hole_file.sha256 if entry.hole_file else None
        selected.append(SelectedPicture(path=entry.file.path, hole=hole, sha256=entry.file.sha256, hole_sha256=digest))
    return _complete(
        selected,
        told.hole,
        out,
        told.model,
        told.settings,
        chunk=chunk,
        device=told.device,
        say=say,
        inspect=inspect,
        model_sha256=told.model_sha256,
    )


def _complete(
    selected: Sequence[SelectedPicture],
    hole: Hole,
    out: Path,
    model: str | Path,
    settings: CompletionSettings,
    *,
    chunk: int | None,
    device: str | None,
    say: Say,
    inspect: Inspection | None,
    model_sha256: str | None = None,
) -> Path:
    notes, warnings, failures = LimitedNotes(), LimitedNotes(), 0
    with CompletionFolder(out) as folder:
        completer = PictureCompleter(model, settings, device=device, chunk=chunk, inspect=inspect)
        check_same(completer.identity.file if completer.identity else None, model_sha256)
        inspector = completer.inspector()
        if inspector is not None and inspector.failure is not None:
            say(inspector.failure)
            inspector = None
        pictures = PictureQueue(selected, completer.view, done="completed")
        for one, tell in progress(selected, say):
            view = pictures.take(one)
            if view is None:
                continue
            result = completer(view)
            notes.tell(result.notes, tell)
            if inspector is not None:
                found = result.inspected
                warnings.tell([found.warning] if found.warning else [], tell)
                if found.failure is not None:
                    failures += 1
                    again = f"nor of {printable(one.path)}; of more that is not repeated"
                    if failures <= 2:
                        say(found.failure if failures == 1 else again)
            folder.add(result)
        pictures.skipped.check_not_all()
        sheet = folder.finish(completer.provenance(hole))
    if notes.untold:
        say(f"the same holds for {notes.untold} more images")
    if warnings.untold:
        say(f"the same warning holds for {warnings.untold} more images")
    pictures.skipped.tell(say)
    return sheet
