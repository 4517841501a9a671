"""Model cards: what an embedded model is, its data, its limits and its intended use, in a few sentences."""

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from condvae.runtime.json_reading import read_json_file
from condvae.runtime.messages import reason_of, shown


class ModelCard(NamedTuple):
    """The text of NAME.card.json, which is next to NAME.safetensors in the package."""

    summary: str = ""
    """What the model is, in one sentence."""
    data: str = ""
    """Who and what is in the data, how it was split, and its terms of use."""
    limits: str = ""
    """What the model cannot do."""
    use: str = ""
    """What the model is for, and what it must not be used for."""
    page: str = ""
    """The path, in the repository, of the page with the full model card."""
    subject: str = ""
    """What an image for this model should show, in words that follow "crop it to"."""
    framing: Mapping[str, float] | None = None
    """For a model of faces, where the eyes are in its training images: "eyes", their distance, and "x" and "y", the
    middle between them, as shares of the image's side. With it, `condvae complete --face` finds faces in photos."""


def card_at(model: Path) -> ModelCard | None:
    """Return the card that is stored next to a model file; None if there is none."""
    path = model.with_name(f"{model.stem}.card.json")
    if not path.is_file():
        return None
    try:
        plain = read_json_file(path)
        if not isinstance(plain, dict):
            raise ValueError("it is not a JSON object")
        if unknown := sorted(plain.keys() - set(ModelCard._fields)):
            raise ValueError(f"it has the key {shown(unknown[0])}, expected some of {', '.join(ModelCard._fields)}")
        card = ModelCard(**plain)
        if not all(isinstance(text, str) for text in card[:-1]):
            raise ValueError("its texts must be strings")
        if card.framing is not None:
            _check_framing(card.framing)
    except (OSError, ValueError) as error:
        raise ValueError(f"the model card {path} cannot be used: {reason_of(error)}") from error
    return card


def _check_framing(framing: object) -> None:
    numbers = framing if isinstance(framing, dict) and set(framing) == {"eyes", "x", "y"} else {}
    right = all(type(one) in (int, float) and -1 < one < 2 for one in numbers.values())
    if not numbers or not right or not 0.05 <= numbers["eyes"] <= 1:
        raise ValueError(
            f"its framing is {shown(framing)}, expected shares of the image's side such as "
            '{"eyes": 0.4, "x": 0.5, "y": 0.3}'
        )
