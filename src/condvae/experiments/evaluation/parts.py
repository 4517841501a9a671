"""What an evaluation has on disk: results of units, final numbers of methods, and the report.

    DIR/parts/NAME-FINGERPRINT/UNIT.safetensors    until the numbers of NAME are final
    DIR/methods/NAME.KIND.json                     final numbers of a kind, with the fingerprint of what they depend on
    DIR/results.json, .csv, .md, *.png             the report

How such files are written and read is `workshare`'s business.
"""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, get_args

from condvae.experiments.evaluation.plan import MeasurementKind, mark_of
from condvae.experiments.resumable_work import ResultStore
from condvae.runtime import folders
from condvae.runtime.atomic import write_text
from condvae.runtime.folders import check_folder, make_folder, read_json

PART = "condvae evaluation part"
FORMAT = "condvae evaluation"
REPORT = ("results.json", "results.csv", "results.md", "metrics.png", "coverage.png")


def shelf(folder: Path, *, slug: str, kind: MeasurementKind, fingerprint: str) -> ResultStore:
    """The parts of one subject, measured in one way."""
    return ResultStore(folder / "parts" / f"{slug}-{kind}-{fingerprint}", kind=PART)


class Finals:
    """The final numbers of every method that was measured in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "methods"

    def read(self, slug: str) -> dict[str, Any]:
        """What is stored under a name, as far as it is what this class has written; what is not is measured again."""
        found: dict[str, Any] = {}
        for kind in get_args(MeasurementKind):
            stored = read_json(self._file(slug, kind), format=FORMAT) or {}
            named = isinstance(stored.get("name"), str) and isinstance(stored.get("made_of", {}), dict)
            if named and _is_section(stored.get(kind)):
                found |= stored
        return found

    def section(self, slug: str, kind: MeasurementKind, fingerprint: str) -> dict[str, Any] | None:
        """The numbers of a kind, if they depend on the same things."""
        section: dict[str, Any] | None = self.read(slug).get(kind)
        return section if section is not None and section["fingerprint"] == fingerprint else None

    def write(
        self, slug: str, about: Mapping[str, Any], kind: MeasurementKind, section: Mapping[str, Any], *, identity: str
    ) -> None:
        """Put the numbers of a kind beside what is stored of the same subject; those of an older one of its name go."""
        stored = self.read(slug)
        for other in get_args(MeasurementKind):
            if other in stored and stored[other]["fingerprint"] != mark_of(stored[other]["common"], identity):
                self._file(slug, other).unlink(missing_ok=True)
        text = json.dumps({"format": FORMAT, **about, kind: section}, indent=1, allow_nan=False)
        write_text(self._file(slug, kind), text + "\n")

    def slugs(self) -> list[str]:
        names = (path.stem.rpartition(".") for path in self.folder.glob("*.json"))
        return sorted({slug for slug, _, kind in names if kind in get_args(MeasurementKind)})

    def newest_first(self, slugs: Iterable[str]) -> list[str]:
        """By when their numbers were written."""

        def written(slug: str) -> int:
            files = (self._file(slug, kind) for kind in get_args(MeasurementKind))
            return max((path.stat().st_mtime_ns for path in files if path.exists()), default=0)

        return sorted(slugs, key=written, reverse=True)

    def _file(self, slug: str, kind: MeasurementKind) -> Path:
        return self.folder / f"{slug}.{kind}.json"


def claim(folder: Path) -> None:
    """Make the folder, or raise a ValueError if it holds what is not an evaluation's."""
    check_folder(
        folder,
        folders=("parts", "methods"),
        report=REPORT,
        what="an evaluation",
        ours=lambda path: read_report(path) is not None,
    )
    # A kill may have left a report without its results.json, but not without numbers of methods.
    of_others = not (folder / "results.json").exists() and any((folder / name).exists() for name in REPORT)
    if of_others and not any(map(Finals(folder).read, Finals(folder).slugs())):
        raise ValueError(f"{folder} holds results of something else: give another --out")
    make_folder(folder)


def read_report(path: Path) -> dict[str, Any] | None:
    """A results.json of ours, or None."""
    return read_json(path, format=FORMAT)


def clear_away(folder: Path) -> None:
    """Remove what killed processes have left under temporary names long ago."""
    for part in (folder, folder / "methods", *folder.glob("parts/*")):
        folders.clear_away(part)


def _is_section(found: object) -> bool:
    """Whether this is a kind's numbers: by metric and column, each with its error."""
    if not isinstance(found, dict) or not {"fingerprint", "common", "metrics", "seconds"} <= found.keys():
        return False
    metrics = found["metrics"]
    columns = metrics.values() if isinstance(metrics, dict) else [None]
    return all(isinstance(one, dict) and all(map(_is_cell, one.values())) for one in columns)


def _is_cell(found: object) -> bool:
    return isinstance(found, dict) and {"mean", "standard_error"} <= found.keys()
