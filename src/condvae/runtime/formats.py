"""Text formats for results: readable JSON, CSV and Markdown tables."""

import csv
import io
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any


def json_text(result: Mapping[str, Any]) -> str:
    """Format a result as indented JSON, with each list of numbers on one line."""
    text = json.dumps(result, indent=1, allow_nan=False)
    return re.sub(r"\[[-\d.,e\s]+\]", lambda numbers: re.sub(r"\s+", "", numbers[0]).replace(",", ", "), text) + "\n"


def markdown_table(head: Sequence[str], body: Sequence[Sequence[str]]) -> list[str]:
    """Return the lines of a Markdown table."""

    def line(cells: Sequence[str]) -> str:
        return f"| {' | '.join(cell.replace('|', '/') for cell in cells)} |"

    return [line(head), "|" + "---|" * len(head), *map(line, body)]


def csv_text(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Format rows as CSV, with an empty cell for None."""
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(head)
    writer.writerows(rows)
    return file.getvalue()


def has_header(path: Path, head: Sequence[str]) -> bool:
    """Return whether the first line of a CSV file is exactly that of a table with these columns."""
    expected = csv_text(head, ()).encode()
    try:
        with path.open("rb") as file:
            return file.read(len(expected)) == expected
    except OSError:
        return False
