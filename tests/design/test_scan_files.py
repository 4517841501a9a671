"""Files of whole images are scanned, and files of which some is known are told where to go on."""

import itertools
import json
import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from helpers.fitted_models import put_fits
from helpers.models import randomise, small_conditional
from helpers.pictures_to_complete import levels, photo
from PIL import Image

from condvae.cli import main
from condvae.design.avp_cnn.classifier_file import load_classifier, save_classifier
from condvae.design.avp_cnn.network import AVPCNN, ClassifierConfig
from condvae.design.candidates import Candidates
from condvae.design.choose_location import next_location
from condvae.design.information import entropy
from condvae.design.scan_figure import format_nats
from condvae.design.scan_files import scan_files
from condvae.design.scan_settings import ScanSettings
from condvae.observe import Edges, Patches
from condvae.ood import fit_path, strangeness
from condvae.weights import load_conditional, save


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A model and classifiers of 8 x 8 images, random but the same every time."""
    folder = tmp_path_factory.mktemp("models")
    model = small_conditional()
    model.process = Patches()
    save(model, folder / "model.safetensors")
    names: dict[str, tuple[str, ...]] = {"findings": ("Edema", "Effusion", "any finding"), "animals": ("class",)}
    for name, variables in names.items():
        torch.manual_seed(0)
        one = name == "animals"
        config = ClassifierConfig(
            size=8,
            channels=3,
            names=variables,
            outcomes=3 if one else 2,
            outcome_names=("cat", "dog", "horse") if one else None,
            trunk="plain",
            widths=(8,),
            blocks=1,
            stem_stride=1,
            head=0,
        )
        classifier = AVPCNN(config)
        randomise(classifier.last, 0, scale=1.0)
        save_classifier(classifier, folder / f"{name}.safetensors")
    return {path.stem: path for path in folder.iterdir()}


def scanned(
    made: dict[str, Path], images: list[Path], out: Path, *, classifier: str = "findings", **changes: Any
) -> tuple[dict[str, Any], list[str]]:
    """The record, and what was said."""
    known, fit_mask = changes.pop("known", None), changes.pop("fit_mask", False)
    values = {"task": "effusion" if classifier == "findings" else None, "steps": 2, "n": 3, "points": 4} | changes
    said: list[str] = []
    record = scan_files(
        images,
        out,
        model=made["model"],
        classifier=made[classifier],
        settings=ScanSettings(**values),
        known=known,
        fit_mask=fit_mask,
        say=said.append,
    )
    return json.loads(record.read_text()), said


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_an_image_gets_a_figure_an_animation_and_an_entry(made: dict[str, Path], tmp_path: Path) -> None:
    record, said = scanned(made, [photo(tmp_path / "a.jpg", 40, 60)], tmp_path / "out")
    assert names_in(tmp_path / "out") == ["a.gif", "a.png", "design.json"]
    with Image.open(tmp_path / "out" / "a.gif") as gif:
        assert gif.n_frames == 2  # type: ignore[attr-defined]
    (entry,) = record["images"]
    assert (record["task"], record["simulated"], entry["outputs"]) == ("effusion", True, ["a.png", "a.gif"])
    assert entry["size"] == [60, 40]
    for t, (line, scan) in enumerate(zip(said[2:4], entry["scans"], strict=True)):
        box = ",".join(map(str, scan["box"]))
        assert line.startswith(f"scan {t + 1} at {box}: expected gain {format_nats(scan['expected_gain_nats'])}; ")
    assert said[0].endswith("its middle 40 x 40 is resized to 8 x 8")
    predictions = [f"P(effusion) {p[1]:.3f}" for p in (entry["before"], *(scan["after"] for scan in entry["scans"]))]
    assert [line.split("; ")[1] for line in said[2:4]] == [f"{a}, then {b}" for a, b in itertools.pairwise(predictions)]
    assert said[4] == f"the whole image: P(effusion) {entry['whole_image'][1]:.3f}"


def test_boxes_are_in_pixels_of_the_image_itself(made: dict[str, Path], tmp_path: Path) -> None:
    # The model sees 8 x 8 pixels, and windows start at 0, 2, 4 and 6. One of its pixels is 5 x 5 of the middle 40 x 40.
    record, _ = scanned(made, [photo(tmp_path / "a.png", 40, 60)], tmp_path / "out", steps=4)
    for scan in record["images"][0]["scans"]:
        x, y, width, height = scan["box"]
        assert (width, height) == (10, 10)
        assert (x - 10) % 10 == y % 10 == 0
        assert 10 <= x <= 40 and 0 <= y <= 30


def test_the_first_scan_is_at_the_estimators_maximum(made: dict[str, Path], tmp_path: Path) -> None:
    model, classifier = load_conditional(made["model"]), load_classifier(made["findings"])
    nothing = model.observe(torch.zeros(1, 3, 8, 8), torch.zeros(1, 1, 8, 8, dtype=torch.bool))
    image, corners = photo(tmp_path / "a.png", 40, 60), set()
    for estimator in ("eig", "epe"):
        settings: dict[str, Any] = {"n": 3, "seed": 6, "estimator": estimator}
        record, _ = scanned(made, [image], tmp_path / estimator, steps=1, **settings)
        (scan,) = record["images"][0]["scans"]
        grid = Candidates.grid(8, side=2, points=4)
        found = next_location(nothing, model, classifier, grid, variable="effusion", **settings)
        assert (
            found.corner is not None and found.corner[0] != found.corner[1]
        )  # otherwise swapped rows and columns would go unnoticed
        row, column = found.corner
        corners.add(found.corner)
        assert scan["box"] == [10 + 5 * column, 5 * row, 10, 10]
        doubt = float(entropy(found.posterior.log())) if estimator == "epe" else 0.0
        assert scan["expected_gain_nats"] == pytest.approx(float(found.scores.max()) + doubt, rel=1e-4)
    assert len(corners) == 2


def test_no_finding_is_the_opposite_of_any_finding(made: dict[str, Path], tmp_path: Path) -> None:
    image = photo(tmp_path / "a.png")
    some, _ = scanned(made, [image], tmp_path / "some", task="any finding")
    none, said = scanned(made, [image], tmp_path / "none", task="no finding")
    assert some["images"][0]["scans"] == none["images"][0]["scans"]  # the same uncertainty, so the same scans
    assert f"P(no finding) {none['images'][0]['before'][0]:.3f}" in said[2]


def test_a_single_variable_needs_no_task_and_classes_are_named(made: dict[str, Path], tmp_path: Path) -> None:
    record, said = scanned(made, [photo(tmp_path / "a.png")], tmp_path / "out", classifier="animals")
    assert record["task"] == "class"
    assert any(name in said[2] for name in ("cat", "dog", "horse"))


def test_an_image_gets_the_same_alone_and_among_others(made: dict[str, Path], tmp_path: Path) -> None:
    a, b = photo(tmp_path / "a.png"), photo(tmp_path / "b.png", seed=1)
    alone, _ = scanned(made, [b], tmp_path / "alone")
    both, _ = scanned(made, [a, b], tmp_path / "both")
    other, _ = scanned(made, [b], tmp_path / "other", seed=1)
    assert both["images"][1] == alone["images"][0]
    for kind in ("png", "gif"):
        assert (tmp_path / "alone" / f"b.{kind}").read_bytes() == (tmp_path / "both" / f"b.{kind}").read_bytes()
    assert other["images"][0]["scans"] != alone["images"][0]["scans"]


def test_a_folder_stands_for_its_images_and_bad_files_are_skipped(made: dict[str, Path], tmp_path: Path) -> None:
    folder = tmp_path / "chests"
    folder.mkdir()
    paths = [photo(folder / name, 8, 8, seed=i) for i, name in enumerate(("a.png", "b.png"))]
    (folder / "c.png").write_text("no picture")
    record, said = scanned(made, [folder], tmp_path / "out")
    assert record["images"] == scanned(made, paths, tmp_path / "named")[0]["images"]
    assert any("skipped 1 of 3 files" in line and "c.png" in line for line in said)


def test_with_known_pixels_only_these_are_used_and_nothing_is_scanned(made: dict[str, Path], tmp_path: Path) -> None:
    seen, other = levels(24, 24, seed=0), levels(24, 24, seed=1)
    white = np.zeros((24, 24), dtype=bool)
    white[:9, 6:18] = True
    Image.fromarray(white.astype(np.uint8) * 255).save(tmp_path / "known.png")
    outputs = []
    for name, pixels in (("a", seen), ("b", np.where(white[:, :, None], seen, other))):
        folder = tmp_path / name
        folder.mkdir()
        Image.fromarray(pixels).save(folder / "image.png")
        record, said = scanned(made, [folder / "image.png"], folder / "out", known=tmp_path / "known.png")
        assert names_in(folder / "out") == ["design.json", "image.png"]
        (entry,) = record["images"]
        assert (record["simulated"], entry["whole_image"], len(entry["scans"])) == (False, None, 1)
        assert entry["scans"][0]["after"] is None
        assert said[-1].startswith(f"next scan at {','.join(map(str, entry['scans'][0]['box']))}: expected gain ")
        outputs.append((entry["scans"], entry["before"], said[-1], (folder / "out" / "image.png").read_bytes()))
    assert outputs[0] == outputs[1]
    Image.fromarray(~white).save(tmp_path / "known.png")
    record, _ = scanned(made, [tmp_path / "a" / "image.png"], tmp_path / "out", known=tmp_path / "known.png")
    assert record["images"][0]["before"] != outputs[0][1]


def test_a_picture_of_known_pixels_is_resized(made: dict[str, Path], tmp_path: Path) -> None:
    white = np.zeros((20, 20), dtype=bool)
    white[:10, 5:15] = True
    for name, scale in (("same", 1), ("large", 3)):
        Image.fromarray(white.repeat(scale, axis=0).repeat(scale, axis=1)).save(tmp_path / f"{name}.png")
    image = photo(tmp_path / "a.png")
    same, _ = scanned(made, [image], tmp_path / "out", known=tmp_path / "same.png")
    large, said = scanned(made, [image], tmp_path / "out", known=tmp_path / "large.png", fit_mask=True)
    assert large["images"][0]["scans"] == same["images"][0]["scans"]
    assert any("large.png is 60 x 60: it is resized to 20 x 20" in line for line in said)


def test_sixteen_bit_images_are_scanned_at_their_bit_depth_or_the_given_one(
    made: dict[str, Path], tmp_path: Path
) -> None:
    grey = levels(8, 8)[:, :, 0]
    eight, twelve = tmp_path / "eight.png", tmp_path / "twelve.png"
    Image.fromarray(grey).save(eight)
    Image.fromarray(np.round(grey * (4095 / 255)).astype(np.uint16)).save(twelve)
    usual, _ = scanned(made, [eight], tmp_path / "a", steps=1)
    deep, said = scanned(made, [twelve], tmp_path / "b", steps=1)
    dark, silent = scanned(made, [twelve], tmp_path / "c", steps=1, white=65_535)
    assert deep["images"][0]["scans"] == usual["images"][0]["scans"] != dark["images"][0]["scans"]
    assert "it is read as a 12-bit image" in said[0] and not any("12-bit" in line for line in silent)
    assert (deep["white"], dark["white"]) == (None, 65_535)


@pytest.mark.parametrize("strange", [True, False])
def test_strange_images_get_a_warning_and_an_entry(made: dict[str, Path], tmp_path: Path, strange: bool) -> None:
    model = tmp_path / "model.safetensors"
    shutil.copy(made["model"], model)
    put_fits(load_conditional(model), fit_path(model), strange=strange)
    image, black = photo(tmp_path / "a.png", 8, 8), tmp_path / "black.png"
    pixels = np.zeros((8, 8), dtype=np.uint8)
    Image.fromarray(pixels).save(black)
    pixels[:4] = 255
    Image.fromarray(pixels).save(tmp_path / "known.png")
    for known, kind in ((None, "whole"), (tmp_path / "known.png", "partial"), (black, None)):
        record, said = scanned({**made, "model": model}, [image], tmp_path / "out", steps=1, known=known)
        (entry,) = record["images"]
        warned = [line for line in said if line.startswith(f"warning: {image} is in the strangest 1 % for ")]
        if kind is None:  # nothing is known, so nothing is strange
            assert (entry["strangeness"], entry["warning"], warned) == (None, None, [])
            continue
        found = strangeness(image, known=known, model=model)
        assert found.kind == kind
        assert entry["strangeness"] == {
            "judged": "whole" if known is None else "known",
            "score": found.score,
            "percentile": found.percentile,
            "strange": strange,
        }
        assert warned == ([entry["warning"]] if strange else []) and (entry["warning"] is not None) == strange
    fit_path(model).write_bytes(b"damaged")
    record, said = scanned({**made, "model": model}, [image], tmp_path / "out", steps=1)
    assert said[0].startswith("strange images cannot be detected: ") and record["images"][0]["strangeness"] is None


def test_either_all_files_are_written_or_none(made: dict[str, Path], tmp_path: Path) -> None:
    (tmp_path / "bad.png").write_text("no image")
    with pytest.raises(ValueError, match=r"bad\.png is not an image"):
        scanned(made, [photo(tmp_path / "a.png"), tmp_path / "bad.png"], tmp_path / "deep" / "out")
    assert names_in(tmp_path) == ["a.png", "bad.png"]


def test_folders_are_searched_and_bad_files_in_them_skipped(made: dict[str, Path], tmp_path: Path) -> None:
    folder = tmp_path / "rays"
    folder.mkdir()
    for name in "ab":
        photo(folder / f"{name}.png")
    (folder / "c.png").write_text("no image")
    record, said = scanned(made, [folder], folder / "out", steps=1)
    assert [entry["outputs"] for entry in record["images"]] == [["a.png"], ["b.png"]]
    assert any("skipped 1 of 3 files" in line and "c.png is not an image" in line for line in said)
    again, _ = scanned(made, [folder], folder / "out", steps=1)  # files in the output folder are not inputs
    assert again["images"] == record["images"]


def test_files_of_an_earlier_call_are_replaced_and_others_kept(made: dict[str, Path], tmp_path: Path) -> None:
    a, b = photo(tmp_path / "a.png"), photo(tmp_path / "b.png", seed=1)
    before = a.read_bytes()
    with pytest.raises(ValueError, match=r"a\.png already exists"):
        scanned(made, [a], tmp_path)
    assert (a.read_bytes(), names_in(tmp_path)) == (before, ["a.png", "b.png"])
    scanned(made, [a], tmp_path / "out")
    (tmp_path / "out" / "notes.txt").write_text("mine")
    scanned(made, [b], tmp_path / "out", steps=1)
    assert names_in(tmp_path / "out") == ["b.png", "design.json", "notes.txt"]


def test_images_with_equal_names_are_numbered(made: dict[str, Path], tmp_path: Path) -> None:
    (tmp_path / "x").mkdir()
    images = [photo(tmp_path / "a.png"), photo(tmp_path / "x" / "A.png", seed=1)]
    record, _ = scanned(made, images, tmp_path / "out", steps=1)
    assert [entry["outputs"] for entry in record["images"]] == [["a.png"], ["A-2.png"]]


def test_bad_input_is_refused_with_one_sentence(made: dict[str, Path], tmp_path: Path) -> None:
    image, out = photo(tmp_path / "a.png"), tmp_path / "out"
    Image.new("L", (20, 20), 255).save(tmp_path / "white.png")
    Image.new("L", (9, 9), 255).save(tmp_path / "small.png")
    cases: list[tuple[dict[str, Any], str]] = [
        ({"images": []}, "no images were given"),
        ({"task": None}, "no task was given: set --task to one of Edema, Effusion"),
        ({"task": "oedema"}, "does not predict 'oedema': choose one of Edema"),
        ({"task": "no findings"}, "does not predict 'no findings': choose one of no finding, Edema"),
        ({"points": 10_000}, "need too much memory: give fewer points"),
        ({"steps": 0}, "the number of scans is 0"),
        ({"n": 0}, "the number of completions is 0"),
        ({"side": 1.5}, r"side of a window is 1\.5"),
        ({"points": 1}, "points along a side"),
        ({"estimator": "best"}, "'eig' or 'epe'"),
        ({"temperature": "hot"}, "hot"),
        ({"known": tmp_path / "white.png"}, "nothing is left to scan of .*: the whole image is known"),
        ({"known": tmp_path / "small.png"}, r"small\.png is 9 x 9 but"),
        ({"images": [tmp_path / "none.png"]}, r"none\.png does not exist"),
    ]
    for case, message in cases:
        changes = dict(case)
        with pytest.raises(ValueError, match=message):
            scanned(made, changes.pop("images", [image]), out, **changes)
        assert not out.exists()


def test_model_and_classifier_must_fit_each_other(made: dict[str, Path], tmp_path: Path) -> None:
    image, out = photo(tmp_path / "a.png"), tmp_path / "out"
    torch.manual_seed(0)
    grey = ClassifierConfig(size=8, channels=1, names=("Edema",), trunk="plain", widths=(8,), blocks=1, head=0)
    save_classifier(AVPCNN(grey), tmp_path / "grey.safetensors")
    with pytest.raises(ValueError, match=r"makes images of 8 x 8 x 3, but .* expects 8 x 8 x 1"):
        scanned({**made, "animals": tmp_path / "grey.safetensors"}, [image], out, classifier="animals")
    translator = small_conditional()
    translator.process = Edges()
    save(translator, tmp_path / "edges.safetensors")
    with pytest.raises(ValueError, match=r"edges\.safetensors was not trained to complete images"):
        scanned({**made, "model": tmp_path / "edges.safetensors"}, [image], out)
    assert not out.exists()


def test_the_command_prints_its_scans(
    made: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["design", "scan", photo(tmp_path / "a.png"), "--model", made["model"], "--classifier", made["findings"]]
    words += ["--task", "effusion", "-n", 2, "--points", 3, "--estimator", "epe", "-o", tmp_path / "out"]
    main([str(word) for word in (*words, "--steps", 1)])
    said = capsys.readouterr().out.splitlines()
    assert said[2].startswith("scan 1 at ")
    assert str(tmp_path / "out" / "design.json") in said[-1]
    record = json.loads((tmp_path / "out" / "design.json").read_text())
    assert (record["estimator"], record["n"], record["steps"], record["points"]) == ("epe", 2, 1, 3)
    Image.new("L", (20, 20), 0).save(tmp_path / "black.png")
    Image.new("L", (10, 10), 0).save(tmp_path / "small.png")
    main([str(word) for word in (*words, "--known", tmp_path / "small.png", "--fit-mask")])
    assert "next scan at " in capsys.readouterr().out
    for wrong in (("--known", tmp_path / "black.png", "--steps", 3), ("--device", "cuda"), ("--points", 1)):
        if "cuda" in wrong and torch.cuda.is_available():
            continue
        with pytest.raises(SystemExit) as stop:
            main([str(word) for word in (*words, *wrong)])
        error = capsys.readouterr().err
        assert (stop.value.code, error.count("\n"), error[:9]) == (2, 1, "condvae: ")


def test_scans_end_when_everything_is_known(made: dict[str, Path], tmp_path: Path) -> None:
    record, said = scanned(made, [photo(tmp_path / "a.png")], tmp_path / "out", steps=9, side=0.5, points=2)
    (entry,) = record["images"]
    assert len({tuple(scan["box"]) for scan in entry["scans"]}) == len(entry["scans"]) == 4
    assert "nothing is left to scan after scan 4" in said[-2]
    np.testing.assert_allclose(entry["scans"][-1]["after"], entry["whole_image"], atol=1e-6)


def test_an_image_with_nothing_left_to_scan_is_named(made: dict[str, Path], tmp_path: Path) -> None:
    """The grid has four corners, and all of them have been scanned."""
    seen = np.zeros((8, 8), dtype=np.uint8)
    for row, column in ((0, 0), (0, 6), (6, 0), (6, 6)):
        seen[row : row + 2, column : column + 2] = 255
    (tmp_path / "known").mkdir()
    images = [photo(tmp_path / f"{name}.png", 8, 8) for name in "ab"]
    Image.fromarray(0 * seen).save(tmp_path / "known" / "a.png")
    Image.fromarray(seen).save(tmp_path / "known" / "b.png")
    with pytest.raises(ValueError, match=r"nothing is left to scan of .*b\.png, because all windows are known"):
        scanned(made, images, tmp_path / "out", known=tmp_path / "known", points=2)
    assert not (tmp_path / "out").exists()


def test_a_single_completion_has_no_gain_and_causes_a_warning(made: dict[str, Path], tmp_path: Path) -> None:
    record, said = scanned(made, [photo(tmp_path / "a.png")], tmp_path / "out", n=1)
    assert "with one completion" in said[0]
    assert all(scan["expected_gain_nats"] == 0 for scan in record["images"][0]["scans"])


def test_boxes_lie_inside_pictures_smaller_than_the_grid(made: dict[str, Path], tmp_path: Path) -> None:
    for side in (1, 3):
        record, _ = scanned(made, [photo(tmp_path / f"{side}.png", side, side)], tmp_path / f"out{side}", steps=8)
        for scan in record["images"][0]["scans"]:
            x, y, width, height = scan["box"]
            assert width >= 1 <= height and 0 <= x <= side - width and 0 <= y <= side - height


def test_file_names_need_not_be_text(made: dict[str, Path], tmp_path: Path) -> None:
    names = [b"\xff\xfe.png", "ray \N{SKULL}\nnew line.png".encode(), b"x" * 240 + b".png"]
    images = []
    for name in names:
        images.append(Path(os.fsdecode(os.fsencode(tmp_path / "") + b"/" + name)))
        photo(tmp_path / "a.png").rename(images[-1])
    record, _ = scanned(made, images, tmp_path / "out", steps=1)
    outputs = [entry["outputs"][0] for entry in record["images"]]
    assert outputs[0] == "??.png" and sorted([*outputs, "design.json"]) == names_in(tmp_path / "out")
