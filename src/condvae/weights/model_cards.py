"""Model cards: what an embedded model is, its data, its limits and its intended use, in a few sentences."""

import json
from pathlib import Path
from typing import NamedTuple


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

    def paragraphs(self) -> dict[str, str]:
        """Return the texts of the card, as {label that `condvae info` prints: text}."""
        return {
            "what it is": self.summary,
            "its data": self.data,
            "its limits": self.limits,
            "its use": self.use,
            **({"crop to": self.subject} if self.subject else {}),
            "more": self.page,
        }


def card_at(model: Path) -> ModelCard | None:
    """Return the card that is stored next to a model file; None if there is none."""
    path = model.with_name(f"{model.stem}.card.json")
    return ModelCard(**json.loads(path.read_text(encoding="utf-8"))) if path.is_file() else None
