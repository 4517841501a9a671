"""Fill the marked tables of a results page, page.md, from the raw numbers in page/*.json."""

import io
import json
import re
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from PIL import Image

DIGITS = 7
"""How many significant digits of an experiment's numbers are kept."""
QUALITIES, LARGEST_SHEET = (80, 70, 60), 150_000
"""WebP qualities of a sheet, of which the first is used that makes the file no larger than so many bytes."""
TABLE = re.compile(r"(<!-- table (\S+) -->\n).*?(<!-- end -->)", re.DOTALL)


@dataclass(frozen=True, kw_only=True)
class Page:
    """A results page with marks `<!-- table NAME -->` and `<!-- end -->` around each table, and data in page/*.json."""

    path: Path
    tables: Callable[[Mapping[str, Any]], dict[str, str]]
    """A function from the raw numbers, by file name, to the Markdown tables, by table name."""

    @property
    def folder(self) -> Path:
        return self.path.with_suffix("")

    def raw(self) -> dict[str, Any]:
        return {path.stem: json.loads(path.read_text()) for path in sorted(self.folder.glob("*.json"))}

    def update(self, new: Mapping[str, Any]) -> None:
        """Store new numbers and fill the tables; nothing is written if a table cannot be filled."""
        text = self.filled(dict(sorted({**self.raw(), **new}.items())))  # in the order in which `raw` reads them
        self.folder.mkdir(exist_ok=True)
        for name, numbers in new.items():
            (self.folder / f"{name}.json").write_text(compact(numbers) + "\n")
        self.path.write_text(text)

    def store(self, given: Mapping[str, Path | None], made_by: Mapping[str, tuple[str, str]]) -> None:
        """Store the results in JSON files, rounded, and fill the tables.

        given: the files, or None, by name. made_by: the format of each, and the command that writes it.
        """
        new = {name: read_result(path, *made_by[name]) for name, path in given.items() if path is not None}
        self.update(rounded(new, DIGITS))

    def filled(self, raw: Mapping[str, Any] | None = None) -> str:
        """Return the text of the page with all tables filled. raw: numbers to use instead of the stored ones."""
        text, tables = self.path.read_text(), self.tables(self.raw() if raw is None else raw)
        marked = [match[2] for match in TABLE.finditer(text)]
        if unmatched := sorted(set(marked) ^ set(tables)):
            raise ValueError(f"these tables are only in the page or only in the recipe: {', '.join(unmatched)}")
        return TABLE.sub(lambda match: f"{match[1]}{tables[match[2]]}{match[3]}", text)


def read(given: Mapping[str, Path | None]) -> dict[str, Any]:
    """Read the JSON files that were given, and return their contents by name. A path is None if it was not given."""
    return {name: json.loads(path.read_text()) for name, path in given.items() if path is not None}


def read_result(path: Path, wanted: str, command: str) -> dict[str, Any]:
    """Read a JSON file. wanted: its format. command: the one that writes such files."""
    result: dict[str, Any] = json.loads(path.read_text())
    if not isinstance(result, dict) or result.get("format") != wanted:
        raise ValueError(f"{path} has no results of {command}: give the JSON file that it wrote")
    return result


def compact(value: Any, levels: int = 4, indent: str = "\n") -> str:
    """Return JSON text with a line for each metric of each method, so that diffs are readable, and no other spaces."""
    if not levels or not isinstance(value, dict):
        return json.dumps(value, separators=(",", ":"), allow_nan=False)
    deeper = indent + " "
    lines = [f"{deeper}{json.dumps(key)}:{compact(inner, levels - 1, deeper)}" for key, inner in value.items()]
    return f"{{{','.join(lines)}{indent}}}"


def rounded(value: Any, digits: int) -> Any:
    """Round all floats in nested JSON data to this many significant digits."""
    if isinstance(value, float):
        return float(f"{value:.{digits}g}")
    if isinstance(value, dict):
        return {key: rounded(inner, digits) for key, inner in value.items()}
    return [rounded(inner, digits) for inner in value] if isinstance(value, list) else value


def draw(numbers: Path, redraw: Callable[[Path], list[Path]], folder: Path, prefix: str = "") -> None:
    """Draw the figures of a report and save them as small files, in lossless WebP with 64 colours."""
    with tempfile.TemporaryDirectory() as scratch:
        shutil.copyfile(numbers, Path(scratch) / "results.json")
        for path in redraw(Path(scratch)):
            with Image.open(path) as figure:
                few = (
                    figure.convert("RGB")
                    .quantize(64, Image.Quantize.FASTOCTREE, dither=Image.Dither.NONE)
                    .convert("RGB")
                )
                few.save(folder / f"{prefix}{path.stem}.webp", lossless=True, quality=100, method=6)


def small_webp(path: Path) -> bytes:
    """Return a picture as WebP, in the best of the qualities that is small enough, or else in the lowest."""
    with Image.open(path) as picture:
        colours = picture.convert("RGB")
    for quality in QUALITIES:
        file = io.BytesIO()
        colours.save(file, format="webp", quality=quality, method=6)
        if file.tell() <= LARGEST_SHEET:
            break
    return file.getvalue()


def short(value: float, digits: int, sign: Literal["", "+"] = "") -> str:
    """Format a number without a leading zero, as the paper does: .0123 for 0.0123."""
    return re.sub(r"^([+-]?)0\.", r"\1.", f"{value:{sign}.{digits}f}")


def markdown(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)
