"""Find out which pictures in a folder condvae has written itself. The record in the folder lists them.

Contact sheets and figures are not images of a data set, so whatever reads a folder of images leaves them out.
"""

import os
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from condvae.runtime.json_reading import parse_json

RECORD = "record.json"
PICTURE_SUFFIXES = (".jpg", ".jpeg", ".png", ".webp", ".bmp", ".tif", ".tiff", ".gif")
REPORT_FIGURES = frozenset(
    {"auroc.png", "coverage.png", "cross_tasks.png", "metrics.png", "nll.png", "sets.png", "where.png"}
)
"""The figures that experiments write next to their results.json."""
_MOST_BYTES = 2**26
"""A file with more bytes than this is not read as a record."""
_RUN, _REPORT = "options.json", "results.json"
"""Files by which the folders of training runs and of experiments are recognised."""


@dataclass(frozen=True, kw_only=True)
class RecordKind:
    """A kind of record: the record of one verb, which lists the pictures that a call has written."""

    format: str
    """The value of "format" in the record."""
    verb: str
    file: str = RECORD
    version: int = 1
    figures: bool = False
    """Whether all pictures are figures about images, so that none of them counts as an image."""


COMPLETIONS = RecordKind(format="condvae completions", verb="condvae complete", version=2)
SAMPLES = RecordKind(format="condvae samples", verb="condvae sample")
RECONSTRUCTIONS = RecordKind(format="condvae reconstructions", verb="condvae reconstruct")
SCANS = RecordKind(format="condvae design", verb="condvae design scan", file="design.json", figures=True)
KINDS = (COMPLETIONS, SAMPLES, RECONSTRUCTIONS, SCANS)
_RECORD_FILES = frozenset(kind.file for kind in KINDS)


class RecordedFiles(NamedTuple):
    """The pictures that a record lists, by their file names in the record's folder."""

    kind: RecordKind
    images: tuple[str, ...]
    others: tuple[str, ...]
    """Contact sheets and figures."""
    digests: Mapping[str, str]
    """SHA-256 of each picture when it was written; records of earlier versions have none."""

    @property
    def names(self) -> tuple[str, ...]:
        return (*self.images, *self.others)


def read_recorded(path: Path) -> RecordedFiles | None:
    """Read which files a record lists; return None if the file is not a record that condvae has written."""
    if not path.is_file():  # reading a pipe could block for ever
        return None
    try:
        with path.open("rb") as file:
            return _recorded(path.name, _parsed(file.read(_MOST_BYTES + 1)))
    except OSError:
        return None


def own_pictures(names: Sequence[str], read: Callable[[str, int], bytes]) -> frozenset[str]:
    """Return those of the files that are contact sheets or figures of condvae, and so no images.

    These are pictures that a record lists as such, contact sheets of training runs, and figures of experiments.
    names: paths of all files in a folder or zip file, with / between folder names.
    read: a function that returns the content of a file, but at most the given number of bytes.
    """
    by_folder: defaultdict[str, list[str]] = defaultdict(list)
    for name in names:
        by_folder[name.rpartition("/")[0]].append(name)
    found: set[str] = set()
    for folder, files in list(by_folder.items()):
        prefix = f"{folder}/" if folder else ""
        for mark in {*_RECORD_FILES, _RUN, _REPORT} & {name.removeprefix(prefix) for name in files}:
            try:
                plain = _parsed(read(prefix + mark, _MOST_BYTES + 1))
            except Exception:  # a damaged file in a zip can raise any exception
                continue
            if recorded := _recorded(mark, plain):
                found |= {prefix + name for name in recorded.others}
            elif mark == _RUN and plain.get("verb") in ("pretrain", "train") and "data_summary" in plain:
                found |= {one for one in by_folder.get(f"{prefix}sheets", ()) if "/step-" in one[len(prefix) :]}
            elif mark == _REPORT and str(plain.get("format")).startswith("condvae "):
                found |= {prefix + name for name in REPORT_FIGURES}
    return frozenset(found.intersection(names))


def _parsed(content: bytes) -> dict[str, Any]:
    """Parse a JSON object; return an empty one if this fails."""
    try:
        plain = parse_json(content) if len(content) <= _MOST_BYTES else None
    except ValueError:
        return {}
    return plain if isinstance(plain, dict) else {}


def _recorded(file: str, plain: Mapping[str, Any]) -> RecordedFiles | None:
    kind = next((one for one in KINDS if (one.file, one.format) == (file, plain.get("format"))), None)
    if kind is None:
        return None
    try:
        images = [name for entry in plain["images"] for name in _names(entry["outputs"])]
        others = _names(plain.get("sheets", []))
    except (KeyError, TypeError):
        return None
    if kind.figures:
        images, others = [], images + others
    digests = plain.get("sha256")
    return RecordedFiles(
        kind,
        images=tuple(filter(_is_picture, images)),
        others=tuple(filter(_is_picture, others)),
        digests=digests if isinstance(digests, dict) else {},
    )


def _is_picture(name: object) -> bool:
    """Return whether a name in a record is that of a picture in the record's own folder."""
    return isinstance(name, str) and name.lower().endswith(PICTURE_SUFFIXES) and name == os.path.basename(name)


def _names(plain: object) -> list[Any]:
    if not isinstance(plain, list):
        raise TypeError("the names are not a list")
    return plain
