"""Everything that the project says: help lines, error messages, docstrings and paragraphs of the pages.

python tests/helpers/texts.py 10 --seed 18       # prints ten of each kind, drawn at random, for a reader
"""

import argparse
import ast
import random
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).parents[2]))
sys.path.insert(0, str(Path(__file__).parents[1]))
from helpers.cli_options import options, verbs
from helpers.fixtures import ROOT

from recipes import api_reference

SOURCE = ROOT / "src" / "condvae"
VALUE = "<...>"
"""Stands for a value in an error message."""


class Text(NamedTuple):
    kind: str
    place: str
    words: str


def all_texts() -> list[Text]:
    return [*help_lines(), *error_messages(), *docstrings(), *paragraphs()]


def help_lines() -> Iterator[Text]:
    """The text of each verb and of each of its options, as `--help` prints them."""
    for verb, kind in verbs().items():
        yield Text("help", f"condvae {verb}", " ".join((kind.__doc__ or "").split()))
        for option, told in options(kind).items():
            yield Text("help", f"condvae {verb} --{option}", told["whole help"])


def error_messages() -> Iterator[Text]:
    """What exceptions and warnings say, with their values left open."""
    for path, tree in _modules():
        for node in ast.walk(tree):
            call = node.exc if isinstance(node, ast.Raise) else node
            if not isinstance(call, ast.Call) or (call is node and not ast.unparse(call.func).endswith("warn")):
                continue
            for argument in call.args:
                if len(words := _literal(argument).split()) > 3:
                    yield Text("error", f"{path}:{call.lineno}", " ".join(words))


def docstrings() -> Iterator[Text]:
    """Docstrings of modules, classes and functions, and of their attributes."""
    for path, tree in _modules():
        for node, owners in api_reference.documented(tree):
            for words in api_reference.docstrings(node):
                yield Text("docstring", f"{path} ({'.'.join(owners) or 'the module'})", words.strip())


def paragraphs() -> Iterator[Text]:
    """Paragraphs and list items of README and docs, without tables, code and headings."""
    for path in (ROOT / "README.md", *sorted(ROOT.glob("docs/**/*.md"))):
        text = re.sub(r"^```.*?^```|<!--.*?-->", "", path.read_text(), flags=re.DOTALL | re.MULTILINE)
        for block in re.split(r"\n\s*\n|\n(?=- |\d+\. )", text):
            if len(words := block.split()) > 3 and not block.lstrip().startswith(("#", "|", "!")):
                yield Text("paragraph", str(path.relative_to(ROOT)), " ".join(words))


def _modules() -> Iterator[tuple[str, ast.Module]]:
    for path in sorted(SOURCE.rglob("*.py")):
        yield str(path.relative_to(SOURCE)), ast.parse(path.read_text())


def _literal(node: ast.expr) -> str:
    """The words of a string expression."""
    if isinstance(node, ast.Constant):
        return str(node.value)
    if isinstance(node, ast.JoinedStr):
        return "".join(str(part.value) if isinstance(part, ast.Constant) else VALUE for part in node.values)
    if isinstance(node, ast.BinOp):
        return _literal(node.left) + _literal(node.right)
    return VALUE


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("count", type=int, help="texts of each kind")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    chosen = random.Random(given.seed)
    number = 0
    for kind in ("help", "error", "docstring", "paragraph"):
        for text in chosen.sample([text for text in all_texts() if text.kind == kind], given.count):
            number += 1
            print(f"{number}. [{text.kind}] {text.place}\n   {text.words}\n")
