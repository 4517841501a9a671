"""What an evaluation has on disk: results of units, final numbers of methods, and the report.

    DIR/parts/NAME-FINGERPRINT/UNIT.safetensors    until the numbers of NAME are final
    DIR/methods/NAME.KIND.json                     final numbers of a kind, with the fingerprint of what they depend on
    DIR/results.json, .csv, .md, *.png             the report

Every file is whole or not there, and written by nobody who has read it first: processes that were told the same write
the same, whoever is last.
"""

import json
import os
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, get_args

import torch
from torch import Tensor

from condvae import registry
from condvae.evaluation.plan import Kind, Unit, mark_of
from condvae.weights import sealed_file

PART = "condvae evaluation part"
FORMAT = "condvae evaluation"
REPORT = ("results.json", "results.csv", "results.md", "metrics.png", "coverage.png")


class Shelf:
    """The parts of one subject, measured in one way."""

    def __init__(self, folder: Path, *, slug: str, kind: Kind, fingerprint: str) -> None:
        self.folder = folder / "parts" / f"{slug}-{kind}-{fingerprint}"

    def has(self, unit: Unit) -> bool:
        return self._file(unit).is_file()

    def put(self, unit: Unit, numbers: Mapping[str, Tensor], *, seconds: float) -> None:
        """Write a part under a temporary name and rename it: a kill leaves no half of one."""
        plain = {name: tensor.cpu().contiguous() for name, tensor in numbers.items()}
        try:
            about = {"part": self._name(unit), "seconds": seconds}
            sealed_file.write(self._file(unit), kind=PART, description=about, tensors=plain)
        except OSError as error:
            raise ValueError(f"{error}: make room for the results, and run once more") from error

    def get(self, units: Iterable[Unit]) -> tuple[dict[str, Tensor], float]:
        """The numbers of these units one after the other, and the seconds that they took together."""
        pieces, seconds = [], 0.0
        for unit in units:
            try:
                description, tensors = sealed_file.read(self._file(unit), kind=PART)
                if description.get("part") != self._name(unit):
                    raise ValueError(f"{self._file(unit)} holds what was measured as {description.get('part')}")
            except ValueError as error:
                raise ValueError(f"{error}: remove it and run once more, which makes it again") from error
            pieces.append(tensors)
            seconds += float(description["seconds"])
        return {name: torch.cat([piece[name] for piece in pieces]) for name in pieces[0]}, seconds

    def remove(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)
        try:
            self.folder.parent.rmdir()
        except OSError:  # other parts are in it
            return

    def _name(self, unit: Unit) -> str:
        """Written into the part, by which a file that somebody has copied or renamed is found out."""
        return f"{self.folder.name}/{unit}"

    def _file(self, unit: Unit) -> Path:
        return self.folder / f"{unit}.safetensors"


class Finals:
    """The final numbers of every method that was measured in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "methods"

    def read(self, slug: str) -> dict[str, Any]:
        """What is stored under a name, as far as it is what this class has written; what is not is measured again."""
        found: dict[str, Any] = {}
        for kind in get_args(Kind):
            stored = _read(self._file(slug, kind)) or {}
            named = isinstance(stored.get("name"), str) and isinstance(stored.get("made_of", {}), dict)
            if named and _is_section(stored.get(kind)):
                found |= stored
        return found

    def section(self, slug: str, kind: Kind, fingerprint: str) -> dict[str, Any] | None:
        """The numbers of a kind, if they depend on the same things."""
        section: dict[str, Any] | None = self.read(slug).get(kind)
        return section if section is not None and section["fingerprint"] == fingerprint else None

    def write(
        self, slug: str, about: Mapping[str, Any], kind: Kind, section: Mapping[str, Any], *, identity: str
    ) -> None:
        """Put the numbers of a kind beside what is stored of the same subject; those of an older one of its name go."""
        stored = self.read(slug)
        for other in get_args(Kind):
            if other in stored and stored[other]["fingerprint"] != mark_of(stored[other]["common"], identity):
                self._file(slug, other).unlink(missing_ok=True)
        text = json.dumps({"format": FORMAT, **about, kind: section}, indent=1, allow_nan=False)
        write_text(self._file(slug, kind), text + "\n")

    def slugs(self) -> list[str]:
        names = (path.stem.rpartition(".") for path in self.folder.glob("*.json"))
        return sorted({slug for slug, _, kind in names if kind in get_args(Kind)})

    def newest_first(self, slugs: Iterable[str]) -> list[str]:
        """By when their numbers were written."""

        def written(slug: str) -> int:
            files = (self._file(slug, kind) for kind in get_args(Kind))
            return max((path.stat().st_mtime_ns for path in files if path.exists()), default=0)

        return sorted(slugs, key=written, reverse=True)

    def _file(self, slug: str, kind: Kind) -> Path:
        return self.folder / f"{slug}.{kind}.json"


def write_text(path: Path, text: str) -> None:
    """Whole, or the older one stays."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        temporary.write_text(text, encoding="utf-8")
        os.replace(temporary, path)
    except OSError as error:
        raise ValueError(f"{path} cannot be written ({error.strerror}): make room, and run once more") from error
    finally:
        temporary.unlink(missing_ok=True)


def claim(folder: Path) -> None:
    """Make the folder, or raise a ValueError if it holds what is not an evaluation's."""
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"{folder} is a file: give a folder for the results")
    ours = {"parts", "methods", *REPORT}
    if folder.is_dir():
        visible = [entry for entry in folder.iterdir() if not entry.name.startswith(".")]
        if strangers := sorted(entry.name for entry in visible if entry.name not in ours):
            raise ValueError(f"{folder} holds {strangers[0]}, which is not from an evaluation: give another --out")
        report = folder / "results.json"
        if report.exists() and read_report(report) is None:
            raise ValueError(f"{report} is not from an evaluation: give another --out")
        # A kill may have left a report without its results.json, but not without numbers of methods.
        of_others = not report.exists() and any(entry.name in REPORT for entry in visible)
        if of_others and not any(map(Finals(folder).read, Finals(folder).slugs())):
            raise ValueError(f"{folder} holds results of something else: give another --out")
        for name in ("parts", "methods"):
            if (folder / name).exists() and not (folder / name).is_dir():
                raise ValueError(f"{folder / name} is a file, where a folder should be: give another --out")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe = folder / f".probe-{os.getpid()}"
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise ValueError(f"{folder} cannot be written to ({error.strerror}): give another --out") from error


def read_report(path: Path) -> dict[str, Any] | None:
    """A results.json of ours, or None."""
    return _read(path)


def clear_away(folder: Path) -> None:
    """Remove what killed processes have left under temporary names long ago."""
    for place in (folder, folder / "methods", *folder.glob("parts/*")):
        registry.clear_away(place, ".*.part")


def _read(path: Path) -> dict[str, Any] | None:
    """What a file of ours holds, or None for any other."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) and found.get("format") == FORMAT else None


def _is_section(found: object) -> bool:
    """Whether this is a kind's numbers: by metric and column, each with its error."""
    if not isinstance(found, dict) or not {"fingerprint", "common", "metrics", "seconds"} <= found.keys():
        return False
    metrics = found["metrics"]
    columns = metrics.values() if isinstance(metrics, dict) else [None]
    return all(isinstance(one, dict) and all(map(_is_cell, one.values())) for one in columns)


def _is_cell(found: object) -> bool:
    return isinstance(found, dict) and {"mean", "standard_error"} <= found.keys()
