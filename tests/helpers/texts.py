"""Everything that the project says: help lines, error messages, docstrings and paragraphs of the pages.

python tests/helpers/texts.py 10 --seed 18       # prints ten of each kind, drawn at random, for a reader
"""

import argparse
import ast
import contextlib
import io
import os
import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple
from unittest import mock

ROOT = Path(__file__).parents[2]
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
    """The sentence of each verb and of each option, as `--help` prints them."""
    from condvae.cli import main

    def printed(*verb: str) -> str:
        out = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")  # boxes are drawn only where the encoding has them
        with (
            mock.patch.dict(os.environ, COLUMNS="2000"),
            contextlib.redirect_stdout(out),
            contextlib.suppress(SystemExit),
        ):
            main([*verb, "--help"])
        out.seek(0)
        return out.read()

    def lines(*verb: str) -> Iterator[Text]:
        text = printed(*verb)
        subverbs = re.match(r"usage: [^\n{]*\{([\w,-]+)\}\n", text)
        head, *boxes = re.split(r"^╭.*╮\n", text, flags=re.MULTILINE)
        yield Text("help", " ".join(("condvae", *verb)), " ".join(head.split("\n\n", 1)[1].split()))
        if subverbs:
            for name in subverbs[1].split(","):
                yield from lines(*verb, name)
            return
        option, found = "", dict[str, str]()
        for row in (line[2:].rstrip(" │") for box in boxes for line in box.splitlines() if line[:1] == "│"):
            start, *words = re.split(r"   *", row, maxsplit=1)
            option = start or option
            found[option] = f"{found.get(option, '')} {' '.join(words)}".strip()
        for option, words_of in found.items():
            if not option.startswith("-h"):
                yield Text("help", " ".join(("condvae", *verb, option)), words_of)

    yield from lines()


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
        for node in ast.walk(tree):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
                for line in node.body:
                    found = line.value if isinstance(line, ast.Expr) else None
                    if isinstance(found, ast.Constant) and isinstance(found.value, str):
                        name = getattr(node, "name", "the module")
                        yield Text("docstring", f"{path}:{line.lineno} ({name})", found.value.strip())


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
    options = parser.parse_args()
    chosen = random.Random(options.seed)
    number = 0
    for kind in ("help", "error", "docstring", "paragraph"):
        for text in chosen.sample([text for text in all_texts() if text.kind == kind], options.count):
            number += 1
            print(f"{number}. [{text.kind}] {text.place}\n   {text.words}\n")
