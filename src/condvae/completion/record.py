"""The record of a call of `condvae complete`: its settings, files and software versions.

With the record, the call can be repeated.
"""

import json
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from condvae.completion.settings import CompletionSettings
from condvae.images.holes import Hole
from condvae.images.reading import printable
from condvae.runtime.checks import strict
from condvae.runtime.fingerprints import FileId
from condvae.runtime.versions import versions
from condvae.weights.cached_models import ModelId

RECORD = "record.json"
_FORMAT, _VERSION = "condvae completions", 1


@dataclass(frozen=True, kw_only=True, eq=False)
class Provenance:
    """How the completions of a call were made. This is the same for all images of the call."""

    settings: CompletionSettings
    hole: Hole
    model: ModelId | None
    """The name and file of the model; None if the model was given as an object."""
    device: str
    precision: str


@dataclass(frozen=True, kw_only=True)
class RecordedImage:
    """One image of a call: its file, the file that defined its hidden pixels, and its output files."""

    file: FileId | None
    """The file of the image; None if the image was given as an object."""
    hole_file: FileId | None
    outputs: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class CallRecord:
    """The contents of a record file: everything needed to repeat the call."""

    settings: CompletionSettings
    hole: Hole
    """How the hidden pixels were defined. If pictures defined them, the file for each image is in `images`."""
    model: str | Path
    model_sha256: str
    images: tuple[RecordedImage, ...]
    device: str
    notes: tuple[str, ...]
    """Messages for the user about software versions that have changed since the record was written."""


def to_text(folder: Path, made: Provenance, images: Sequence[RecordedImage], sheets: Sequence[str]) -> str:
    """Return the record of a call as JSON, with paths relative to `folder`, to which the record is written."""

    def named(file: FileId | None) -> dict[str, str] | None:
        return None if file is None else {"path": _relative(file.path, folder), "sha256": file.sha256}

    def which(model: ModelId) -> dict[str, str]:
        found = {"name": model.name} if model.by_name else {"path": _relative(model.file.path, folder)}
        return {**found, "sha256": model.file.sha256}

    plain: dict[str, Any] = {
        "format": _FORMAT,
        "format_version": _VERSION,
        "model": None if made.model is None else which(made.model),
        "hidden": made.hole.to_dict(),
        **asdict(made.settings),
        "device": made.device,
        "precision": made.precision,
        "versions": versions(),
        "images": [
            {"image": named(entry.file), "hidden_by": named(entry.hole_file), "outputs": list(entry.outputs)}
            for entry in images
        ],
        "sheets": list(sheets),
    }
    return json.dumps(plain, indent=1) + "\n"


def outputs_of(path: Path) -> list[str]:
    """Return the file names of the output pictures that a record lists; an empty list if no record can be read."""
    if not path.is_file():  # reading a pipe could block for ever
        return []
    try:
        plain = json.loads(path.read_text())
        if plain["format"] != _FORMAT:
            return []
        names = [name for entry in plain["images"] for name in entry["outputs"]] + plain["sheets"]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return []
    return [name for name in names if isinstance(name, str) and name == Path(name).name and name.endswith(".png")]


def read_record(path: Path) -> CallRecord:
    """Read the record of a call, but not the images and the model that the record names."""
    if path.is_dir():
        path = path / RECORD
    name = printable(path)
    if path.exists() and not path.is_file():  # reading a pipe or a device could block for ever
        raise ValueError(f"{name} is not a regular file, expected a {RECORD} written by condvae complete")
    try:
        plain = json.loads(path.read_text())
    except OSError as error:
        raise ValueError(f"{name} cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{name} is not valid JSON, expected a {RECORD} written by condvae complete") from error
    if not isinstance(plain, dict) or plain.get("format") != _FORMAT:
        raise ValueError(f"{name} is not a record of completions, expected a {RECORD} written by condvae complete")
    if plain.get("format_version") != _VERSION:
        raise ValueError(
            f"{name} has format version {plain.get('format_version')}, but this version of condvae reads only format "
            f"version {_VERSION}"
        )
    try:
        return _recorded(plain, path)
    except (AttributeError, KeyError, TypeError) as error:
        raise ValueError(f"{name} is damaged ({type(error).__name__}: {printable(str(error))})") from error


def _recorded(plain: dict[str, Any], path: Path) -> CallRecord:
    folder, name = path.parent, printable(path)
    by_picture = plain["hidden"]["way"] in ("known", "hole")
    needed = ("image", "hidden_by") if by_picture else ("image",)
    if plain["model"] is None or any(image[key] is None for image in plain["images"] for key in needed):
        raise ValueError(
            f"the call of {name} cannot be repeated, because its model or its pictures were given as Python objects, "
            "not as files: repeat the call in Python"
        )

    def found(file: Mapping[str, str] | None) -> FileId | None:
        return None if file is None else FileId(_path(folder, file["path"]), _text(file["sha256"]))

    model, hidden = plain["model"], plain["hidden"]
    fields = ("n", "temperature", "seed", "pixels", "share", "keep_size")
    values = {**{field: plain[field] for field in fields}, "white": plain.get("white")}  # old records have no white
    settings = strict(CompletionSettings, values, where="record")
    numbers = settings.temperature if isinstance(settings.temperature, list) else [settings.temperature]
    if not all(isinstance(number, int | float) and math.isfinite(number) for number in numbers):
        raise ValueError(f"{name} is damaged: its temperature is {settings.temperature!r}, expected finite numbers")
    box = tuple(hidden["box"]) if "box" in hidden else None
    # The real paths are in each image's entry; this placeholder only marks that `known` or `hole` was used.
    pictures = {hidden["way"]: Path()} if by_picture else {}
    hole = Hole(**pictures, box=box, half=hidden.get("half"), random=hidden["way"] == "random")
    images = tuple(
        RecordedImage(file=found(e["image"]), hole_file=found(e["hidden_by"]), outputs=tuple(e["outputs"]))
        for e in plain["images"]
    )
    if not images:
        raise ValueError(f"{name} is damaged: it lists no images")
    if hole.way != hidden["way"] or any((entry.hole_file is None) == by_picture for entry in images):
        raise ValueError(
            f"{name} is damaged: its entries contradict each other about how the hidden pixels were defined"
        )
    was, now = plain["versions"], versions()
    changed = [f"{key} {was.get(key)} (here {now[key]})" for key in now if was.get(key) != now[key]]
    return CallRecord(
        settings=settings,
        hole=hole,
        model=_text(model["name"]) if "name" in model else _path(folder, model["path"]),
        model_sha256=_text(model["sha256"]),
        images=images,
        device=_text(plain["device"]),
        notes=(f"{name} was made with {', '.join(changed)}: pixels may differ",) if changed else (),
    )


def _path(folder: Path, relative: object) -> Path:
    return Path(os.path.normpath(folder / _text(relative)))


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"found {value!r} where text was expected")
    return value


def _relative(path: Path, folder: Path) -> str:
    try:
        return Path(os.path.relpath(os.path.realpath(path), os.path.realpath(folder))).as_posix()
    except ValueError:  # on another drive
        return Path(os.path.realpath(path)).as_posix()
