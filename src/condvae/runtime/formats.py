"""Text formats of results: JSON that people can read too, CSV, tables in Markdown."""

import csv
import io
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any


def json_text(result: Mapping[str, Any]) -> str:
    """Lists of numbers on one line: some have many."""
    text = json.dumps(result, indent=1, allow_nan=False)
    return re.sub(r"\[[-\d.,e\s]+\]", lambda numbers: re.sub(r"\s+", "", numbers[0]).replace(",", ", "), text) + "\n"


def markdown_table(head: Sequence[str], body: Sequence[Sequence[str]]) -> list[str]:
    """The lines of a table in Markdown."""

    def line(cells: Sequence[str]) -> str:
        return f"| {' | '.join(cell.replace('|', '/') for cell in cells)} |"

    return [line(head), "|" + "---|" * len(head), *map(line, body)]


def csv_text(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Empty where there is no number."""
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(head)
    writer.writerows(rows)
    return file.getvalue()
