"""Whatever the pages name is there: files, modules and names, and commands with their verbs, scripts and options."""

import ast
import functools
import importlib
import os
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple
from unittest import mock

import pytest
from helpers.fixtures import ROOT
from helpers.recipe_calls import run
from helpers.training import call

PAGES = ["README.md", *sorted(str(path.relative_to(ROOT)) for path in ROOT.glob("docs/**/*.md"))]
SCRIPTS = sorted(
    str(path.relative_to(ROOT)) for room in ("recipes", "benchmarks") for path in ROOT.glob(f"{room}/*.py")
)
ROOMS = ("benchmarks/", "docs/", "recipes/", "src/", "tests/")  # not every folder: `make demo` writes out/
MAP = "docs/architecture.md"
"""The page whose paths all lie in the package or in the repository."""
OPTION = re.compile(r"(?<![\w-])--?[a-zA-Z][\w-]*")
TORCHRUN = {"--nproc-per-node", "--nnodes", "--max-restarts"}


class Page(NamedTuple):
    """What a page says in code: in the text, in blocks, and the lines of those that are for a shell."""

    spans: list[str]
    blocks: list[str]
    lines: list[str]


@functools.cache
def read(name: str) -> Page:
    """A page of Markdown, or the docstring of a script, where commands are indented."""
    text = (ROOT / name).read_text()
    if name.endswith(".py"):
        text = ast.get_docstring(ast.parse(text)) or ""
        return Page(
            re.findall(r"`([^`]+)`", text), [], [line.strip() for line in text.splitlines() if line[:4] == "    "]
        )
    fences = re.findall(r"^```(\w*)\n(.*?)^```", text, flags=re.DOTALL | re.MULTILINE)
    rest = re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)
    lines = [line for kind, block in fences if kind != "python" for line in block.replace("\\\n", " ").splitlines()]
    spans = [" ".join(span.split()).replace("\\|", "|") for span in re.findall(r"`([^`]+)`", rest)]
    return Page(spans, [block for _, block in fences], lines)


def commands(name: str) -> Iterator[list[str]]:
    """Calls of condvae, of scripts and of make, as words; what else a shell would run is left out."""
    page = read(name)
    for line in (*page.lines, *page.spans):
        for one in re.split(r"&&|;", line.partition(" #")[0]):
            try:
                words = shlex.split(one)
            except ValueError:  # an apostrophe of prose
                continue
            if "-m" in words and words[words.index("-m") + 1 :][:1] == ["condvae"]:
                words = words[words.index("-m") + 1 :]
            if words[:1] == ["python"] or words[:1] == ["torchrun"]:
                words = words[1:]
            if words and (words[0] in ("condvae", "make") or words[0].startswith(ROOMS)) and len(words) > 1:
                yield words


def missing(name: str) -> Iterator[str]:
    """All that a page names and nobody finds."""
    page, mentioned = read(name), set(TORCHRUN)
    text = (ROOT / name).read_text() if name.endswith(".md") else ""
    for target, anchor in re.findall(r"\]\(([^)#:\s]*)(?:#([^)]*))?\)", text):
        linked = (ROOT / name).parent / target if target else ROOT / name
        if not linked.exists() or (anchor and anchor not in anchors(linked)):
            yield f"link to {target}#{anchor}"
    for word in (word for span in page.spans for word in span.split()):
        if re.fullmatch(r"[\w./-]+", word) and not there(word, name):
            yield f"path {word}"
    for text in (*page.spans, *page.blocks):
        dotted = re.findall(r"(?<![\w/.-])condvae(?:\.[A-Za-z_]\w*)+", text)
        imported = [
            f"{module}.{each.split()[0]}"
            for module, names in re.findall(r"^from (condvae[\w.]*) import ([\w, ]+)", text, flags=re.MULTILINE)
            for each in names.split(",")
            if each.strip()
        ]
        yield from (f"name {each}" for each in (*dotted, *imported) if not resolves(each))
    for words in commands(name):
        known = options(words)
        if known is None:
            yield f"command {' '.join(words)}"
            continue
        mentioned |= known
        yield from (f"option {option} in {' '.join(words)}" for option in given(words[1:]) if option not in known)
    for span in page.spans:
        if span.startswith("-"):
            yield from (
                f"option {option}" for option in given(span.split()) if option not in mentioned | every_option()
            )


