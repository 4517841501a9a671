"""How words of the command line become values of options, where this differs from what tyro does."""

import itertools
import os
import re
import types
from dataclasses import replace
from typing import Any, Literal, Union, get_args, get_origin

from tyro.constructors import ConstructorRegistry, PrimitiveConstructorSpec, PrimitiveTypeInfo

from condvae.runtime.messages import short

OPTION_VALUES = ConstructorRegistry()
"""Rules for the types of options. Use it in a `with` block around `tyro.cli`."""

_WHOLE = re.compile("-?[0-9]+,?")
_NUMBER = re.compile(r"-?[0-9]+(\.[0-9]+)?")


@OPTION_VALUES.primitive_rule
def _without_none(option: PrimitiveTypeInfo) -> PrimitiveConstructorSpec[Any] | None:
    """Read an option of type `X | None` as an X, since None means that the option was left out.

    By itself, tyro would take the word None, and offer it in messages. It would also list the choices of several
    `Literal` types in random order.
    """
    if option.type_origin not in (Union, types.UnionType):
        return None
    kinds = [kind for kind in get_args(option.type) if kind is not type(None)]
    if all(get_origin(kind) is Literal for kind in kinds):
        kinds = [Literal[tuple(choice for kind in kinds for choice in get_args(kind))]]
    if len(kinds) > 1:
        return None
    spec = ConstructorRegistry.get_primitive_spec(PrimitiveTypeInfo.make(kinds[0], option.markers))
    if not isinstance(spec, PrimitiveConstructorSpec):
        return None
    return replace(
        spec,
        is_instance=lambda value: value is None or spec.is_instance(value),
        str_from_instance=lambda value: ["None"] if value is None else spec.str_from_instance(value),
    )


@OPTION_VALUES.primitive_rule
def _whole_number(option: PrimitiveTypeInfo) -> PrimitiveConstructorSpec[int] | None:
    """Read a whole number like tyro, but with a message in plain words if the word is no whole number."""
    if option.type is not int:
        return None

    def read(words: list[str]) -> int:
        try:
            return int(words[0])
        except ValueError:
            raise ValueError(f"{short(words[0])} is not a whole number") from None

    return PrimitiveConstructorSpec(
        nargs=1,
        metavar="INT",
        instance_from_str=read,
        is_instance=lambda value: isinstance(value, int),
        str_from_instance=lambda value: [str(value)],
    )


def fill_in_face(arguments: list[str]) -> list[str]:
    """Give --face of `condvae complete` the value 1, the largest face, if no value follows it.

    The next word is its value if it is a number or all. Any other word is the name of an image, unless it does not look
    like one; then it is taken as the value, so that the message is about --face.
    """
    if arguments[:1] != ["complete"]:
        return arguments
    words: list[str] = []
    for word, after in itertools.pairwise([*arguments, ""]):
        if words and words[-1] == "--face":
            words[-1] = f"--face={word}"
        elif word != "--face" or _is_face(after):
            words.append(word)
        else:
            words.append("--face=1")
    return words


def _is_face(word: str) -> bool:
    """Return whether the word after --face is its value."""
    looks_like_file = not word or word.startswith("-") or "." in word or os.sep in word or os.path.exists(word)
    return word == "all" or bool(_NUMBER.fullmatch(word)) or not looks_like_file


def join_boxes(arguments: list[str]) -> list[str]:
    """Join the numbers after --box to one word, so that `--box 10 10 20 20` is the same as `--box 10,10,20,20`."""
    if "--box" not in arguments:
        return arguments
    at = arguments.index("--box") + 1
    numbers = list(itertools.takewhile(_WHOLE.fullmatch, arguments[at : at + 4]))
    box = ["=".join(["--box", ",".join(number.rstrip(",") for number in numbers)])] if numbers else ["--box"]
    return [*arguments[: at - 1], *box, *join_boxes(arguments[at + len(numbers) :])]
