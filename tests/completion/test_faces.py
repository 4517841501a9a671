"""Faces in photos: they are found, completed in the model's framing, and put back into the photo."""

import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.fixtures import FIXTURES
from helpers.framed_faces import FRAMING, face_at, finding, framed_model
from helpers.models import SMALL_64, small_conditional, small_translator
from helpers.pictures_to_complete import contents, levels, photo
from PIL import Image, ImageFilter

import condvae
from condvae.cli import main
from condvae.completion import save_completions, sheet_of
from condvae.faces import Face
from condvae.faces.face import MEAN_LANDMARKS
from condvae.images.placement import Placement
from condvae.images.squares import in_picture, in_square
from condvae.observe import Edges
from condvae.weights import save

LARGE, SMALL = face_at(30.2, 29.2, 23, 12), face_at(62, 23, 15, -20)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return framed_model(tmp_path)


def test_the_eyes_are_where_the_model_expects_them(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = finding(monkeypatch, [LARGE, SMALL])
    array = levels(60, 80)
    given: tuple[tuple[Any, Face], ...] = ((True, LARGE), (1, LARGE), (2, SMALL), (np.int64(2), SMALL))
    for number, face in given:
        result = condvae.complete(array, face=number, part="nose", model=model, n=2)
        assert np.allclose(in_square(face.landmarks, result.view.placement), MEAN_LANDMARKS)
        assert result.images.shape == (2, 8, 8, 3) and result[0].size == (80, 60)
        assert result.view.surroundings is not None
        changed = (np.asarray(result[1]) != array).any(axis=2)
        assert changed.any() and not changed[~result.view.surroundings.hidden].any()
        x, y = face.landmarks[2].astype(int)
        assert result.view.surroundings.hidden[y, x]
    assert seen == [(80, 60)] * 4
    assert repr(result).startswith(
        "<Completion: 2 completions of a face in an image, 8 x 8 pixels, pasted into 80 x 60"
    )


def test_the_framing_is_that_of_the_card(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    finding(monkeypatch, [LARGE])
    array = levels(60, 80)
    wide = framed_model(tmp_path, {"eyes": FRAMING["eyes"] / 2, "x": 0.3, "y": 0.6})
    placement = condvae.complete(array, face=True, part="nose", model=wide, n=1).view.placement
    assert placement.side == pytest.approx(46) and placement.degrees == pytest.approx(12)
    eyes = in_picture((FRAMING["x"], FRAMING["y"]), Placement(30.2, 29.2, 23, 12))
    assert np.allclose(in_square(eyes, placement), (0.3, 0.6))
    # Parts of a picture that is framed already are where the same framing puts them.
    hidden = ~condvae.complete(levels(8, 8), part="eyes", model=wide, n=1).known
    rows, columns = np.nonzero(hidden)
    assert rows.min() >= 3 and rows.max() <= 5 and columns.max() <= 4


def test_every_way_to_hide_works_with_a_face(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    finding(monkeypatch, [LARGE])
    array = levels(60, 80)
    hidden = np.zeros((60, 80), dtype=bool)
    hidden[20:33, 26:31] = True
    clear = np.dstack([array, np.where(hidden, 0, 255).astype(np.uint8)])
    ways: tuple[tuple[Any, dict[str, Any]], ...] = (
        (array, {"box": (26, 20, 5, 13)}),
        (array, {"hole": hidden}),
        (array, {"known": ~hidden}),
        (array, {"mask": hidden, "mask_is": "hole"}),
        (clear, {}),
        (np.ma.array(array, mask=np.dstack([hidden] * 3)), {}),
    )
    results = [condvae.complete(image, face=True, model=model, n=1, **way) for image, way in ways]
    assert len({result.images.tobytes() for result in results}) == 1
    assert len({np.asarray(result[0]).tobytes() for result in results}) == 1
    others: list[dict[str, Any]] = [{"part": part} for part in ("eyes", "mouth", "left", "right")]
    others += [{"half": "right"}, {"random": True}]
    for way in others:
        result = condvae.complete(array, face=True, model=model, n=1, **way)
        changed = (np.asarray(result[0]) != array).any(axis=2)
        assert changed.any() and result.view.surroundings is not None
        assert not changed[~result.view.surroundings.hidden].any()


def test_all_faces_are_completed_in_one_photo(model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    finding(monkeypatch, [LARGE, SMALL])
    array = levels(60, 80)
    results = condvae.complete(array, face="all", part="mouth", model=model, n=3)
    assert [one.view.face.landmarks[0] for one in results if one.view.face] == [
        tuple(face.landmarks[0].tolist()) for face in (LARGE, SMALL)
    ]
    assert not np.array_equal(results[0].images, results[1].images)
    for k in range(3):
        pictures = [np.asarray(one[k]) for one in results]
        assert np.array_equal(pictures[0], pictures[1])
        changed = (pictures[0] != array).any(axis=2)
        for face in (LARGE, SMALL):
            x, y = face.landmarks[3:].mean(axis=0).astype(int)
            assert changed[y - 1 : y + 2, x - 1 : x + 2].mean() > 0.5
        # Each face is completed as if it were the only one: their squares do not overlap.
        alone = [condvae.complete(array, face=number, part="mouth", model=model, n=3) for number in (1, 2)]
        assert all(np.array_equal(one.images, other.images) for one, other in zip(results, alone, strict=True))
        assert np.array_equal(changed, np.logical_or(*((np.asarray(one[k]) != array).any(axis=2) for one in alone)))
    assert sheet_of(results).height > sheet_of(results[:1]).height
    # Results of one photo are saved together, whichever of them are given.
    saved = [save_completions(given, tmp_path / name) for given, name in ((results, "all"), (results[1:], "one"))]
    results[0].save(tmp_path / "same")
    assert contents(tmp_path / "all") == contents(tmp_path / "one") == contents(tmp_path / "same")
    assert sorted(contents(tmp_path / "all")) == [f"001-image-{k}.png" for k in (1, 2, 3)] + ["sheet.png"]
    assert [len(sheets) for sheets in saved] == [1, 1]
    again = pickle.loads(pickle.dumps(results))
    assert np.array_equal(np.asarray(again[1][0]), np.asarray(results[1][0]))
    both = condvae.complete([array, array[:, ::-1]], face="all", part="mouth", model=model, n=1)
    assert [len(one) for one in both] == [2, 2]


def test_faces_that_the_hole_does_not_touch_are_left_out(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    finding(monkeypatch, [LARGE, SMALL])
    array = levels(60, 80)
    x, y = (int(number) for number in SMALL.landmarks[2])
    (result,) = condvae.complete(array, face="all", box=(x, y, 3, 3), model=model, n=1)
    assert result.view.face is not None and result.view.face.landmarks[2] == tuple(SMALL.landmarks[2])
    with pytest.raises(
        ValueError, match=r"all hidden pixels are outside the square around its face, which is at 19,18,23,23 "
    ):
        condvae.complete(array, face="all", box=(0, 55, 3, 3), model=model, n=1)


def test_what_cannot_be_done_is_said_in_a_sentence(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    finding(monkeypatch, [LARGE, SMALL])
    array = levels(60, 80)
    edges = tmp_path / "edges.safetensors"
    save(small_translator(Edges(), SMALL_64), edges)
    for options, message in (
        (
            {"face": 3, "part": "eyes"},
            "the image has 2 faces, so there is no face 3: give --face with a number up to 2",
        ),
        ({"face": 0, "part": "eyes"}, "face is 0, expected no value"),
        ({"face": "two", "part": "eyes"}, "face is 'two', expected no value"),
        ({"face": 1.5, "part": "eyes"}, "face is 1.5, expected no value"),
        ({"face": True, "part": "ear"}, "the part of the face is 'ear', expected 'eyes' or 'mouth'"),
        ({"face": True, "part": "eyes", "half": "left"}, "in 2 ways, half and part"),
        (
            {"face": True, "part": "eyes", "model": small_conditional()},
            "this model has no card that says how faces are",
        ),
        ({"part": "eyes", "model": small_conditional()}, r"as faces64 has: leave out --part eyes \(part in Python\)"),
        ({"face": True, "model": edges}, "this model translates whole pictures and does not complete faces"),
        ({"face": True}, "the image has no transparent pixels, so specify which are hidden: give --part eyes"),
    ):
        with pytest.raises(ValueError, match=message):
            condvae.complete(array, **{"model": model, **options})  # type: ignore[call-overload]
    finding(monkeypatch, [])
    with pytest.raises(
        ValueError, match="no face was found in the image: give a photo in which the face is larger, upright"
    ):
        condvae.complete(array, face=True, part="eyes", model=model)


def test_parts_of_a_framed_picture_need_no_detection(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = finding(monkeypatch, [LARGE])
    for size in (8, 6):  # the detector is not asked for small pictures
        result = condvae.complete(levels(size, size), part="eyes", model=model, n=1)
        assert not result.known[2, 1:7].any() and result.known[5:].all() and result.view.face is None
    assert seen == [] and result[0].size == (8, 8)


@pytest.mark.parametrize(
    "how",
    [
        ["--face", "--part", "eyes"],
        ["--face", "2", "--half", "right", "--hard-edges"],
        ["--face", "all", "--random", "--seed", "4"],
        ["--face", "all", "--hole", "mask.png"],
    ],
)
def test_a_record_repeats_the_call_without_finding_faces_again(
    how: list[str], model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    words = [str(photo(Path(f"{name}.png"), 60, 80, seed=i)) for i, name in enumerate("xy")]
    mask = np.zeros((60, 80), dtype=np.uint8)
    mask[22:40, 20:66] = 255
    Image.fromarray(mask).save("mask.png")
    finding(monkeypatch, [LARGE, SMALL])
    main(["complete", *words, "--model", str(model), *how, "-n", "2", "-o", "out"])
    finding(monkeypatch, [])  # another detector, which finds nothing
    main(["complete", "--repeat", "out", "-o", "again", "--chunk", "1"])
    assert contents(tmp_path / "again") == contents(tmp_path / "out") != {}
    assert Path("again/record.json").read_bytes() == Path("out/record.json").read_bytes()
    entries = json.loads(Path("out/record.json").read_text())["images"]
    assert [len(entry["faces"]) for entry in entries] == [2 if "all" in how else 1] * 2
    assert [len(entry["outputs"]) for entry in entries] == [2, 2]


def test_records_without_faces_are_as_before(model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    finding(monkeypatch, [])
    condvae.complete(photo(tmp_path / "x.png"), half="left", model=model, n=1).save(tmp_path / "out")
    plain = json.loads((tmp_path / "out" / "record.json").read_text())
    assert "face" not in plain and "faces" not in plain["images"][0]


def test_a_photo_with_an_unframed_face_gets_a_hint(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = finding(monkeypatch, [LARGE, SMALL])
    hint = "has a face at 19,18,23,23 (x, y, width and height, turned clockwise by 12 degrees): add --face (face"
    result = condvae.complete(levels(60, 80), half="left", model=model, n=1)
    assert any(hint in note for note in result.notes) and len(seen) == 1
    # Framed faces, other pictures and pictures at the model's size get none, and only the first photos are looked at.
    finding(monkeypatch, [face_at(40, 33, 60)])
    assert not any("face" in note for note in condvae.complete(levels(60, 80), half="left", model=model, n=1).notes)
    for image in (levels(60, 80), levels(8, 8)):
        seen = finding(monkeypatch, [])
        assert not any("face" in note for note in condvae.complete(image, half="left", model=model, n=1).notes)
        assert len(seen) == (len(image) > 8)
    condvae.complete([levels(20, 20, seed=i) for i in range(6)], half="left", model=model, n=1)
    assert len(seen) == 3
    seen = finding(monkeypatch, [LARGE])
    condvae.complete(levels(60, 80), half="left", model=small_conditional(), n=1)
    assert seen == []


@pytest.mark.parametrize("name", ["astronaut", "grace_hopper"])
def test_the_real_detector_and_model_complete_a_real_photo(name: str) -> None:
    path = FIXTURES / "photos" / f"{name}.jpg"
    with Image.open(path) as image:
        array = np.asarray(image.convert("RGB"))
    result = condvae.complete(path, face=True, part="mouth", n=1, judge=False)
    assert result.view.face is not None and result.view.surroundings is not None
    hidden, changed = result.view.surroundings.hidden, (np.asarray(result[0]) != array).any(axis=2)
    x, y = np.mean(result.view.face.landmarks[3:], axis=0).astype(int)
    assert hidden[y, x] and not changed[~hidden].any() and changed[hidden].mean() > 0.8
    # The original, put back instead of a completion, differs from the photo only by the details that are lost.
    back = np.asarray(result.view.pasted(result.original)).astype(int)
    smooth = np.asarray(Image.fromarray(array).filter(ImageFilter.GaussianBlur(result.view.placement.side / 128)))
    assert np.abs(back - smooth)[hidden].mean() < 6


def test_faces_pasted_into_one_canvas_are_all_completed() -> None:
    canvas = Image.new("RGB", (900, 560), "grey")
    for i, (degrees, side) in enumerate(((12, 512), (-10, 380))):
        with Image.open(FIXTURES / "photos" / "astronaut.jpg") as image:
            canvas.paste(image.resize((side, side)).rotate(-degrees, fillcolor="grey"), (i * 515, 20))
    results = condvae.complete(canvas, face="all", part="eyes", n=1, judge=False)
    first, second = (one.view.placement for one in results)
    # The face in the photo itself is turned by about 3 degrees.
    assert abs(first.degrees - 15) < 4 and abs(second.degrees + 7) < 4
    assert first.side / second.side == pytest.approx(512 / 380, rel=0.08) and first.x < 512 < second.x
    changed = (np.asarray(results[0][0]) != np.asarray(canvas)).any(axis=2)
    for one in results:
        assert one.view.face is not None
        for x, y in np.array(one.view.face.landmarks[:2]).astype(int):
            assert changed[y - 3 : y + 4, x - 3 : x + 4].mean() > 0.8


def test_results_of_all_faces_of_several_photos_are_saved_and_repeated(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    finding(monkeypatch, [LARGE, SMALL])
    Image.fromarray(levels(60, 80)).save(tmp_path / "two.png")
    for name, face in (("first", LARGE), ("second", SMALL)):  # each mask touches another face
        hole = np.zeros((60, 80), dtype=np.uint8)
        x, y = face.landmarks[2].astype(int)
        hole[y - 2 : y + 3, x - 2 : x + 3] = 255
        Image.fromarray(hole).save(tmp_path / f"{name}.png")
    holes = [tmp_path / "first.png", tmp_path / "second.png"]
    both = condvae.complete([tmp_path / "two.png"] * 2, hole=holes, face="all", model=model, n=2)
    save_completions(both, tmp_path / "saved")
    main(["complete", "--repeat", str(tmp_path / "saved"), "--out", str(tmp_path / "again"), "--quiet"])
    assert contents(tmp_path / "again") == contents(tmp_path / "saved")


@pytest.mark.parametrize("change", [{"side": 0.01}, {"side": 1e6}, {"degrees": 1e9}, {"landmarks": [[1, 2, 3]] * 5}])
def test_damaged_faces_of_a_record_are_refused(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: dict[str, Any], capsys: Any
) -> None:
    finding(monkeypatch, [LARGE])
    photo(tmp_path / "photo.png", 60, 80)
    condvae.complete(tmp_path / "photo.png", face=True, part="nose", model=model, n=1).save(tmp_path / "saved")
    record = tmp_path / "saved" / "record.json"
    plain = json.loads(record.read_text())
    plain["images"][0]["faces"][0].update(change)
    record.write_text(json.dumps(plain))
    with pytest.raises(SystemExit) as end:
        main(["complete", "--repeat", str(record), "--out", str(tmp_path / "again")])
    assert end.value.code == 2 and "damaged" in capsys.readouterr().err
    assert not (tmp_path / "again").exists()
