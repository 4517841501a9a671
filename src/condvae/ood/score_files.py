"""Image files and folders of them: how strange each is to a model, in lines and as a report."""

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tqdm import tqdm

from condvae.images.holes import Hole
from condvae.images.reading import FileId, shown
from condvae.images.selection import Notes, passed_over, wanted_files
from condvae.ood.fitting import STRANGE, UNFITTED
from condvae.ood.judging import PictureScorer, Sight, Strangeness
from condvae.runtime.atomic import write_text
from condvae.runtime.fingerprints import file_sha256
from condvae.runtime.folders import check_writable
from condvae.runtime.formats import csv_text, json_text
from condvae.runtime.messages import Say
from condvae.runtime.versions import versions

_FORMAT, _VERSION = "condvae strangeness", 1
_TOGETHER = {"cpu": 16, "cuda": 256}
"""Pictures that are read before they are scored together: on a CPU lines should not be long in coming."""
_COLUMNS = ("image", "kind", "known_share", "score", "percentile", "strange")


@dataclass(frozen=True, kw_only=True, eq=False)
class ScoredFile:
    """One file."""

    path: Path
    sight: Sight
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
    say: Say = print,
) -> list[ScoredFile]:
    """Score image files and those in folders: a line for each, and a report (.json or .csv) if `out` names one."""
    if out is not None:
        _check_report(out)
    wanted = wanted_files(paths, hole, say, done="scored")
    scorer = PictureScorer(model, fit=fit, seed=seed, device=device)
    for one in wanted:  # what is wrong with a file that was named should be known before anything is computed
        if one.named:
            one.look(scorer.look)
    say("percentile: how many in a hundred held-out training images, with about as much known, are as strange or more")
    if any(fit.record.get("held_out_from") == UNFITTED for fit in scorer.fits.values()):
        say(f"these are {UNFITTED}: the model may know them better than new ones, which then look too strange")
    notes, bad, done = Notes(), list[str](), list[ScoredFile]()
    together = _TOGETHER[device.partition(":")[0]]
    with tqdm(total=len(wanted), unit="image", leave=False, disable=len(wanted) == 1 or not sys.stderr.isatty()) as bar:
        tell = say if bar.disable else bar.write
        for first in range(0, len(wanted), together):
            seen: list[tuple[Path, Sight]] = []
            for one in wanted[first : first + together]:
                try:
                    seen.append((one.path, scorer.look(one.read(), one.hole.for_file(one.path))))
                except ValueError as error:
                    if one.named:
                        raise
                    bad.append(str(error))
            found = scorer([sight for _, sight in seen])
            for (path, sight), one_found in zip(seen, found, strict=True):
                notes.tell(sight.notes, tell)
                tell(_line(path, one_found, scorer))
                done.append(ScoredFile(path=path, sight=sight, found=one_found))
            bar.update(min(together, len(wanted) - first))
    if not done:
        raise ValueError(f"none of the {len(wanted)} images could be scored: {bad[0]}")
    if notes.untold:
        say(f"the like holds for {notes.untold} more")
    if bad:
        say(passed_over(bad, len(wanted)))
    if len(done) > 1:
        strange = sum(one.found.strange for one in done)
        say(f"{strange} of {len(done)} are in the strangest {STRANGE:g} % for {scorer.name}")
    if out is not None:
        write_text(out, _report(done, bad, scorer, device) if out.suffix == ".json" else _table(done))
    return done


def _line(path: Path, found: Strangeness, scorer: PictureScorer) -> str:
    fitted = scorer.fits[found.kind].density is not None
    what = "log-density" if fitted else found.score_name
    if found.kind == "whole":
        seen = "whole image"
    else:
        pixels = scorer.inferences[found.kind].completes
        seen = f"{100 * found.known_share:.0f} % known" if pixels else "as the model observes it"
    word = ": STRANGE" if found.strange else ""
    return f"{shown(path)}: percentile {found.percentile:.1f}, {what} {found.score:,.1f}, {seen}{word}"


def _check_report(out: Path) -> None:
    if out.suffix not in (".json", ".csv"):
        raise ValueError(f"the report {shown(out)} was asked for, expected a name that ends in .json or .csv")
    if out.is_dir():
        raise ValueError(f"{shown(out)} is a folder, where the report should be: give another --out")
    check_writable(out.parent)


def _report(done: Sequence[ScoredFile], bad: Sequence[str], scorer: PictureScorer, device: str) -> str:
    assert scorer.identity is not None  # files are scored by models that have one
    plain: dict[str, Any] = {
        "format": _FORMAT,
        "format_version": _VERSION,
        "model": {"name": scorer.identity.name, "sha256": scorer.identity.file.sha256},
        "fit": {
            "sha256": file_sha256(scorer.path),
            **{kind: {"score": fit.score, **fit.record} for kind, fit in scorer.fits.items()},
        },
        "seed": scorer.seed,
        "device": device,
        "versions": versions(),
        "images": [
            {
                "image": _file(one.sight.file),
                "hidden_by": _file(one.sight.hole_file),
                **dict(zip(_COLUMNS[1:], _cells(one)[1:], strict=True)),
            }
            for one in done
        ],
        "passed_over": list(bad),
    }
    return json_text(plain)


def _table(done: Sequence[ScoredFile]) -> str:
    return csv_text(_COLUMNS, [_cells(one) for one in done])


def _cells(one: ScoredFile) -> list[Any]:
    found = one.found
    score = found.score if math.isfinite(found.score) else None
    return [shown(one.path), found.kind, found.known_share, score, found.percentile, found.strange]


def _file(file: FileId | None) -> dict[str, str] | None:
    return None if file is None else {"path": shown(file.path), "sha256": file.sha256}
