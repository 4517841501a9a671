"""Model cards: what an embedded model is, its data, its limits and its intended use, in a few sentences."""

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from condvae.runtime.json_reading import read_json_file


class ModelCard(NamedTuple):
    """The text of NAME.card.json, which is next to NAME.safetensors in the package."""

    summary: str
    """What the model is, in one sentence."""
    data: str
    """Who and what is in the data, how it was split, and its terms of use."""
    limits: str
    """What the model cannot do."""
    use: str
    """What the model is for, and what it must not be used for."""
    page: str
    """The path, in the repository, of the page with the full model card."""
    subject: str = ""
    """What an image for this model should show, in words that follow "crop it to"."""
    framing: Mapping[str, float] | None = None
    """For a model of faces, where the eyes are in its training images: "eyes", their distance, and "x" and "y", the
    middle between them, as shares of the image's side. With it, `condvae complete --face` finds faces in photos."""


def card_at(model: Path) -> ModelCard | None:
    """Return the card that is stored next to a model file; None if there is none."""
    path = model.with_name(f"{model.stem}.card.json")
    return ModelCard(**read_json_file(path)) if path.is_file() else None
