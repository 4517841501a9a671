"""Faces for tests of `condvae complete --face`: a model with a card that says how faces are framed, and a detector."""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from helpers.pictures_to_complete import model_file
from PIL import Image

from condvae import faces
from condvae.faces import Face
from condvae.faces.face import MEAN_FRAMING, MEAN_LANDMARKS
from condvae.images.placement import Placement
from condvae.images.squares import in_picture
from condvae.weights.model_cards import ModelCard

FRAMING = MEAN_FRAMING._asdict()


def framed_model(folder: Path, framing: dict[str, float] = FRAMING) -> Path:
    """Write a small model for images of 8 x 8 pixels, with a card."""
    path = model_file(folder)
    write_card(path, framing)
    return path


def write_card(model: Path, framing: dict[str, float] = FRAMING) -> None:
    card = ModelCard("a model", "data", "limits", "use", "page", framing=framing)
    model.with_name(f"{model.stem}.card.json").write_text(json.dumps(card._asdict()))


def face_at(x: float, y: float, side: float, degrees: float = 0) -> Face:
    """The mean face, in the square with this centre and side, which is turned clockwise. Models see this square."""
    placement = Placement(x, y, side, degrees)
    return Face((x - side / 2, y - side / 2, side, side), in_picture(MEAN_LANDMARKS, placement), 0.99)


def finding(monkeypatch: pytest.MonkeyPatch, found: Sequence[Face]) -> list[tuple[int, int]]:
    """Replace the detector by one that always finds these faces; return a list to which it adds sizes of pictures."""
    seen: list[tuple[int, int]] = []

    def find_faces(picture: Image.Image) -> tuple[Face, ...]:
        seen.append(picture.size)
        return tuple(found)

    monkeypatch.setattr(faces, "find_faces", find_faces, raising=False)
    return seen
