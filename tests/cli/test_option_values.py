"""None is never offered as a value, a box may be given as four words, and --face may have no value."""

import re
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import pytest
from helpers.cli_options import options, verbs
from helpers.commands import failure, photos

from condvae.cli import main
from condvae.cli.option_values import fill_in_face, join_boxes

REQUIRED = {
    "compare": ["a", "b"],
    "import": ["x.th", "-o", "x.safetensors"],
    "pretrain": ["--data", "x", "-o", "x"],
    "train": ["--data", "x", "-o", "x"],
    "design train": ["--data", "x", "-o", "x"],
}


def shown(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    capsys.readouterr()
    with pytest.raises(SystemExit):
        main(list(words))
    captured = capsys.readouterr()
    return captured.out + captured.err


def kinds(hint: Any) -> list[Any]:
    """The types in a type: `[int, NoneType]` for `int | None`, and `[str]` for `tuple[str, ...]`."""
    parts = [part for part in get_args(hint) if part is not ...]
    return [hint] if get_origin(hint) is Literal or not parts else [kind for part in parts for kind in kinds(part)]


@pytest.mark.parametrize("verb", sorted(verbs()))
def test_no_help_offers_none(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert not re.search(r"\bNone\b", shown(capsys, *verb.split(), "--help"))


def test_no_message_about_a_wrong_value_offers_none(capsys: pytest.CaptureFixture[str]) -> None:
    tried = set()
    for verb, kind in verbs().items():
        for option, told in options(kind).items():
            found = kinds(told["type"])
            choices = [str(choice) for kind in found if get_origin(kind) is Literal for choice in get_args(kind)]
            # Any word is a path or a name. One type without None has no choices but its own.
            if len(found) == 1 or not (choices or int in found or float in found) or (option, str(found)) in tried:
                continue
            tried.add((option, str(found)))
            text = shown(capsys, *verb.split(), *REQUIRED.get(verb, []), f"--{option}", "nonsense")
            assert "nonsense" in text and "None" not in text, f"{verb} --{option}: {text}"
            plain = " ".join(text.replace("│", " ").split())
            assert ", ".join(map(repr, choices)) in plain, f"{verb} --{option}: {text}"  # in the order of the type
    assert {"half", "bits", "metrics", "chunk"} <= {option for option, _ in tried}


def test_the_word_none_is_an_ordinary_word(capsys: pytest.CaptureFixture[str]) -> None:
    assert "--box is None, expected four" in failure(capsys, "complete", "x.png", "--box", "None")
    assert "2 ways, known and half" in failure(capsys, "complete", "x.png", "--known", "None", "--half", "left")


def test_the_numbers_of_a_box_become_one_word() -> None:
    for words, expected in (
        ("a.png --box 1 2 3 4", "a.png --box=1,2,3,4"),
        ("--box 1 2 3 4 a.png 5", "--box=1,2,3,4 a.png 5"),
        ("--box -1 2, 3, 4 a.png", "--box=-1,2,3,4 a.png"),
        ("--box 1 2 3 4 5", "--box=1,2,3,4 5"),
        ("--box 1 2 a.png", "--box=1,2 a.png"),
        ("--box 1,2,3,4 5 6 7 8", "--box 1,2,3,4 5 6 7 8"),  # the numbers after the box are names of files
        ("--box=1,2,3,4 5 6", "--box=1,2,3,4 5 6"),
        ("a.png --box", "a.png --box"),
        ("--box 1 2 3 4 --box 5 6 7 8 --half left", "--box=1,2,3,4 --box=5,6,7,8 --half left"),
        ("a.png 1 2 3 4 --half left", "a.png 1 2 3 4 --half left"),
    ):
        assert join_boxes(words.split()) == expected.split()


def test_face_may_have_a_value(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    for words, expected in (
        ("a.png --face", "a.png --face=1"),
        ("--face a.png", "--face=1 a.png"),
        ("--face folder", "--face=1 folder"),
        ("--face --half left a.png", "--face=1 --half left a.png"),
        ("--face -o out a.png", "--face=1 -o out a.png"),
        ("--face 2 a.png", "--face=2 a.png"),
        ("a.png --face all", "a.png --face=all"),
        ("a.png --face=all", "a.png --face=all"),
        ("--face ../b.png 2", "--face=1 ../b.png 2"),
        ("a.png --face -1", "a.png --face=-1"),
        ("--face nonsense a.png", "--face=nonsense a.png"),
        ("--face 2 --face", "--face=2 --face=1"),
    ):
        assert fill_in_face(["complete", *words.split()]) == ["complete", *expected.split()]
    assert fill_in_face(["sample", "--face"]) == ["sample", "--face"]


@pytest.mark.usefixtures("models")
def test_every_spelling_of_a_box_gives_the_same_pictures(capsys: pytest.CaptureFixture[str]) -> None:
    (photo,) = photos(1)
    made = []
    for i, words in enumerate(
        (
            [photo, "--box", "3,4,9,8"],
            [photo, "--box", "3", "4", "9", "8"],
            ["--box", "3", "4", "9", "8", photo],
            ["--box", "3,4,9,8", photo],
            ["--box", "3, 4, 9, 8", photo],
            ["--box", "3 4 9 8", photo],
        )
    ):
        main(["complete", *words, "-n", "1", "-o", f"out{i}", "--device", "cpu"])
        made.append(Path(f"out{i}/001-photo 0-1.png").read_bytes())
    assert len(set(made)) == 1
    for box in (["3", "4", "9"], ["3,4,9"], ["3", "4", "9", "8.5"]):
        assert "expected four whole numbers x,y,width,height" in failure(capsys, "complete", "--box", *box)


def test_a_number_that_is_not_whole_is_an_error_in_plain_words(capsys: pytest.CaptureFixture[str]) -> None:
    for words in (["train", "--data", "x", "-o", "x", "--steps", "1e3"], ["sample", "-n", "1e3"]):
        printed = shown(capsys, *words)
        assert "1e3 is not a whole number" in " ".join(printed.split()) and "literal" not in printed