def anchors(page: Path) -> set[str]:
    """The anchors that a Markdown page's headings get: small letters, spaces as hyphens, no other signs."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(), flags=re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


def there(word: str, page: str) -> bool:
    """Whether a path leads somewhere: from the repository, from the package, or from the page, if it is a script.

    Modules are paths, and what starts with a folder of ours; on the map all with a slash. Other words are no paths.
    """
    if not word.endswith(".py") and not word.startswith(ROOMS) and not (page == MAP and "/" in word):
        return True
    beside = [(ROOT / page).parent] if page in SCRIPTS else []
    return any((start / word).exists() for start in (ROOT, ROOT / "src" / "condvae", *beside))


@functools.cache
def resolves(name: str) -> bool:
    """Whether a dotted name is that of a module, or of something in one."""
    parts = name.split(".")
    for count in range(len(parts), 0, -1):
        try:
            found = importlib.import_module(".".join(parts[:count]))
        except ModuleNotFoundError:
            continue
        try:
            functools.reduce(getattr, parts[count:], found)
        except AttributeError:
            return False
        return True
    return False


def given(words: list[str]) -> list[str]:
    return [match[0] for word in words if (match := OPTION.match(word))]


def options(words: list[str]) -> set[str] | None:
    """Those that a command takes; None: there is no such verb, script or target."""
    if words[0] == "make":
        targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE)
        return set() if set(words[1:]) <= set(targets) else None
    if words[0] != "condvae":
        return accepted(words[0]) if words[0] in SCRIPTS else set() if (ROOT / words[0]).exists() else None
    verb: tuple[str, ...] = ()
    while subverbs := verbs(*verb):
        if words[1 + len(verb) :][:1] in ([], ["--version"]):
            break
        if words[1 + len(verb)] not in subverbs:
            return None
        verb = (*verb, words[1 + len(verb)])
    return accepted(*verb) | ({"--version"} if not verb else set())


@functools.cache
def helped(*words: str) -> str:
    """What --help says: of a script, or of condvae and its verbs; in this process, for torch takes long to import."""
    with mock.patch.dict(os.environ, COLUMNS="80"):
        if words[:1] and words[0] in SCRIPTS:
            return run(words[0], "--help").stdout
        return call(*words, "--help")


def verbs(*words: str) -> list[str]:
    """The verbs, or those of a verb that has some."""
    found = re.match(r"usage: [^\n{]*\{([\w,-]+)\}\n", helped(*words))
    return found[1].split(",") if found else []


def accepted(*words: str) -> set[str]:
    """The options in the first column of the help, not those in its sentences."""
    columns = re.findall(r"^(?:│ |  )(-.*?)  ", helped(*words), flags=re.MULTILINE)
    return {option for column in columns for option in OPTION.findall(column)}


@functools.cache
def every_option() -> set[str]:
    """Those of all verbs."""
    found = set().union(*(accepted(verb) for verb in verbs()))
    return found.union(*(accepted(verb, inner) for verb in verbs() for inner in verbs(verb)))


@pytest.mark.parametrize("names", [[name] for name in PAGES] + [SCRIPTS], ids=lambda names: names[0])
def test_whatever_a_page_names_is_there(names: list[str]) -> None:
    found = [f"{name}: {each}" for name in names for each in missing(name)]
    assert not found, "\n".join(found)


def test_what_is_not_there_is_noticed(tmp_path: Path) -> None:
    """On a page with one mistake of each kind."""
    page = """[gone](gone.md) [here](here.md#a-part) [there](here.md#gone) `recipes/gone.py`
    `vdvae/model.py` `vdvae/gone.py` `condvae.load`
    `condvae.gone.load` `condvae.weights.gone` `condvae design gone` `--gone` `--seed` `tests/docs`, `tests/gone`
    `make gone` `make test` `condvae complete a.png -n 8 --gone 3 --keep-size` `torchrun -m condvae train --gone=3`
```
condvae gone
python recipes/sheets.py --data a.zip --gone   # --not-asked
```
```python
from condvae import load, gone
```
"""
    (tmp_path / "here.md").write_text("## A part\n")
    (tmp_path / "page.md").write_text(page)
    found = "\n".join(missing(os.path.relpath(tmp_path / "page.md", ROOT)))
    assert [line for line in found.splitlines() if "gone" not in line] == []
    assert len(found.splitlines()) == 15, found
