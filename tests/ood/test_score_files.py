"""`condvae ood score` and `condvae ood fit`: printed lines, reports, fits and errors."""

import csv
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from helpers.fitted_models import fitted_model, put_fits
from helpers.pictures_to_complete import levels, photo
from PIL import Image

from condvae import save
from condvae.cli import main
from condvae.ood import fit_path, strangeness
from condvae.weights import load_conditional as load

LEGEND = "percentile: the percentage of held-out images"


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return fitted_model(tmp_path_factory.mktemp("models"))


def printed(capsys: pytest.CaptureFixture[str], *words: str | Path) -> list[str]:
    """Return the lines that `condvae ood score` prints below the legend."""
    capsys.readouterr()
    main(["ood", "score", *map(str, words)])
    legend, *lines = capsys.readouterr().out.splitlines()
    assert legend.startswith(LEGEND)
    return lines


def refused(capsys: pytest.CaptureFixture[str], folder: Path, *words: str | Path) -> str:
    """Run a command that must fail; return its one-line error after checking that nothing was written."""
    capsys.readouterr()
    before = sorted(path.name for path in folder.iterdir())
    with pytest.raises(SystemExit) as stopped:
        main(["ood", *map(str, words)])
    assert stopped.value.code == 2
    error = capsys.readouterr().err.strip()
    assert error.startswith("condvae: ") and len(error.splitlines()) == 1
    assert sorted(path.name for path in folder.iterdir()) == before
    return error


