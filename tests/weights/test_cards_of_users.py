"""Model cards that users write: an entry is enough, and a wrong one is named in one sentence."""

import json
from pathlib import Path

import pytest

from condvae.weights.model_cards import card_at


def written(folder: Path, text: str) -> Path:
    (folder / "mine.card.json").write_text(text)
    return folder / "mine.safetensors"


def test_a_framing_alone_is_a_card(tmp_path: Path) -> None:
    framing = {"eyes": 0.4, "x": 0.5, "y": 0.3}
    card = card_at(written(tmp_path, json.dumps({"framing": framing})))
    assert card is not None and card.framing == framing and card.summary == ""
    assert card_at(tmp_path / "other.safetensors") is None


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{", "mine.card.json cannot be used"),
        ("[]", "it is not a JSON object"),
        ('{"frame": 1}', "it has the key 'frame', expected some of summary"),
        ('{"summary": 1}', "its texts must be strings"),
        ('{"framing": {"eyes": 0.4, "x": 0.5}}', "expected shares of the image's side such as"),
        ('{"framing": {"eyes": "0.4", "x": 0.5, "y": 0.3}}', "its framing is"),
        ('{"framing": {"eyes": 0, "x": 0.5, "y": 0.3}}', "its framing is"),
        ('{"framing": {"eyes": NaN, "x": 0.5, "y": 0.3}}', "mine.card.json cannot be used"),
        ('{"framing": [0.4, 0.5, 0.3]}', "its framing is"),
    ],
)
def test_a_wrong_card_is_named(text: str, reason: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="the model card") as error:
        card_at(written(tmp_path, text))
    assert reason in str(error.value)
