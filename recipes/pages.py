"""Pages of results: raw numbers lie in a folder of the page's name, and its marked tables are made from them."""

import json
import re
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from PIL import Image

TABLE = re.compile(r"(<!-- table (\S+) -->\n).*?(<!-- end -->)", re.DOTALL)


@dataclass(frozen=True, kw_only=True)
class Page:
    """page.md, with a place `<!-- table NAME -->` ... `<!-- end -->` for each table, and page/*.json."""

    path: Path
    tables: Callable[[Mapping[str, Any]], dict[str, str]]
    """From the raw numbers, by the names of their files, to the tables by theirs."""

    @property
    def folder(self) -> Path:
        return self.path.with_suffix("")

    def raw(self) -> dict[str, Any]:
        return {path.stem: json.loads(path.read_text()) for path in sorted(self.folder.glob("*.json"))}

    def update(self, new: Mapping[str, Any]) -> None:
        """Take in new numbers and fill the tables; nothing is written if they cannot be filled."""
        text = self.filled(dict(sorted({**self.raw(), **new}.items())))  # in the order in which they will be read
        for name, numbers in new.items():
            (self.folder / f"{name}.json").write_text(compact(numbers) + "\n")
        self.path.write_text(text)

    def filled(self, raw: Mapping[str, Any] | None = None) -> str:
        """The page with its tables made anew, from the numbers that lie there if none are given."""
        text, tables = self.path.read_text(), self.tables(self.raw() if raw is None else raw)
        asked = [match[2] for match in TABLE.finditer(text)]
        if unknown := sorted(set(asked) ^ set(tables)):
            raise ValueError(f"the page and the recipe disagree about the tables {', '.join(unknown)}")
        return TABLE.sub(lambda match: f"{match[1]}{tables[match[2]]}{match[3]}", text)


def read(given: Mapping[str, Path | None]) -> dict[str, Any]:
    """The numbers in those files that were given."""
    return {name: json.loads(path.read_text()) for name, path in given.items() if path is not None}


def compact(value: Any, levels: int = 4, indent: str = "\n") -> str:
    """JSON with a line for each metric of each method, so that changes can be read, and no spaces below that."""
    if not levels or not isinstance(value, dict):
        return json.dumps(value, separators=(",", ":"), allow_nan=False)
    deeper = indent + " "
    lines = [f"{deeper}{json.dumps(key)}:{compact(inner, levels - 1, deeper)}" for key, inner in value.items()]
    return f"{{{','.join(lines)}{indent}}}"


def rounded(value: Any, digits: int) -> Any:
    """The same with no more significant digits than that in any number."""
    if isinstance(value, float):
        return float(f"{value:.{digits}g}")
    if isinstance(value, dict):
        return {key: rounded(inner, digits) for key, inner in value.items()}
    return [rounded(inner, digits) for inner in value] if isinstance(value, list) else value


def draw(numbers: Path, redraw: Callable[[Path], list[Path]], folder: Path, prefix: str = "") -> None:
    """The figures of a report, small: few colours, without loss."""
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


def short(value: float, digits: int, sign: Literal["", "+"] = "") -> str:
    """.0123 for 0.0123, as the paper writes it."""
    return re.sub(r"^([+-]?)0\.", r"\1.", f"{value:{sign}.{digits}f}")


def markdown(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)
