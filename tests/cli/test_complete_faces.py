"""`condvae complete --face`: its spellings, and one sentence if something is wrong."""

import json
from pathlib import Path

import numpy as np
import pytest
from helpers.commands import failure, names
from helpers.framed_faces import face_at, finding, write_card
from helpers.pictures_to_complete import levels
from PIL import Image

from condvae.cli import main

SMALL = ("-n", "1", "--device", "cpu")
FACES = [face_at(30.2, 29.2, 23, 12), face_at(62, 23, 15, -20)]


@pytest.fixture
def photo(models: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A photo of two faces in the current folder, and a default model with a card."""
    write_card(models / "faces64.safetensors")
    finding(monkeypatch, FACES)
    Image.fromarray(levels(60, 80)).save("two.png")
    return "two.png"


def test_every_spelling_gives_the_same_photo(photo: str, capsys: pytest.CaptureFixture[str]) -> None:
    made = []
    for i, words in enumerate(
        (
            [photo, "--face", "--part", "eyes"],
            ["--face", photo, "--part", "eyes"],
            ["--part", "eyes", photo, "--face"],
            ["--face", "1", photo, "--part", "eyes"],
            [photo, "--face=1", "--part=eyes"],
            [photo, "--face", "2", "--part", "eyes"],
            [photo, "--face=all", "--part", "eyes"],
        )
    ):
        main(["complete", *words, *SMALL, "-o", f"out{i}"])
        made.append(Path(f"out{i}/001-two-1.png").read_bytes())
    assert len(set(made[:5])) == 1 and len(set(made)) == 3
    printed = capsys.readouterr().out
    first = "two.png: the square around its face, at 19,18,23,23 (x, y, width and height, turned clockwise by 12 "
    assert printed.count(first) == 6 and "turned anticlockwise by 20 degrees" in printed
    with Image.open("out0/001-two-1.png") as image:
        changed = (np.asarray(image) != levels(60, 80)).any(axis=2)
    assert image.size == (80, 60) and changed[20:30, 22:38].any() and not changed[:, 45:].any()


def test_wrong_calls_end_with_one_sentence(
    photo: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    Image.fromarray(levels(8, 8)).save("x.png")
    before = names(".")
    for words, message in (
        (["--face", "3", "--part", "eyes"], "two.png has 2 faces, so there is no face 3"),
        (["--face", "nose"], "face is 'nose', expected no value"),
        (["--face", "0", "--part", "eyes"], "face is '0', expected no value"),
        (["--face=-2", "--part", "eyes"], "face is '-2', expected no value"),
        (["--face", "--box", "0,50,9,9"], "outside the square around its face, which is at 19,18,23,23"),
        (["--face", "--part", "eyes", "--half", "left"], "in 2 ways, half and part: give only one"),
        (["--face", "--part", "eyes", "--format", "jpg"], "choose the format png or webp"),
        (["--face"], "specify which are hidden: give --part eyes|mouth|nose|left|right, a picture"),
    ):
        assert message in failure(capsys, "complete", photo, *words, *SMALL)
        assert names(".") == before
    finding(monkeypatch, [])
    text = failure(capsys, "complete", photo, "--face", "--part", "eyes", *SMALL)
    assert "no face was found in two.png" in text and "crop the photo to the face yourself" in text
    assert names(".") == before


@pytest.mark.parametrize("model", ["cifar10", "xray", "shoes64"])
def test_embedded_models_of_other_things_refuse(model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Image.fromarray(levels(60, 80)).save(tmp_path / "x.png")
    text = failure(capsys, "complete", tmp_path / "x.png", "--face", "--model", model, "-o", tmp_path / "out")
    expected = "translates whole pictures" if model == "shoes64" else "no card that says how faces are framed"
    assert expected in text and not (tmp_path / "out").exists()


def test_photos_of_a_folder_without_a_face_are_skipped(
    photo: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("in").mkdir()
    Path(photo).rename("in/a.png")
    Image.fromarray(levels(50, 50)).save("in/b.png")
    seen = finding(monkeypatch, FACES)
    main(["complete", "in", "--face", "--part", "mouth", *SMALL])
    assert seen == [(80, 60), (50, 50)]
    finding(monkeypatch, [])
    assert "none of the 2 images could be completed: no face was found in in" in failure(
        capsys, "complete", "in", "--face", "--part", "mouth", "--quiet", *SMALL
    )


def test_a_hint_is_printed_once_for_a_photo_without_face(photo: str, capsys: pytest.CaptureFixture[str]) -> None:
    main(["complete", photo, "--half", "left", *SMALL])
    assert capsys.readouterr().out.count("add --face") == 1
    main(["complete", photo, "--half", "left", "--face", *SMALL])
    assert "add --face" not in capsys.readouterr().out
    assert "--face was given with --repeat" in failure(capsys, "complete", "--repeat", "completions", "--face")
    assert "--part was given with --repeat" in failure(capsys, "complete", "--repeat", "completions", "--part", "nose")


def test_damaged_faces_in_a_record_are_refused(photo: str, capsys: pytest.CaptureFixture[str]) -> None:
    main(["complete", photo, "--face", "--part", "eyes", *SMALL, "-o", "out"])
    plain = json.loads(Path("out/record.json").read_text())
    (entry,) = plain["images"]
    (face,) = entry["faces"]
    for faces, message in (
        ([], "contradict each other about faces"),
        ([{**face, "side": "wide"}], "found 'wide' where a number was expected"),
        ([{**face, "side": -3}], "where a face was expected"),
        ([{**face, "side": 1e9}], "the record is damaged: a face is far outside"),
        ([{**face, "x": None}], "found None where a number"),
        ([{**face, "landmarks": face["landmarks"][:4]}], "where a face was expected"),
        ([{"x": 5}], "damaged"),
    ):
        changed = {**plain, "images": [{**entry, "faces": faces}]}
        Path("out/record.json").write_text(json.dumps(changed))
        assert message in failure(capsys, "complete", "--repeat", "out", "-o", "never", "--quiet")
    Path("out/record.json").write_text(json.dumps({key: plain[key] for key in plain if key != "face"}))
    assert "contradict each other about faces" in failure(capsys, "complete", "--repeat", "out", "-o", "never")
