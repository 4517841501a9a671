"""The verbs of the command line, and what their help says of each option."""

import dataclasses
import functools
import typing
import warnings
from typing import Any, get_args

import tyro

from condvae.cli import VERBS
from condvae.cli.design import Design
from condvae.cli.ood import OOD


def verbs() -> dict[str, type]:
    """Every verb and sub-verb."""
    found = {word: kind for word, kind in VERBS.items() if kind not in (Design, OOD)}
    for word, group in (("design", Design), ("ood", OOD)):
        choices = typing.get_type_hints(group, include_extras=True)["job"]
        for choice in get_args(get_args(choices)[0]):
            kind, command = get_args(choice)
            found[f"{word} {command.name}"] = kind
    return found


@functools.cache
def options(kind: type) -> dict[str, dict[str, Any]]:
    """{option: its type, default, help, and help with the default} of a verb."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        actions = tyro.extras.get_parser(kind)._actions
    helps = {
        word.removeprefix("--"): action.help for action in actions for word in action.option_strings or [action.dest]
    }
    annotated, plain = typing.get_type_hints(kind, include_extras=True), typing.get_type_hints(kind)
    found: dict[str, dict[str, Any]] = {}
    for field in dataclasses.fields(kind):
        extras = get_args(annotated[field.name])[1:] if hasattr(annotated[field.name], "__metadata__") else ()
        named = [extra.name for extra in extras if getattr(extra, "name", None)]
        option = named[0] if named else field.name.replace("_", "-")
        if option == "n":
            assert "-n" in {word for action in actions for word in action.option_strings}
        whole = " ".join(str(helps[option]).split()).replace("%%", "%")
        found[option] = {
            "type": plain[field.name],
            "default": field.default,
            "help": whole.partition(" (default:")[0],
            "whole help": whole,
        }
    return found
