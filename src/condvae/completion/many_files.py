"""Many image files in one call: folders, bad files among them, progress, and the repetition of a record."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeAlias

from condvae.completion.call import PictureCompleter
from condvae.completion.folder import CompletionFolder
from condvae.completion.record import CompletionSettings, read_record
from condvae.completion.result import Completion
from condvae.images.holes import Hole
from condvae.images.selection import Notes, Wanted, check_same, passed_over, progress, wanted_files
from condvae.runtime.messages import Say

Inspector: TypeAlias = Callable[[Completion], str | None]
"""Says a line of a picture that was completed, if there is something to say of it."""
Inspection: TypeAlias = Callable[[PictureCompleter, Say], Inspector | None]
"""Makes an inspector for a model; None: there is nothing to inspect by."""


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
    inspect: Inspection | None = None,
) -> Path:
    """Complete image files and those in folders; writes single files, sheets and a record, and returns the sheet."""
    wanted = wanted_files(paths, hole, say, done="completed", out=out)
    return _complete(wanted, hole, out, model, settings, chunk=chunk, device=device, say=say, inspect=inspect)


def repeat(
    record: Path, out: Path, *, chunk: int | None = None, say: Say = print, inspect: Inspection | None = None
) -> Path:
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
        inspect=inspect,
        model_sha256=told.model_sha256,
    )


def _complete(
    wanted: Sequence[Wanted],
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
    notes, warnings, bad, done = Notes(), Notes(), list[str](), 0
    with CompletionFolder(out) as folder:
        completer = PictureCompleter(model, settings, device=device, chunk=chunk)
        check_same(completer.identity.file if completer.identity else None, model_sha256)
        inspector = None if inspect is None else inspect(completer, say)
        for one in wanted:  # what is wrong with a file that was named should be known before anything is computed
            if one.named:
                one.look(completer.view)
        for one, tell in progress(wanted, say):
            try:
                made = completer(one.read(), one.hole.for_file(one.path))
            except ValueError as error:
                if one.named:
                    raise
                bad.append(str(error))
                continue
            notes.tell(made.notes, tell)
            if inspector is not None and (warning := inspector(made)) is not None:
                warnings.tell([warning], tell)
            folder.add(made)
            done += 1
        if not done:
            raise ValueError(f"none of the {len(wanted)} images could be completed: {bad[0]}")
        sheet = folder.finish(completer.made(hole))
    if notes.untold:
        say(f"the like holds for {notes.untold} more")
    if warnings.untold:
        say(f"the same warning goes for {warnings.untold} more")
    if bad:
        say(passed_over(bad, len(wanted)))
    return sheet
