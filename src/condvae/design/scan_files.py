"""`condvae design scan`: simulate scans of image files, or choose the next scan; write figures and a record."""

import math
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Literal

from condvae.completion.inspection import Inspected, strangeness_inspector
from condvae.design.picture_scanner import PictureScanner
from condvae.design.scan_figure import draw_figure, draw_frames, gif_options
from condvae.design.scan_settings import ScanSettings
from condvae.design.single_image import Scan
from condvae.images.atomic_folder import AtomicFolder, stem_of
from condvae.images.holes import Hole
from condvae.images.model_view import ModelView
from condvae.images.recorded_files import SCANS
from condvae.images.selection import LimitedNotes, PictureQueue, select_pictures
from condvae.runtime.fingerprints import FileId
from condvae.runtime.messages import Say, counted, printable, warn_with

DEFAULT_OUT = Path("scans")
_CRITERIA = {"eig": "expected information gain", "epe": "expected reduction of entropy"}


def scan_files(
    paths: Sequence[Path],
    out: Path | None,
    *,
    model: str | Path,
    classifier: str | Path,
    settings: ScanSettings,
    known: Path | None = None,
    fit_mask: bool = False,
    device: str = "cpu",
    say: Say = print,
    result: Say | None = None,
) -> Path:
    """Simulate scans of image files, and of the images in folders. Return the path of the record.

    If `known` is given, only choose the next location to scan in each image; fit_mask=True resizes `known` to the
    image. Write NAME.png for each image, NAME.gif for an image with several scans, and the record. The files appear all
    together or not at all.
    out: the folder for the files. None: a new folder, scans, or scans-2 if it exists, and so on.
    say, result: functions that get notes and results, one line at a time; by default, `say` gets both.
    """
    tell, warn = result or say, warn_with(say)
    notes, warnings = LimitedNotes(), LimitedNotes()
    hole = Hole(known=known, fit_mask=fit_mask)
    selected = select_pictures(paths, hole, say, done="scanned", out=out, white=settings.white)
    entries: list[dict[str, Any]] = []
    names = _free_names([stem_of(one.path) for one in selected])
    with AtomicFolder(out or DEFAULT_OUT, kind=SCANS, new=out is None, say=say) as folder:
        # Check all output names before any computation, so that a conflict is reported at once.
        folder.check_free(*(f"{name}.{kind}" for name in names for kind in ("png", "gif")))
        scanner = PictureScanner(model, classifier, settings, device=device)
        pictures = PictureQueue(selected, scanner.view, done="scanned")
        if settings.n == 1 and settings.estimator == "eig":
            warn("with one completion every location has an expected gain of 0, so scans are random: give -n 2 or more")
        judged: Literal["known", "whole"] = "whole" if known is None else "known"
        inspector = strangeness_inspector(scanner.model, scanner.identity, settings.seed, judged=judged)
        if inspector is not None and inspector.failure is not None:
            warn(inspector.failure)
            inspector = None
        for one, name in zip(selected, names, strict=True):
            seen = pictures.take(one)
            if seen is None:
                continue
            notes.tell(seen.notes, say)
            found = Inspected() if inspector is None else inspector(seen)
            warnings.tell([line for line in (found.warning, found.failure) if line is not None], warn)
            tell(f"{printable(one.path)}:")
            scans = scanner.simulate(seen, tell) if known is None else scanner.plan_next(seen, tell)
            outputs = _put(folder, name, scanner, scans)
            entries.append(_entry(scanner, seen, scans, outputs, whole=known is None) | _judged(found, judged))
        pictures.skipped.check_not_all()
        if notes.untold:
            say(f"similar notes apply to {counted(notes.untold, 'more image')}")
        if warnings.untold:
            warn(f"similar warnings apply to {counted(warnings.untold, 'more image')}")
        pictures.skipped.tell(say)
        made = {
            **scanner.made_by,
            **asdict(settings),
            **({} if known is None else {"steps": 1, "fit_mask": fit_mask}),
            "passed_over": pictures.skipped.reasons,
            "task": scanner.task.name,
            "simulated": known is None,
            "device": str(scanner.device),
        }
        folder.write_record(made, entries)
    return folder.folder / SCANS.file


def _put(folder: AtomicFolder, name: str, scanner: PictureScanner, scans: Sequence[Scan]) -> list[str]:
    """Write the figure and the animation of one picture; return their file names."""
    steps = [scan.step for scan in scans]
    options: dict[str, Any] = {
        "title": f"{name}: {scanner.task.name}",
        "criterion": _CRITERIA[scanner.settings.estimator],
    }
    outputs = [f"{name}.png"]
    folder.put(outputs[0], draw_figure(steps, scanner.candidates, **options))
    if len(steps) > 1:
        outputs.append(f"{name}.gif")
        pictures = draw_frames(steps, scanner.candidates, **options)
        folder.put(outputs[1], pictures[0], **gif_options(pictures))
    return outputs


def _entry(
    scanner: PictureScanner, seen: ModelView, scans: Sequence[Scan], outputs: list[str], *, whole: bool
) -> dict[str, Any]:
    """Make the record's entry for a picture. Boxes are x, y, width and height in pixels of the original picture."""
    return {
        "image": _file(seen.file),
        "known": _file(seen.hole_file),
        "size": list(seen.size),
        "outputs": outputs,
        "before": scans[0].before.tolist(),
        "scans": [
            {
                "box": list(scanner.box(seen, scan.index)),
                "expected_gain_nats": scan.nats,
                "after": None if scan.after is None else scan.after.tolist(),
            }
            for scan in scans
        ],
        "whole_image": scanner.whole(seen).tolist() if whole else None,
    }


def _judged(found: Inspected, judged: str) -> dict[str, Any]:
    """Return how strange a picture is, for its entry in the record; None if it was not judged."""
    judgement = found.strangeness
    if judgement is None:
        return {"strangeness": None, "warning": None}
    score = judgement.score if math.isfinite(judgement.score) else None
    numbers = {"score": score, "percentile": judgement.percentile, "strange": judgement.strange}
    return {"strangeness": {"judged": judged, **numbers}, "warning": found.warning}


def _file(file: FileId | None) -> dict[str, str] | None:
    return None if file is None else {"name": file.path.name, "sha256": file.sha256}


def _free_names(stems: Sequence[str]) -> list[str]:
    """Make file stems unique, ignoring case, by adding a number where needed."""
    names: list[str] = []
    for stem in stems:
        taken = {name.lower() for name in names}
        tries = (stem, *(f"{stem}-{number}" for number in range(2, len(stems) + 1)))
        names.append(next(name for name in tries if name.lower() not in taken))
    return names
