"""Verdicts on statements of the paper, and their tables."""

import pytest

from recipes.statements import REFUTED, REPRODUCED, UNDECIDED, Statement, rule_table, statement_table, verdict_of


@pytest.mark.parametrize(
    ("leads", "verdict"),
    [([1, 1], REPRODUCED), ([1, 0], UNDECIDED), ([0, 1, -1], REFUTED), ([-1], REFUTED), ([], UNDECIDED)],
)
def test_one_loss_refutes_and_one_tie_leaves_it_open(leads: list[int], verdict: str) -> None:
    assert verdict_of(leads) == verdict


def test_rows_of_the_same_statement_are_next_to_each_other() -> None:
    first, second = Statement("a", "A", REPRODUCED, "1 < 2"), Statement("b", "B", REFUTED, "3 > 2")
    other = [first._replace(verdict=UNDECIDED), second]
    head = "statement | rule | verdict | numbers |"
    assert statement_table([first, second]).splitlines() == [
        f"| {head}",
        "| --- | --- | --- | --- |",
        "| a | A | **reproduced** | 1 < 2 |",
        "| b | B | **refuted** | 3 > 2 |",
    ]
    assert statement_table({"x": [first, second], "y": other}).splitlines() == [
        f"| data | {head}",
        "| --- | --- | --- | --- | --- |",
        "| x | a | A | **reproduced** | 1 < 2 |",
        "| y | a | A | **undecided** | 1 < 2 |",
        "| x | b | B | **refuted** | 3 > 2 |",
        "| y | b | B | **refuted** | 3 > 2 |",
    ]
    assert rule_table({"A": "by counting"}).splitlines()[2] == "| A | by counting |"
