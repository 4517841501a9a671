"""Texts use the words of the glossary, and none of the variants that it rejects."""

import re

import pytest
from helpers.fixtures import ROOT
from helpers.texts import Text, all_texts

GLOSSARY = (ROOT / "docs" / "glossary.md").read_text()
REJECTED = dict(re.findall(r"^\| ([^|*]+?) \| ([^|*]+?) \|$", GLOSSARY.partition("## Words that we avoid")[2], re.M))
REJECTED.pop("instead of", None)
REJECTED.pop("---", None)


@pytest.fixture(scope="module")
def texts() -> list[Text]:
    return all_texts()


def pattern(phrases: str) -> re.Pattern[str]:
    """Whole words in any case; a phrase may be broken over lines."""
    options = (re.escape(phrase.strip()).replace(r"\ ", r"\s+") for phrase in phrases.split(","))
    return re.compile(rf"(?<![\w-])(?:{'|'.join(options)})(?![\w-])", re.IGNORECASE)


@pytest.mark.parametrize("phrases", REJECTED)
def test_no_text_uses_a_rejected_word(phrases: str, texts: list[Text]) -> None:
    found = [
        f"{text.place}: {text.words}"
        for text in texts
        if text.place != "docs/glossary.md" and pattern(phrases).search(re.sub(r"`[^`]*`", "", text.words))
    ]
    assert not found, f"write {REJECTED[phrases]}:\n" + "\n".join(found)


def test_the_texts_are_all_there(texts: list[Text]) -> None:
    """The helper reads every kind of text, or the test above could not fail."""
    kinds: dict[str, list[Text]] = {"help": [], "error": [], "docstring": [], "paragraph": []}
    for text in texts:
        kinds[text.kind].append(text)
    assert all(len(found) > 150 for found in kinds.values()), {kind: len(found) for kind, found in kinds.items()}
    assert any(text.place.startswith("condvae ood fit --score") for text in kinds["help"])
    assert any("<...> is a file" in text.words for text in kinds["error"])


def test_the_terms_of_the_method_are_explained() -> None:
    terms = "artifact, partial encoder, observation, known / hidden, completion, latent group, temperature, noise floor"
    for term in (*terms.split(", "), "strangeness"):
        assert f"| **{term}** |" in GLOSSARY, term
