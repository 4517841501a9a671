"""What an evaluation has on disk: results of units, final numbers of methods, and the report.

    DIR/parts/NAME-KIND-FINGERPRINT/UNIT.safetensors     what was measured of some images, until the numbers are final
    DIR/parts/NAME-KIND-FINGERPRINT/final.safetensors    the final numbers, small enough to stay
    DIR/results.json, .csv, .md, *.png                   the report

The fingerprint is of all that the numbers depend on. How such files are written and read is `ResultStore`'s business.
"""

from pathlib import Path
from typing import Any

from condvae.experiments.evaluation.plan import MeasurementKind
from condvae.experiments.resumable_work import ResultStore
from condvae.runtime import folders
from condvae.runtime.folders import check_folder, make_folder, read_json

PART = "condvae evaluation part"
FINAL = "final"
"""The unit that holds a job's final numbers in its notes."""
FORMAT = "condvae evaluation"
REPORT = ("results.json", "results.csv", "results.md", "metrics.png", "coverage.png")


def shelf(folder: Path, *, slug: str, kind: MeasurementKind, fingerprint: str) -> ResultStore:
    """The parts of one subject, measured in one way."""
    return ResultStore(folder / "parts" / f"{slug}-{kind}-{fingerprint}", kind=PART)


def final_of(shelf: ResultStore) -> dict[str, Any] | None:
    """The final numbers, if they are there and whole; what is damaged is measured again."""
    try:
        return shelf.notes(FINAL) if shelf.has(FINAL) else None
    except ValueError:
        return None


def finals(folder: Path) -> dict[str, dict[str, Any]]:
    """All final numbers of an evaluation by the names of their folders, the newest first."""
    written = {path.parent: path.stat().st_mtime_ns for path in folder.glob(f"parts/*/{FINAL}.safetensors")}
    newest_first = sorted(written, key=lambda path: written[path], reverse=True)
    found = {path.name: final_of(ResultStore(path, kind=PART)) for path in newest_first}
    return {name: final for name, final in found.items() if final is not None}


def claim(folder: Path) -> None:
    """Make the folder, or raise a ValueError if it holds what is not an evaluation's."""
    if (folder / "methods").is_dir():
        raise ValueError(f"{folder} is from an older condvae, which averaged bits otherwise: give another --out")
    check_folder(
        folder,
        folders=("parts",),
        report=REPORT,
        what="an evaluation",
        ours=lambda path: read_report(path) is not None,
    )
    # A kill may have left a report without its results.json, but not without final numbers.
    of_others = not (folder / "results.json").exists() and any((folder / name).exists() for name in REPORT)
    if of_others and not finals(folder):
        raise ValueError(f"{folder} holds results of something else: give another --out")
    make_folder(folder)


def read_report(path: Path) -> dict[str, Any] | None:
    """A results.json of ours, or None."""
    return read_json(path, format=FORMAT)


def clear_away(folder: Path) -> None:
    """Remove what killed processes have left under temporary names long ago."""
    for part in (folder, *folder.glob("parts/*")):
        folders.clear_away(part)
