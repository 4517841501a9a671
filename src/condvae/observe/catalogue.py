"""Every observation process by its name: from stored settings and from the command line, and back."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from condvae.observe.freeform import Freeform
from condvae.observe.process import KnownPixels, Process
from condvae.observe.regions import Boxes, Halves, Mixture, Nothing, Patches, Pixels
from condvae.observe.translations import Edges, Grey, Label, LowResolution, Paired

PROCESSES: dict[str, type[Process]] = {
    process.name: process
    for process in (
        Freeform,
        Patches,
        Boxes,
        Halves,
        Pixels,
        Nothing,
        Edges,
        Grey,
        LowResolution,
        Label,
        Paired,
        Mixture,
    )
}


def from_dict(plain: Mapping[str, Any]) -> Process:
    """The process that `to_dict` wrote; an unknown name or key is an error that names it."""
    if not isinstance(plain, Mapping) or "name" not in plain:
        raise ValueError(f"an observation process is {plain!r}, expected named values, its name among them")
    fields = {key: value for key, value in plain.items() if key != "name"}
    process = _named(plain["name"])
    if process is Mixture and isinstance(fields.get("parts"), Sequence):
        fields["parts"] = tuple(_part(part) for part in fields["parts"])
    return process.from_fields(fields)


def parse(specs: str | Sequence[str]) -> Process:
    """The process of `name[,key=value]...`; several make a mixture, with key `weight` for how often each is drawn.

    ["freeform,low=0.2,high=0.8"]; ["freeform,weight=2", "boxes", "halves"]; or all of them in one text with spaces.
    """
    specs = specs.split() if isinstance(specs, str) else list(specs)
    if not specs:
        raise ValueError(f"no observation process was given, expected one or more of {', '.join(_plain_names())}")
    if len(specs) == 1:
        process, weight = _parse_one(specs[0])
        if weight is not None:
            raise ValueError(f"{specs[0]!r} gives a weight to a single process, expected several to weigh")
        return process
    parts = []
    for spec in specs:
        process, weight = _parse_one(spec)
        if not isinstance(process, KnownPixels):
            raise ValueError(f"{process.name} cannot be mixed with others, expected processes that show pixels of x")
        parts.append((process, 1.0 if weight is None else weight))
    return Mixture(parts=tuple(parts))


def describe(process: Process) -> str:
    """One line of text that `parse` reads back; parameters with their usual values are left out."""
    if isinstance(process, Mixture):
        return " ".join(_text(part, () if weight == 1 else (f"weight={weight}",)) for part, weight in process.parts)
    return _text(process, ())


def _text(process: Process, more: tuple[str, ...]) -> str:
    values = {field.name: (getattr(process, field.name), field.default) for field in _fields(type(process))}
    changed = (f"{name}={value}" for name, (value, usual) in values.items() if value != usual)
    return ",".join((process.name, *changed, *more))


def _parse_one(spec: str) -> tuple[Process, float | None]:
    name, *settings = spec.split(",")
    process = _named(name)
    if process is Mixture:
        raise ValueError("'mixture' is no process to name, expected the processes to be mixed, one after the other")
    kinds: dict[str, Any] = {field.name: field.type for field in _fields(process)} | {"weight": float}
    values: dict[str, Any] = {}
    for setting in settings:
        key, equals, text = setting.partition("=")
        if not equals:
            raise ValueError(f"{setting!r} in {spec!r} is no setting, expected key=value")
        if key in values:
            raise ValueError(f"{key} stands twice in {spec!r}, expected it once")
        kind = kinds.get(key, str)  # an unknown key is named by from_fields
        try:
            values[key] = kind(text)
        except ValueError:
            number = "a whole number" if kind is int else "a number"
            raise ValueError(f"{key} is {text!r} in {spec!r}, expected {number}") from None
    weight = values.pop("weight", None)
    return process.from_fields(values), weight


def _part(plain: object) -> tuple[Process, float]:
    if not isinstance(plain, Mapping) or set(plain) != {"process", "weight"}:
        raise ValueError(f"a part of a mixture is {plain!r}, expected a process and a weight")
    return from_dict(plain["process"]), plain["weight"]


def _named(name: object) -> type[Process]:
    if not isinstance(name, str) or name not in PROCESSES:
        raise ValueError(f"unknown observation process {name!r}, expected one of {', '.join(_plain_names())}")
    return PROCESSES[name]


def _fields(process: type[Process]) -> tuple[dataclasses.Field[Any], ...]:
    return dataclasses.fields(process)  # type: ignore[arg-type]


def _plain_names() -> list[str]:
    return [name for name in PROCESSES if name != Mixture.name]
