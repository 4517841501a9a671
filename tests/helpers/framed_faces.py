"""Faces for tests of `condvae complete --face`: a model with a card that says how faces are framed, and a detector."""

import json
import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from helpers.pictures_to_complete import model_file
from PIL import Image

from condvae import faces
from condvae.faces import Face
from condvae.weights.model_cards import ModelCard

FRAMING = {"eyes": 0.4, "x": 0.5, "y": 0.3}


def framed_model(folder: Path) -> Path:
    """Write a small model for images of 8 x 8 pixels, with a card."""
    path = model_file(folder)
    card = ModelCard("a model", "data", "limits", "use", "page", framing=FRAMING)
    path.with_name("model.card.json").write_text(json.dumps(card._asdict()))
    return path


def face_at(x: float, y: float, eyes: float, degrees: float = 0) -> Face:
    """A face whose eyes have this middle and distance; it is turned clockwise."""
    cos, sin = math.cos(math.radians(degrees)), math.sin(math.radians(degrees))
    offsets = np.array([(-0.5, 0), (0.5, 0), (0, 0.6), (-0.4, 1.1), (0.4, 1.1)]) * eyes
    landmarks = offsets @ np.array([[cos, sin], [-sin, cos]]) + (x, y)
    return Face((x - eyes, y - eyes, 2 * eyes, 3 * eyes), landmarks, 0.99)


def finding(monkeypatch: pytest.MonkeyPatch, found: Sequence[Face]) -> list[tuple[int, int]]:
    """Replace the detector by one that always finds these faces; return a list to which it adds sizes of pictures."""
    seen: list[tuple[int, int]] = []

    def find_faces(picture: Image.Image) -> tuple[Face, ...]:
        seen.append(picture.size)
        return tuple(found)

    monkeypatch.setattr(faces, "find_faces", find_faces, raising=False)
    return seen