def test_a_line_for_each_file(tmp_path: Path, model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    paths = [photo(tmp_path / f"{i}.png", 8, 8, seed=i) for i in range(2)]
    for hole, seen in (([], "whole image"), (["--half", "left"], "50 % known")):
        found = [strangeness(path, model=model, half="left" if hole else None) for path in paths]
        expected = [
            f"{path}: percentile {one.percentile:.1f}, log-density {one.score:,.1f}, {seen}"
            for path, one in zip(paths, found, strict=True)
        ]
        lines = printed(capsys, *paths, "--model", model, *hole)
        assert lines == [*expected, f"0 of 2 are in the strangest 1 % for {model}"]
        assert printed(capsys, paths[1], "--model", model, *hole) == expected[1:]


def test_strange_files_are_marked(tmp_path: Path, model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fit = put_fits(load(model), tmp_path / "fit.safetensors", strange=True, score="likelihood")
    path = photo(tmp_path / "x.png", 8, 8)
    (line,) = printed(capsys, path, "--model", model, "--fit", fit)
    assert line.startswith(f"{path}: percentile 0.8, likelihood ") and line.endswith(", whole image: STRANGE")


def test_reports_contain_the_scores(tmp_path: Path, model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "photos"
    folder.mkdir()
    photo(folder / "whole.png", 8, 8)
    image = np.dstack([levels(8, 8), np.full((8, 8), 255, dtype=np.uint8)])
    image[:2, :, 3] = 0
    Image.fromarray(image).save(folder / "transparent.png")
    (folder / "bad.png").write_text("no picture")
    for kind in ("json", "csv"):
        *_, passed, count, wrote = printed(capsys, folder, "--model", model, "-o", tmp_path / "deep" / f"r.{kind}")
        assert passed.startswith("skipped 1 of 3 files:") and "bad.png is not an image" in passed
        assert (count, wrote) == (
            f"0 of 2 are in the strangest 1 % for {model}",
            f"wrote {tmp_path / 'deep' / f'r.{kind}'}",
        )
    plain = json.loads((tmp_path / "deep" / "r.json").read_text())
    assert (plain["format"], plain["seed"], len(plain["passed_over"])) == ("condvae strangeness", 0, 1)
    assert plain["fit"]["partial"]["score"] == "parts" and plain["fit"]["whole"]["images"] == 30
    with (tmp_path / "deep" / "r.csv").open() as file:
        rows = list(csv.DictReader(file))
    for entry, row, name in zip(plain["images"], rows, ("transparent", "whole"), strict=True):
        found = strangeness(folder / f"{name}.png", model=model)
        assert row["image"] == entry["image"]["path"] == str(folder / f"{name}.png")
        assert float(row["score"]) == entry["score"] == found.score
        assert float(row["percentile"]) == entry["percentile"] == found.percentile
        assert row["kind"] == entry["kind"] == found.kind
        assert float(row["known_share"]) == entry["known_share"] == (0.75 if name == "transparent" else 1)
        assert (entry["strange"], row["strange"]) == (False, "False")
    assert [path.name for path in sorted((tmp_path / "deep").iterdir())] == ["r.csv", "r.json"]
    for kind, mine in (("json", '{"format": "mine"}'), ("csv", "image,kind\n"), ("csv", "")):
        report = tmp_path / "deep" / f"r.{kind}"
        printed(capsys, folder / "whole.png", "--model", model, "-o", report)  # this replaces an earlier report
        report.write_text(mine)
        said = refused(capsys, tmp_path / "deep", "score", folder / "whole.png", "--model", model, "-o", report)
        assert f"{report} already exists and is not a report of condvae ood score: give --out another name" in said
        assert report.read_text() == mine
        report.unlink()


def test_sixteen_bit_images_are_scored_at_their_bit_depth_or_the_given_one(
    tmp_path: Path, model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    grey, path = levels(8, 8)[:, :, 0], tmp_path / "twelve.png"
    Image.fromarray(np.round(grey * (4095 / 255)).astype(np.uint16)).save(path)
    noted, line = printed(capsys, path, "--model", model)
    assert "it is read as a 12-bit image" in noted
    *_, dark, _ = printed(capsys, path, "--model", model, "--white", "65535", "-o", tmp_path / "r.json")
    assert line != dark and json.loads((tmp_path / "r.json").read_text())["white"] == 65_535
    assert strangeness(path, model=model) == replace(strangeness(grey, model=model), notes=(noted,))
    assert strangeness(path, model=model, white=65_535).score != strangeness(grey, model=model).score


def test_a_folder_is_scored_in_blocks_with_a_folder_of_holes(
    tmp_path: Path, model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, holes = tmp_path / "photos", tmp_path / "holes"
    folder.mkdir()
    holes.mkdir()
    for i in range(18):  # more than are scored together
        photo(folder / f"{i:02}.png", 8, 8, seed=i)
        hidden = np.zeros((8, 8), dtype=np.uint8)
        hidden[: i % 7] = 255
        Image.fromarray(hidden).save(holes / f"{i:02}.png")
    lines = printed(capsys, folder, "--hole", holes, "--model", model)
    shares = [f"{100 - 12.5 * (i % 7):.0f} % known" if i % 7 else "whole image" for i in range(18)]
    assert [line.split(", ")[-1] for line in lines[:-1]] == shares


def test_an_image_without_known_pixels_cannot_be_scored(
    tmp_path: Path, model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    picture, unknown = photo(tmp_path / "x.png", 8, 8), tmp_path / "unknown.png"
    Image.new("L", (8, 8), 0).save(unknown)
    said = refused(capsys, tmp_path, "score", picture, "--known", unknown, "--model", model)
    assert "no pixel of" in said and "is known" in said


def test_a_fit_only_replaces_another_fit(tmp_path: Path, model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    own = tmp_path / "own.safetensors"
    own.write_bytes(model.read_bytes())
    (tmp_path / "folder.safetensors").mkdir()
    for out, said in (
        (own, "already exists and is not a fit of condvae ood fit"),
        (tmp_path / "folder.safetensors", "is a folder"),
    ):
        asked = ("fit", "--data", tmp_path, "--model", own, "--fit-images", "3", "--device", "cpu", "--out", out)
        assert said in refused(capsys, tmp_path, *asked)
        assert own.read_bytes() == model.read_bytes()


def test_bad_input_is_one_sentence_and_nothing_is_written(
    tmp_path: Path, model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    good = photo(tmp_path / "x.png", 8, 8)
    (tmp_path / "text.png").write_text("no picture")
    (tmp_path / "only").mkdir()
    (tmp_path / "only" / "bad.png").touch()
    (tmp_path / "folder.json").mkdir()
    save(load(model), tmp_path / "bare.safetensors")
    known: list[str | Path] = ["score", good, "--model", model]
    cases: list[tuple[list[str | Path], str]] = [
        (["score", "--model", model], "no images were given"),
        (["score", good, "--model", tmp_path / "bare.safetensors"], "bare.safetensors has no fit"),
        (["score", good, "--model", "nonsense"], "unknown model 'nonsense'"),
        ([*known, "--fit", tmp_path / "none.safetensors"], "none.safetensors does not exist"),
        ([*known, "--fit", model], "model.safetensors is a model file from condvae train"),
        ([*known, "--half", "left", "--random"], "2 ways, half and random"),
        ([*known, "--box", "1,2"], "four whole numbers"),
        ([*known, "--out", tmp_path / "report.txt"], "report.txt, expected a name that ends in .json"),
        ([*known, "--out", tmp_path / "folder.json"], "folder.json is a folder"),
        ([*known, "--out", tmp_path / "x.png" / "r.json"], "cannot be written to"),
        (
            ["score", good, tmp_path / "text.png", "--model", model, "--out", tmp_path / "r.json"],
            "text.png is not an image",
        ),
        (["score", tmp_path / "only", "--model", model], "the only image could not be scored"),
        ([*known, "--seed", "-1"], "the seed is -1"),
        (["fit", "--model", model], "no data was given"),
        (["fit", "--model", model, "--data", tmp_path / "none"], "does not exist"),
        (["fit", "--model", model, "--data", "x", "--score", "nonsense"], "unknown score 'nonsense'"),
        (["fit", "--model", model, "--data", "x", "--score", "completed-ipa"], "only works in condvae ood experiment"),
        (
            ["fit", "--model", model, "--data", "x", "--score", "completed-nearest"],
            "(available here: ipa): in condvae ood experiment use ",
        ),
        (["fit", "--model", "cifar10", "--data", "x"], "is installed with condvae, together with its own fit"),
        (["fit", "--model", "cifar10", "--data", "x"], "give --out FILE, and later use condvae ood score --fit FILE"),
        (["fit", "--model", model, "--data", "x", "--out", tmp_path / "fit.txt"], "does not end in .safetensors"),
        (["fit", "--model", model, "--data", "x", "--out", good / "f.safetensors"], "cannot be written to"),
    ]
    for words, message in cases:
        assert message in refused(capsys, tmp_path, *words), words


def test_fits_use_the_split_of_the_training(
    tmp_path: Path, model: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    np.save("images.npy", np.stack([levels(8, 8, seed=i) for i in range(50)]))
    save(load(model), "run/model.safetensors", record={"options": {"validation": 7, "split_seed": 3}})
    words = ["ood", "fit", "--data", "images.npy", "--model", "run", "--score", "gradient", "--device", "cpu"]
    main([*words, "--held-out", "130"])
    first, *lines = capsys.readouterr().out.splitlines()
    assert " 7 validation " in first
    assert lines[0] == "fitting the score gradient to partly hidden images, as in training ..."
    assert "percentiles compare with 130 held-out observations of 7 images: with fewer than 99 different" in lines[1]
    assert "with 7 held-out observations: with fewer than 99, no image can be in the strangest 1 %" in lines[3]
    assert lines[-1].startswith("wrote run/model.ood.safetensors, ")
    assert strangeness(levels(8, 8), model="run").score_name == "gradient"
    assert not strangeness(levels(8, 8), model="run").strange
    main([*words, "--held-out", "9", "--validation", "4", "--split-seed", "4", "--out", "other.safetensors"])
    assert " 4 validation " in capsys.readouterr().out
    main([*words, "--fit-images", "40", "--held-out", "9", "--validation", "0"])
    assert "training images that are not fitted are held out instead" in capsys.readouterr().out
    told = printed(capsys, photo(tmp_path / "x.png", 8, 8), "--model", "run")
    assert len(told) == 2 and told[0].startswith("the held-out images are training images that were not fitted: ")


def test_a_vae_is_fitted_to_whole_images(tmp_path: Path, model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from helpers.models import small_vae

    np.save(tmp_path / "images.npy", np.stack([levels(8, 8, seed=i) for i in range(20)]))
    path = tmp_path / "vae.safetensors"
    save(small_vae(), path)
    main(["ood", "fit", "--data", str(tmp_path / "images.npy"), "--model", str(path), "--score", "likelihood"])
    assert "fitting the score likelihood to whole images" in capsys.readouterr().out
    assert fit_path(path).is_file() and strangeness(levels(8, 8), model=path).kind == "whole"


def test_the_help_shows_the_default_of_the_library() -> None:
    from condvae.cli.ood_fit import OODFit
    from condvae.ood import DEFAULT_SCORE

    assert OODFit().score == DEFAULT_SCORE
