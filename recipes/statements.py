"""Statements of the paper on results pages: how each was decided, its verdict, and the numbers behind it."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from recipes.pages import markdown

REPRODUCED, REFUTED, UNDECIDED = "reproduced", "refuted", "undecided"


class Statement(NamedTuple):
    """A statement, how it was decided, and the numbers behind it."""

    text: str
    rule: str
    verdict: str
    numbers: str


def verdict_of(leads: Sequence[int]) -> str:
    """Return the verdict on being better everywhere. leads: 1 where it is better, -1 where it is worse, else 0."""
    if -1 in leads:
        return REFUTED
    return REPRODUCED if leads and 0 not in leads else UNDECIDED


def statement_table(found: Mapping[str, Sequence[Statement]] | Sequence[Statement]) -> str:
    """Return a table of statements.

    found: a list, or one list of the same statements for each data set. The rows of a statement are then next to each
    other, and their first column names the data set.
    """
    head = ["statement", "rule", "verdict", "numbers"]
    if not isinstance(found, Mapping):
        return markdown(head, [_cells(one) for one in found])
    rows = [
        [name, *_cells(one)]
        for same in zip(*found.values(), strict=True)
        for name, one in zip(found, same, strict=True)
    ]
    return markdown(["data", *head], rows)


def rule_table(rules: Mapping[str, str]) -> str:
    return markdown(["rule", "how it decides"], list(rules.items()))


def _cells(one: Statement) -> list[str]:
    return [one.text, one.rule, f"**{one.verdict}**", one.numbers]
