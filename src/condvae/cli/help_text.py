"""Set the help texts of options, from their docstrings or from texts that list registered names."""

import ast
import dataclasses
import functools
import inspect
import itertools
import sys
import types
import typing
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, TypeVar, get_args, get_origin

import tyro

T = TypeVar("T")

_METAVARS: dict[type, str] = {int: "N", float: "NUMBER", str: "NAME", Path: "PATH"}


def explained(**texts: str) -> Callable[[type[T]], type[T]]:
    """Return a decorator for the dataclass of a verb, which sets the help texts of its options.

    texts: {field: help}, for help texts that list names from a registry. All other options keep their docstrings as
    help. The lines of a paragraph are joined, because tyro would show some line breaks of the source. An option whose
    default is None or empty is shown as optional, and its type without None.
    """

    def decorate(kind: type[T]) -> type[T]:
        fields = {field.name: field for field in dataclasses.fields(kind)}  # type: ignore[arg-type]
        if unknown := sorted(set(texts) - set(fields)):
            raise TypeError(f"{kind.__name__} has no field {unknown[0]}, for which a help text was given")
        hints = typing.get_type_hints(kind, include_extras=True)
        docs = _docstrings(kind)
        for name, field in fields.items():
            given = [
                extra for extra in getattr(hints[name], "__metadata__", ()) if hasattr(extra, "help_behavior_hint")
            ]
            config: dict[str, Any] = {}
            if name in texts:
                config["help"] = texts[name]
            elif name in docs and not any(extra.help for extra in given):
                config["help"] = docs[name]
            if field.default in (None, ()) and not any(extra.help_behavior_hint for extra in given):
                config["help_behavior_hint"] = _default_hint
            if not any(extra.metavar for extra in given) and (metavar := _metavar(hints[name])):
                config["metavar"] = metavar
            if config:
                kind.__annotations__[name] = Annotated[hints[name], tyro.conf.arg(**config)]
        paragraphs = (inspect.getdoc(kind) or "").split("\n\n")
        kind.__doc__ = "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)
        return kind

    return decorate


def described(meanings: Mapping[Any, str]) -> str:
    """Join names and their meanings as in "a (first letter), b (second letter)"."""
    return ", ".join(f"{name} ({meaning})" for name, meaning in meanings.items())


def _default_hint(default: str) -> str:
    """Return the words after a help text: the default that a preset has set, or "(optional)" if there is no default."""
    return "(optional)" if default in ("None", "") else f"(default: {default})"


def _docstrings(kind: type) -> dict[str, str]:
    """Return the docstring below each field of a dataclass and of its bases, as one paragraph."""
    found: dict[str, str] = {}
    for base in reversed(kind.__mro__[:-1]):
        for field, text in itertools.pairwise(_classes(base.__module__)[base.__name__].body):
            if not (isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)):
                continue
            if isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant):
                found[field.target.id] = " ".join(str(text.value.value).split())
    return found


@functools.cache
def _classes(module: str) -> dict[str, ast.ClassDef]:
    """Return the classes of a module as syntax trees, by name. Each module is parsed only once."""
    tree = ast.parse(inspect.getsource(sys.modules[module]))
    return {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}


def _metavar(hint: Any) -> str | None:
    """Return the placeholder for the value of an optional option, such as N for `int | None`."""
    while get_origin(hint) is Annotated:
        hint = get_args(hint)[0]
    if get_origin(hint) not in (typing.Union, types.UnionType):
        return None
    kinds = [kind for kind in get_args(hint) if kind is not type(None)]
    if len(kinds) == 1 and get_origin(kinds[0]) is typing.Literal:
        return "{" + ",".join(map(str, get_args(kinds[0]))) + "}"
    return _METAVARS.get(kinds[0]) if len(kinds) == 1 else None


def first_paragraph(kind: type) -> str:
    """Return the first paragraph of a class's docstring as one line."""
    return " ".join((inspect.getdoc(kind) or "").partition("\n\n")[0].split())
