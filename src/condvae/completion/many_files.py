"""Complete many image files and folders in one call, or repeat a call from its record."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from condvae.completion.folder import CompletionFolder
from condvae.completion.inspection import Inspection, strangeness_inspector
from condvae.completion.picture_completer import PictureCompleter, PictureViews
from condvae.completion.record import read_record
from condvae.completion.settings import CompletionSettings
from condvae.images.face_parts import FaceSquare
from condvae.images.holes import Hole
from condvae.images.picture_formats import PictureFormat, check_picture_format
from condvae.images.reading import Picture
from condvae.images.selection import LimitedNotes, PictureQueue, SelectedPicture, check_same, select_pictures, tracked
from condvae.runtime.messages import Say, printable, warn_with

DEFAULT_OUT = Path("completions")


def complete_files(
    paths: Sequence[Path],
    hole: Hole,
    out: Path | None,
    *,
    model: str | Path,
    settings: CompletionSettings,
    picture_format: PictureFormat = "png",
    chunk: int | None = None,
    device: str | None = None,
    say: Say = print,
    inspect: Inspection | None = strangeness_inspector,
) -> Sequence[Path]:
    """Complete image files, and all images in folders; return the paths of the contact sheets.

    out: the folder to which the completions, the contact sheets and the record are written. None: a new folder,
        completions, or completions-2 if it exists, and so on.
    picture_format: the file format of the completions.
    chunk: the number of completions computed at a time, which limits the memory used; None for the default.
    inspect: a function that returns the inspector, which warns about strange images; None for no warnings.
    """
    check_picture_format(picture_format, keep_size=settings.keep_size)
    selected = select_pictures(paths, hole, say, done="completed", out=out, white=settings.white)
    return _complete(
        selected,
        hole,
        out,
        model,
        settings,
        picture_format=picture_format,
        chunk=chunk,
        device=device,
        say=say,
        inspect=inspect,
    )


def repeat(
    record: Path,
    out: Path | None,
    *,
    chunk: int | None = None,
    say: Say = print,
    inspect: Inspection | None = strangeness_inspector,
) -> Sequence[Path]:
    """Repeat a call of `complete_files` from its record.

    The output files are the same, byte for byte, if the software versions and the kind of machine are the same.
    """
    earlier = read_record(record)
    for note in earlier.notes:
        say(note)
    selected = []
    for entry in earlier.images:
        assert entry.file is not None  # read_record rejects images that were given in memory
        way = earlier.hole.way
        hole = replace(earlier.hole, **{way: entry.hole_file.path}) if entry.hole_file else earlier.hole  # type: ignore[arg-type]
        digest = entry.hole_file.sha256 if entry.hole_file else None
        selected.append(
            SelectedPicture(
                path=entry.file.path,
                hole=hole,
                sha256=entry.file.sha256,
                hole_sha256=digest,
                white=earlier.settings.white,
            )
        )
    return _complete(
        selected,
        earlier.hole,
        out,
        earlier.model,
        earlier.settings,
        picture_format=earlier.picture_format,
        chunk=chunk,
        device=earlier.device,
        say=say,
        inspect=inspect,
        model_sha256=earlier.model_sha256,
        faces={(one.path, one.hole): entry.faces for one, entry in zip(selected, earlier.images, strict=True)},
    )


def _complete(
    selected: Sequence[SelectedPicture],
    hole: Hole,
    out: Path | None,
    model: str | Path,
    settings: CompletionSettings,
    *,
    picture_format: PictureFormat,
    chunk: int | None,
    device: str | None,
    say: Say,
    inspect: Inspection | None,
    model_sha256: str | None = None,
    faces: Mapping[tuple[Path, Hole], Sequence[FaceSquare]] | None = None,
) -> Sequence[Path]:
    """Complete the selected pictures.

    faces: those of each picture and hole, from a record; None to find them if necessary.
    """
    notes, warnings, failures, warn = LimitedNotes(), LimitedNotes(), 0, warn_with(say)
    with CompletionFolder(out or DEFAULT_OUT, new=out is None, picture_format=picture_format, say=say) as folder:
        completer = PictureCompleter(model, settings, device=device, chunk=chunk, inspect=inspect)
        check_same(completer.identity.file if completer.identity else None, model_sha256)
        inspector = completer.inspector()
        if inspector is not None and inspector.failure is not None:
            warn(inspector.failure)
            inspector = None

        def prepare(picture: Picture, hole: Hole) -> PictureViews:
            recorded = faces.get((picture.file.path, hole)) if faces and picture.file else None
            return completer.views(picture, hole, recorded)

        pictures = PictureQueue(selected, prepare, done="completed")
        for one in tracked(selected, "completing"):
            prepared = pictures.take(one)
            if prepared is None:
                continue
            results = completer.complete_views(prepared)
            notes.tell(list(dict.fromkeys(note for result in results for note in result.notes)), say)
            warnings.tell(list(dict.fromkeys(flaw for result in results for flaw in result.flaws)), warn)
            for found in (result.inspected for result in results if inspector is not None):
                warnings.tell([found.warning] if found.warning else [], warn)
                if found.failure is not None:
                    failures += 1
                    second = f"{printable(one.path)} could not be judged either; further failures are not reported"
                    if failures <= 2:
                        warn(found.failure if failures == 1 else second)
            folder.add(results[0])
        pictures.skipped.check_not_all()
        sheets = folder.finish(completer.provenance(hole))
    if notes.untold:
        say(f"similar notes apply to {_more_images(notes.untold)}")
    if warnings.untold:
        warn(f"the same warning applies to {_more_images(warnings.untold)}")
    pictures.skipped.tell(say)
    return sheets


def _more_images(count: int) -> str:
    return f"{count} more image" if count == 1 else f"{count} more images"
