"""The record of a call: what it was asked, of which files and with which versions, so that it can be repeated."""

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
    """What completions were made with: the same for all images of a call."""

    settings: CompletionSettings
    hole: Hole
    model: ModelId | None
    """None: a model in memory."""
    device: str
    precision: str


@dataclass(frozen=True, kw_only=True)
class RecordedImage:
    """One image of a call."""

    file: FileId | None
    """None: it was given in memory."""
    hole_file: FileId | None
    outputs: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class CallRecord:
    """A record that was read: all that a call needs."""

    settings: CompletionSettings
    hole: Hole
    """Pictures of what is hidden stand with the images."""
    model: str | Path
    model_sha256: str
    images: tuple[RecordedImage, ...]
    device: str
    notes: tuple[str, ...]
    """What is different today."""


def to_text(folder: Path, made: Provenance, images: Sequence[RecordedImage], sheets: Sequence[str]) -> str:
    """The record of a call whose pictures are in a folder, as JSON; paths are relative to the folder."""

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
    """Names of the pictures that a record lists; none where there is no record that can be read."""
    if not path.is_file():  # a pipe would keep us waiting
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
    """What is needed to repeat a call; files are looked for, not read."""
    if path.is_dir():
        path = path / RECORD
    name = printable(path)
    if path.exists() and not path.is_file():  # a pipe, or a device without an end
        raise ValueError(f"{name} is no regular file, expected the {RECORD} of condvae complete")
    try:
        plain = json.loads(path.read_text())
    except OSError as error:
        raise ValueError(f"{name} cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{name} is no record of completions: it is not JSON") from error
    if not isinstance(plain, dict) or plain.get("format") != _FORMAT:
        raise ValueError(f"{name} is no record of completions, expected the {RECORD} of condvae complete")
    if plain.get("format_version") != _VERSION:
        raise ValueError(f"{name} has format version {plain.get('format_version')}, this condvae reads {_VERSION}")
    try:
        return _recorded(plain, path)
    except (AttributeError, KeyError, TypeError) as error:
        raise ValueError(f"{name} is damaged: {type(error).__name__} at {printable(str(error))}") from error


def _recorded(plain: dict[str, Any], path: Path) -> CallRecord:
    folder, name = path.parent, printable(path)
    by_picture = plain["hidden"]["way"] in ("known", "hole")
    needed = ("image", "hidden_by") if by_picture else ("image",)
    if plain["model"] is None or any(image[key] is None for image in plain["images"] for key in needed):
        raise ValueError(f"{name} is of a model or pictures that were in memory: it can be repeated in Python alone")

    def found(file: Mapping[str, str] | None) -> FileId | None:
        return None if file is None else FileId(_path(folder, file["path"]), _text(file["sha256"]))

    model, hidden = plain["model"], plain["hidden"]
    fields = ("n", "temperature", "seed", "pixels", "share", "keep_size")
    settings = strict(CompletionSettings, {field: plain[field] for field in fields}, where="record")
    numbers = settings.temperature if isinstance(settings.temperature, list) else [settings.temperature]
    if not all(isinstance(number, int | float) and math.isfinite(number) for number in numbers):
        raise ValueError(f"{name} is damaged: its temperature is {settings.temperature!r}")
    box = tuple(hidden["box"]) if "box" in hidden else None
    # Pictures are read per image; here they only say which way it was.
    pictures = {hidden["way"]: Path()} if by_picture else {}
    hole = Hole(**pictures, box=box, half=hidden.get("half"), random=hidden["way"] == "random")
    images = tuple(
        RecordedImage(file=found(e["image"]), hole_file=found(e["hidden_by"]), outputs=tuple(e["outputs"]))
        for e in plain["images"]
    )
    if not images:
        raise ValueError(f"{name} is damaged: it lists no images")
    if hole.way != hidden["way"] or any((entry.hole_file is None) == by_picture for entry in images):
        raise ValueError(f"{name} is damaged: it does not say in one way what was hidden")
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
        raise TypeError(f"{value!r}, expected text")
    return value


def _relative(path: Path, folder: Path) -> str:
    try:
        return Path(os.path.relpath(os.path.realpath(path), os.path.realpath(folder))).as_posix()
    except ValueError:  # on another drive
        return Path(os.path.realpath(path)).as_posix()
