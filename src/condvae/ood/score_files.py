"""Score image files and folders: print how strange each image is to a model, and write a report."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from condvae.conditional import ConditionalVAE
from condvae.images.holes import Hole
from condvae.images.selection import LimitedNotes, PictureQueue, select_pictures
from condvae.ood.fitting import STRANGE, UNFITTED
from condvae.ood.picture_scorer import PictureScorer, ScoringInput, Strangeness
from condvae.runtime.atomic import write_text
from condvae.runtime.checks import check_white
from condvae.runtime.fingerprints import FileId, file_sha256
from condvae.runtime.folders import check_replaceable, read_json
from condvae.runtime.formats import csv_text, has_header, json_text
from condvae.runtime.messages import Say, counted, printable, warn_with
from condvae.runtime.progress import track
from condvae.runtime.versions import versions

_FORMAT, _VERSION = "condvae strangeness", 1
_TOGETHER = {"cpu": 16, "cuda": 256}
"""The number of pictures that are scored together. It is small on a CPU, so that the first lines are printed soon."""
_COLUMNS = ("image", "kind", "known_share", "score", "percentile", "strange")


@dataclass(frozen=True, kw_only=True, eq=False)
class ScoredFile:
    """An image file, the observation of it that was scored, and how strange it is."""

    path: Path
    seen: ScoringInput
    found: Strangeness


def score_files(
    paths: Sequence[Path],
    hole: Hole,
    *,
    model: str | Path,
    fit: Path | None = None,
    seed: int = 0,
    device: str = "cpu",
    out: Path | None = None,
    white: int | None = None,
    say: Say = print,
    result: Say | None = None,
) -> list[ScoredFile]:
    """Score image files, and all images in folders; print a line for each image, and return the results.

    say, result: functions that get notes and results, one line at a time; by default, `say` gets both.

    out: a .json or .csv file to write a report to.
    white: the grey level that is white in images with 16-bit pixels; None to find it out for each image.
    """
    check_white(white)
    if out is not None:
        _check_report(out)
    selected = select_pictures(paths, hole, say, done="scored", white=white)
    scorer = PictureScorer(model, fit=fit, seed=seed, device=device)
    pictures = PictureQueue(selected, scorer.view, done="scored")
    say("percentile: the percentage of held-out images, with about the same known share, that are at least as strange")
    if any(fit.record.get("held_out_from") == UNFITTED for fit in scorer.fits.values()):
        warn_with(say)(
            f"the held-out images are {UNFITTED}: the model was trained on them, so new images may look too strange"
        )
    notes, done = LimitedNotes(), list[ScoredFile]()
    together = _TOGETHER[scorer.model.device.type]
    with track("scoring", total=len(selected)) as job:
        for first in range(0, len(selected), together):
            some = selected[first : first + together]
            seen = {one.path: view for one in some if (view := pictures.take(one)) is not None}
            for (path, view), found in zip(seen.items(), scorer(list(seen.values())), strict=True):
                notes.tell(view.notes, say)
                (result or say)(_line(path, found, scorer))
                done.append(ScoredFile(path=path, seen=view, found=found))
            job.update(len(some))
    pictures.skipped.check_not_all()
    if notes.untold:
        say(f"similar notes apply to {counted(notes.untold, 'more image')}")
    pictures.skipped.tell(say)
    if len(done) > 1:
        strange = sum(one.found.strange for one in done)
        (result or say)(f"{strange} of {len(done)} are in the strangest {STRANGE:g} % for {scorer.name}")
    if out is not None:
        report = _report(done, pictures.skipped.reasons, scorer, white)
        write_text(out, report if out.suffix == ".json" else _table(done))
    return done


def _line(path: Path, found: Strangeness, scorer: PictureScorer) -> str:
    fitted = scorer.fits[found.kind].density is not None
    what = "log-density" if fitted else found.score_name
    if found.kind == "whole":
        seen = "whole image"
    else:
        completes = isinstance(scorer.model, ConditionalVAE) and scorer.model.completes_holes
        seen = f"{100 * found.known_share:.0f} % known" if completes else "as the model observes it"
    word = ": STRANGE" if found.strange else ""
    return f"{printable(path)}: percentile {found.percentile:.1f}, {what} {found.score:,.1f}, {seen}{word}"


def _check_report(out: Path) -> None:
    if out.suffix not in (".json", ".csv"):
        raise ValueError(f"the report is called {printable(out)}, expected a name that ends in .json or .csv")
    check_replaceable(out, what="a report of condvae ood score", ours=_is_report)


def _is_report(path: Path) -> bool:
    if path.suffix == ".json":
        return read_json(path, format=_FORMAT) is not None
    return has_header(path, _COLUMNS)


def _report(done: Sequence[ScoredFile], skipped: Sequence[str], scorer: PictureScorer, white: int | None) -> str:
    assert scorer.identity is not None  # score_files opens the model by name or path, so it has an identity
    plain: dict[str, Any] = {
        "format": _FORMAT,
        "format_version": _VERSION,
        "model": {"name": scorer.identity.name, "sha256": scorer.identity.file.sha256},
        "fit": {
            "sha256": file_sha256(scorer.path),
            **{kind: {"score": fit.score, **fit.record} for kind, fit in scorer.fits.items()},
        },
        "seed": scorer.seed,
        "white": white,
        "device": scorer.model.device.type,
        "versions": versions(),
        "images": [
            {
                "image": _file(one.seen.file),
                "hidden_by": _file(one.seen.hole_file),
                **dict(zip(_COLUMNS[1:], _cells(one)[1:], strict=True)),
            }
            for one in done
        ],
        "passed_over": list(skipped),
    }
    return json_text(plain)


def _table(done: Sequence[ScoredFile]) -> str:
    return csv_text(_COLUMNS, [_cells(one) for one in done])


def _cells(one: ScoredFile) -> list[Any]:
    found = one.found
    score = found.score if math.isfinite(found.score) else None
    return [printable(one.path), found.kind, found.known_share, score, found.percentile, found.strange]


def _file(file: FileId | None) -> dict[str, str] | None:
    return None if file is None else {"path": printable(file.path), "sha256": file.sha256}
