"""`condvae complete` with models that translate: drawings, records and bad input."""

import json
from pathlib import Path

import numpy as np
import pytest
from helpers.commands import refused
from helpers.drawings import FOLDER
from helpers.models import small_translator
from helpers.pictures_to_complete import contents, photo
from PIL import Image

import condvae
from condvae import save
from condvae.cli import main
from condvae.images.contact_sheet import contact_sheet
from condvae.observe import Edges, Grey, Label, Process


def translator(path: Path, process: Process) -> list[str]:
    """Write a small model of 64 x 64 images that observes this process, and return the option that names it."""
    save(small_translator(process), path)
    return ["--model", str(path)]


@pytest.fixture(scope="module")
def edges(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    return translator(tmp_path_factory.mktemp("models") / "edges.safetensors", Edges(gaps=4))


def test_drawings_and_photos_are_completed_and_the_record_repeats_the_call(
    tmp_path: Path, edges: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    drawings = sorted(map(str, FOLDER.glob("*.png")))
    assert len(drawings) == 3
    main(["complete", *drawings, *edges, "-n", "2", "-o", str(tmp_path / "out")])
    printed = capsys.readouterr().out
    assert printed.count("is taken for a drawing: its lines are used as they are; give --image-is photo") == 3
    record = tmp_path / "out" / "record.json"
    assert json.loads(record.read_text())["image_is"] == "auto"
    main(["complete", "--repeat", str(record), "-o", str(tmp_path / "again")])
    assert contents(tmp_path / "again") == contents(tmp_path / "out") != {}
    main(["complete", *drawings, *edges, "-n", "2", "--image-is", "drawing", "-o", str(tmp_path / "told")])
    assert contents(tmp_path / "told") == contents(tmp_path / "out")
    capsys.readouterr()
    # Taken for photos, the lines have an edge on each side; those of the small boot are too fine for that.
    main(["complete", *drawings[1:], *edges, "-n", "2", "--image-is", "photo", "-o", str(tmp_path / "photo")])
    assert "is taken for" not in capsys.readouterr().out
    assert not set(contents(tmp_path / "photo").values()) & set(contents(tmp_path / "out").values())
    # Records of versions without this setting were made from the edges of all pictures.
    old = tmp_path / "photo" / "record.json"
    plain = json.loads(old.read_text())
    assert plain.pop("image_is") == "photo"
    old.write_text(json.dumps(plain))
    main(["complete", "--repeat", str(old), "-o", str(tmp_path / "old")])
    assert contents(tmp_path / "old") == contents(tmp_path / "photo")


def test_an_older_record_of_a_hole_is_repeated(tmp_path: Path, model: list[str]) -> None:
    main(["complete", str(photo(tmp_path / "x.png")), *model, "--half", "left", "-n", "2", "-o", str(tmp_path / "out")])
    record = tmp_path / "out" / "record.json"
    plain = json.loads(record.read_text())
    del plain["image_is"]
    record.write_text(json.dumps(plain))
    main(["complete", "--repeat", str(record), "-o", str(tmp_path / "again")])
    assert contents(tmp_path / "again") == contents(tmp_path / "out") != {}


def test_the_sheet_shows_the_drawing_as_input(edges: list[str]) -> None:
    result = condvae.complete(FOLDER / "boot.png", model=edges[1], n=3, image_is="drawing")
    assert result.columns()[:3] == ["input", "observed", "completion 1"]
    assert result.sheet().tobytes() == contact_sheet([result.row()], result.columns()).tobytes()
    assert set(np.unique(result.observed)) == {0, 255} and result.original.shape == (64, 64, 3)
    assert not np.array_equal(result.original, result.observed)
    assert len({image.tobytes() for image in result.images}) == 3
    # The completions depend on the lines only, not on the picture that they come from.
    again = condvae.complete(result.observed, model=edges[1], n=3)
    assert np.array_equal(again.images, result.images)


def test_bad_input_is_reported_in_one_sentence_and_nothing_is_written(
    tmp_path: Path, edges: list[str], model: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    labels = translator(tmp_path / "labels.safetensors", Label())
    grey = translator(tmp_path / "grey.safetensors", Grey())
    blank = tmp_path / "blank.png"
    out, good, drawing = tmp_path / "never", str(photo(tmp_path / "x.png")), str(FOLDER / "boot.png")
    for level in (0, 255):
        Image.new("L", (300, 200), level).save(blank)
        assert "blank.png has no edges: give a drawing with" in refused([str(blank), *edges], out, capsys)
        drawn = [str(blank), *edges, "--image-is", "drawing"]
        assert "blank.png has no lines: give a drawing with" in refused(drawn, out, capsys)
    one_colour = tmp_path / "wall.jpg"
    Image.new("RGB", (90, 90), (200, 150, 100)).save(one_colour)
    assert "wall.jpg has no edges" in refused([str(one_colour), *edges, "--image-is", "photo"], out, capsys)
    for words, message in (
        (
            [drawing, *edges, "--half", "left"],
            "observes edges and does not complete holes: leave out --half (half in Python)",
        ),
        ([drawing, *edges, "--keep-size"], "observes edges and draws the whole image, so no pixels of the given"),
        ([good, *grey, "--keep-size"], "observes grey and draws the whole image"),
        ([good, *grey, "--image-is", "drawing"], "observes grey, and only models that observe edges take drawings"),
        ([good, *model, "--half", "left", "--image-is", "drawing"], "this model observes known pixels, and only"),
        ([good, *labels], "this model needs a class label or findings, which cannot be read from a picture"),
        (["--repeat", "record.json", "--image-is", "photo"], "--image-is was given with --repeat"),
    ):
        assert message in refused(words, out, capsys), words
    with pytest.raises(ValueError, match="image_is is 'sketch', expected 'auto' or 'photo' or 'drawing'"):
        condvae.complete(drawing, model=edges[1], image_is="sketch")  # type: ignore[call-overload]


def test_an_empty_picture_in_a_folder_is_skipped(
    tmp_path: Path, edges: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "drawings"
    folder.mkdir()
    Image.new("L", (100, 100), 255).save(folder / "a.png")
    Image.open(FOLDER / "sneaker.png").save(folder / "b.png")
    main(["complete", str(folder), *edges, "-n", "1", "-o", str(tmp_path / "out")])
    assert "a.png has no edges" in capsys.readouterr().out
    assert len(contents(tmp_path / "out")) == 2
