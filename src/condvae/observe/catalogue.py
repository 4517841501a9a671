"""All observation processes by name, and functions that read and write them as plain data or command-line text."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from condvae.observe.freeform import Freeform
from condvae.observe.process import KnownPixels, Process
from condvae.observe.regions import Boxes, Halves, Mixture, Nothing, Patches, Pixels
from condvae.observe.translations import Edges, Grey, Label, LowResolution, Paired
from condvae.runtime.messages import short, shown

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
    """Make an observation process from the plain data of `to_dict`; raise ValueError for an unknown name or key."""
    if not isinstance(plain, Mapping) or "name" not in plain:
        raise ValueError(f"the observation process is {shown(plain)}, expected a mapping with the key name")
    fields = {key: value for key, value in plain.items() if key != "name"}
    process = _named(plain["name"])
    if process is Mixture and isinstance(fields.get("parts"), Sequence):
        fields["parts"] = tuple(_part(part) for part in fields["parts"])
    return process.from_fields(fields)


def parse(specs: str | Sequence[str]) -> Process:
    """Make an observation process from text such as "name,key=value".

    Several texts make a mixture of processes, in which the key `weight` sets how often each process is chosen.

    Examples: ["freeform,low=0.2,high=0.8"], or ["freeform,weight=2", "boxes", "halves"], or one text with spaces
    between the processes.
    """
    specs = specs.split() if isinstance(specs, str) else list(specs)
    if not specs:
        raise ValueError(f"no observation process was given, expected one or more of {', '.join(_plain_names())}")
    if len(specs) == 1:
        process, weight = _parse_one(specs[0])
        if weight is not None:
            raise ValueError(f"{specs[0]!r} sets a weight for the only process: leave the weight out, or add processes")
        return process
    parts = []
    for spec in specs:
        process, weight = _parse_one(spec)
        if not isinstance(process, KnownPixels):
            raise ValueError(f"{process.name} cannot be in a mixture, expected processes with known pixels, like boxes")
        parts.append((process, 1.0 if weight is None else weight))
    return Mixture(parts=tuple(parts))


def describe(process: Process) -> str:
    """Describe a process in one line of text that `parse` can read; parameters with default values are left out."""
    if isinstance(process, Mixture):
        return " ".join(_text(part, () if weight == 1 else (f"weight={weight}",)) for part, weight in process.parts)
    return _text(process, ())


def _text(process: Process, more: tuple[str, ...]) -> str:
    values = {field.name: (getattr(process, field.name), field.default) for field in _fields(type(process))}
    changed = (f"{name}={value}" for name, (value, default) in values.items() if value != default)
    return ",".join((process.name, *changed, *more))


def _parse_one(spec: str) -> tuple[Process, float | None]:
    name, *settings = spec.split(",")
    process = _named(name)
    if process is Mixture:
        raise ValueError("'mixture' cannot be given by name: list the processes to mix, such as 'freeform boxes'")
    kinds: dict[str, Any] = {field.name: field.type for field in _fields(process)} | {"weight": float}
    values: dict[str, Any] = {}
    for setting in settings:
        key, equals, text = setting.partition("=")
        if not equals:
            raise ValueError(f"{setting!r} in {spec!r} cannot be read, expected key=value")
        if key in values:
            raise ValueError(f"{key} is given twice in {spec!r}: give it once")
        if key not in kinds:
            raise ValueError(
                f"unknown key in observation process {process.name}: {short(key)}; expected keys are {', '.join(kinds)}"
            )
        kind = kinds[key]
        try:
            values[key] = kind(text)
        except ValueError:
            number = "a whole number" if kind is int else "a number"
            raise ValueError(f"{key} is {text!r} in {spec!r}, expected {number}") from None
    weight = values.pop("weight", None)
    return process.from_fields(values), weight


def _part(plain: object) -> tuple[Process, float]:
    if not isinstance(plain, Mapping) or set(plain) != {"process", "weight"}:
        raise ValueError(
            f"a part of the mixture is {shown(plain)}, expected a mapping with the keys process and weight"
        )
    return from_dict(plain["process"]), plain["weight"]


def _named(name: object) -> type[Process]:
    if not isinstance(name, str) or name not in PROCESSES:
        raise ValueError(f"unknown observation process {shown(name)}, expected one of {', '.join(_plain_names())}")
    return PROCESSES[name]


def _fields(process: type[Process]) -> tuple[dataclasses.Field[Any], ...]:
    return dataclasses.fields(process)  # type: ignore[arg-type]


def _plain_names() -> list[str]:
    return [name for name in PROCESSES if name != Mixture.name]
