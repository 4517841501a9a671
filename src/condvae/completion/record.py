"""The record of a call of `condvae complete`: its settings, files and software versions.

With the record, the call can be repeated.
"""

import math
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from condvae.completion.face_squares import described_square, recorded_square
from condvae.completion.settings import CompletionSettings
from condvae.images.face_parts import FaceSquare
from condvae.images.holes import Hole
from condvae.images.picture_formats import PictureFormat, check_picture_format
from condvae.images.recorded_files import COMPLETIONS, RECORD
from condvae.runtime.checks import strict
from condvae.runtime.fingerprints import FileId
from condvae.runtime.json_reading import read_json_file
from condvae.runtime.messages import printable, reason_of, short, shown
from condvae.runtime.versions import versions
from condvae.weights.cached_models import ModelId

_ABSENT: dict[str, Any] = {
    "picture_format": "png",
    "hard_edges": True,
    "same_noise": True,
    "white": 65_535,
    "image_is": "photo",
}
"""Values of settings that records of earlier versions lack: what those versions did."""


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
    faces: tuple[FaceSquare, ...] = ()
    """The faces that were completed, in order of size; none if the middle square was completed."""

    def described(self, folder: Path) -> dict[str, Any]:
        """Return the entry of the image in a record that is written to `folder`."""
        named = (None if file is None else file.described(folder) for file in (self.file, self.hole_file))
        found = {"faces": [described_square(face) for face in self.faces]} if self.faces else {}
        return {**dict(zip(("image", "hidden_by"), named, strict=True)), **found, "outputs": list(self.outputs)}


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
    picture_format: PictureFormat
    notes: tuple[str, ...]
    """Messages for the user about software versions that have changed since the record was written."""


def described(folder: Path, made: Provenance, picture_format: PictureFormat) -> dict[str, Any]:
    """Return how completions were made, for the record. Paths are relative to `folder`, where the record is written."""
    return {
        "model": None if made.model is None else made.model.described(folder),
        "hidden": made.hole.to_dict(),
        **{name: value for name, value in asdict(made.settings).items() if name != "face" or value is not None},
        "picture_format": picture_format,
        "device": made.device,
        "precision": made.precision,
    }


def read_record(path: Path) -> CallRecord:
    """Read the record of a call, but not the images and the model that the record names."""
    if path.is_dir():
        path = path / RECORD
    name = printable(path)
    if path.exists() and not path.is_file():  # reading a pipe or a device could block for ever
        raise ValueError(f"{name} is not a regular file, expected a {RECORD} written by condvae complete")
    try:
        plain = read_json_file(path)
    except OSError as error:
        raise ValueError(f"{name} cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise ValueError(
            f"{name} is not valid JSON ({reason_of(error)}), expected a {RECORD} written by condvae complete"
        ) from error
    if not isinstance(plain, dict) or plain.get("format") != COMPLETIONS.format:
        raise ValueError(f"{name} is not a record of completions, expected a {RECORD} written by condvae complete")
    if plain.get("format_version") not in (1, COMPLETIONS.version):
        raise ValueError(
            f"{name} has format version {shown(plain.get('format_version'))}, but this version of condvae reads only "
            f"format versions up to {COMPLETIONS.version}"
        )
    try:
        return _recorded(plain, path)
    except (AttributeError, KeyError, OverflowError, TypeError) as error:
        raise ValueError(f"{name} is damaged ({type(error).__name__}: {reason_of(error)})") from error


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
    known = {"face": None, **_ABSENT, **plain}
    settings = strict(
        CompletionSettings, {field.name: known[field.name] for field in fields(CompletionSettings)}, where="record"
    )
    check_picture_format(known["picture_format"], keep_size=settings.keep_size)
    numbers = settings.temperature if isinstance(settings.temperature, list) else [settings.temperature]
    if not all(isinstance(number, int | float) and math.isfinite(number) for number in numbers):
        raise ValueError(
            f"{name} is damaged: its temperature is {shown(settings.temperature)}, expected finite numbers"
        )
    box = tuple(hidden["box"]) if "box" in hidden else None
    # The real paths are in each image's entry; this placeholder only marks that `known` or `hole` was used.
    pictures: dict[str, Any] = {hidden["way"]: Path()} if by_picture else {}
    fit_mask = hidden.get("fit_mask", False)
    hole = Hole(
        **pictures,
        box=box,
        half=hidden.get("half"),
        part=hidden.get("part"),
        random=hidden["way"] == "random",
        fit_mask=fit_mask,
    )
    images = tuple(
        RecordedImage(
            file=found(e["image"]),
            hole_file=found(e["hidden_by"]),
            outputs=tuple(e["outputs"]),
            faces=tuple(recorded_square(face) for face in e.get("faces", ())),
        )
        for e in plain["images"]
    )
    if not images:
        raise ValueError(f"{name} is damaged: it lists no images")
    if hole.way != hidden["way"] or any((entry.hole_file is None) == by_picture for entry in images):
        raise ValueError(
            f"{name} is damaged: its entries contradict each other about how the hidden pixels were defined"
        )
    if any(bool(entry.faces) != (settings.face is not None) for entry in images):
        raise ValueError(f"{name} is damaged: its entries contradict each other about faces")
    was, now = plain["versions"], versions()
    changed = [f"{key} {short(str(was.get(key)))} (here {now[key]})" for key in now if was.get(key) != now[key]]
    notes = [f"{name} was made with {', '.join(changed)}: pixels may differ"] if changed else []
    if any(field not in plain for field in _ABSENT):
        notes.append(f"{name} is from an older condvae: the headings of its contact sheets are drawn as today")
    return CallRecord(
        settings=settings,
        hole=hole,
        model=_text(model["name"]) if "name" in model else _path(folder, model["path"]),
        model_sha256=_text(model["sha256"]),
        images=images,
        device=_text(plain["device"]),
        picture_format=known["picture_format"],
        notes=tuple(notes),
    )


def _path(folder: Path, relative: object) -> Path:
    return Path(os.path.normpath(folder / _text(relative)))


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"found {shown(value)} where text was expected")
    return value
