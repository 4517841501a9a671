"""Completions from files are measured like those of any method, and invalid files are rejected."""

import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from helpers.evaluation_runs import FACES, UNIT_SIZES, numbers, small_methods, small_networks, small_subject
from PIL import Image

from condvae.data import Dataset, open_data
from condvae.experiments.evaluation import (
    EvaluationSettings,
    ExternalCompletions,
    Method,
    Problems,
    experiment,
    methods_of,
    write_inputs,
)
from condvae.images.contact_sheet import to_pil
from condvae.metrics import HOLE_BINS
from condvae.observe.observation import observe_levels

SETTINGS = EvaluationSettings(images=4, deep_images=2, n=2, metrics=("inception", "lpips", "pixels", "coverage"))
QUICK = EvaluationSettings(images=4, deep_images=2, n=2, metrics=("pixels",))


@pytest.fixture(scope="module")
def data() -> Dataset:
    return open_data(FACES)


def fill(
    folder: Path, method: Method, problems: Problems, settings: EvaluationSettings, *, arrays: bool = False
) -> None:
    """Write the completions of a method to files, as another program would."""
    cpu, deep = torch.device("cpu"), set(problems.deep.tolist())
    for number, hole in enumerate(HOLE_BINS):
        for place, name in enumerate(problems.names):
            here = np.array([place])
            seen = observe_levels(problems.truth(here, cpu), problems.known(number, here, cpu))
            many = place in deep and method.varies
            made = method.complete(seen, settings.n if many else 1, seed=settings.seed, hole=number, places=here)[0]
            (folder / str(hole)).mkdir(parents=True, exist_ok=True)
            if arrays:
                np.save(folder / str(hole) / f"{name}.npy", made.permute(0, 2, 3, 1).numpy())
            elif many:
                (folder / str(hole) / name).mkdir()
                for k, image in enumerate(made):
                    to_pil(image).save(folder / str(hole) / name / f"{k + 1:03}.png")
            else:
                to_pil(made[0]).save(folder / str(hole) / f"{name}.webp", lossless=True, exact=True)


def test_completions_from_files_have_the_numbers_of_their_method(tmp_path: Path, data: Dataset) -> None:
    problems = Problems.choose(data, SETTINGS)
    ours = small_methods(small_subject(), data, k=SETTINGS.n)
    copies, originals = [], {}
    for i, arrays in itertools.product((0, 2), (False, True)):  # one method that varies, and one that does not
        name = f"copy {i}, {'arrays' if arrays else 'pictures'}"
        fill(tmp_path / name, ours[i], problems, SETTINGS, arrays=arrays)
        copies.append(ExternalCompletions.open(name, tmp_path / name, problems, k=SETTINGS.n))
        originals[name] = ours[i].name
    result = experiment(
        [ours[0], ours[2], *copies],
        data,
        tmp_path / "out",
        settings=SETTINGS,
        networks=small_networks(),
        unit_sizes=UNIT_SIZES,
        say=lambda text: None,
    )
    methods = numbers(result)["methods"]
    for name, original in originals.items():
        mine, theirs = methods[name], methods[original]
        assert (mine["varies"], mine["k"], mine["known_pixels_put_back"]) == (theirs["varies"], theirs["k"], 0)
        assert mine["coverage"] == theirs["coverage"]
        for metric, columns in theirs["metrics"].items():
            for column, cell in columns.items():
                # Single images may differ from batches by rounding.
                expected = pytest.approx(cell["mean"], rel=1e-3, abs=1e-6)
                assert mine["metrics"][metric][column]["mean"] == expected, metric


@pytest.fixture
def ready(tmp_path: Path, data: Dataset) -> tuple[Path, Problems]:
    problems = Problems.choose(data, QUICK)
    fill(tmp_path / "ready", methods_of(small_subject(), ["1"], ["mean"], k=2)[0], problems, QUICK)
    ExternalCompletions.open("ready", tmp_path / "ready", problems, k=2)
    return tmp_path / "ready", problems


def test_invalid_names_and_counts_are_rejected(ready: tuple[Path, Problems], data: Dataset) -> None:
    folder, problems = ready
    bin_folder = folder / "0.2-0.4"
    deep, wide = problems.names[problems.deep[0]], problems.names[1]
    assert (bin_folder / deep).is_dir() and (bin_folder / f"{wide}.webp").is_file()

    def rejected(message: str) -> None:
        with pytest.raises(ValueError, match=message):
            ExternalCompletions.open("ready", folder, problems, k=2)

    (bin_folder / f"{wide}.webp").rename(bin_folder / "99999.webp")
    rejected(f"0.2-0.4 has no completions of {wide}")
    (bin_folder / "99999.webp").rename(bin_folder / f"{wide}.webp")
    Image.new("RGB", (32, 32)).save(bin_folder / "99999.png")
    rejected("completions of other images, 99999")
    (bin_folder / "99999.png").rename(bin_folder / f"{wide}.png")
    rejected(f"two files or folders named {wide}")
    (bin_folder / f"{wide}.png").unlink()
    (bin_folder / "notes.txt").write_text("")
    rejected("notes.txt is not a completion")
    (bin_folder / "notes.txt").unlink()
    (bin_folder / deep / "002.png").rename(bin_folder / deep / "003.png")
    rejected("numbers have gaps")
    (bin_folder / deep / "003.png").rename(bin_folder / deep / "1.webp")
    rejected("completion 1 twice")
    (bin_folder / deep / "1.webp").unlink()
    rejected("one completion of some images and several of others")
    Image.new("RGB", (32, 32)).save(bin_folder / deep / "002.png")
    with pytest.raises(ValueError, match=f"0-0.2 has fewer than 3 completions of {deep}"):
        ExternalCompletions.open("ready", folder, problems, k=3)
    ExternalCompletions.open("ready", folder, problems, k=3, deep=False)  # one of each is enough for FID
    Image.new("RGB", (31, 32)).save(bin_folder / f"{wide}.webp")
    rejected("31 x 32 pixels, expected 32 x 32")
    (bin_folder / f"{wide}.webp").write_bytes(b"no picture")
    rejected("cannot be read as an image")
    (folder / "0.2-0.4").rename(folder / "0.3-0.4")
    rejected("contains other folders, 0.3-0.4: expected only 0-0.2, 0.2-0.4")


def test_every_file_is_checked_before_anything_is_computed(ready: tuple[Path, Problems]) -> None:
    folder, problems = ready
    deep = folder / "0.2-0.4" / problems.names[problems.deep[0]]
    second = deep / "002.png"
    whole = second.read_bytes()

    def rejected(message: str) -> None:
        with pytest.raises(ValueError, match=message):
            ExternalCompletions.open("ready", folder, problems, k=2)

    Image.new("RGB", (16, 16)).save(second)
    rejected("002.png is 16 x 16 pixels, expected 32 x 32")
    Image.fromarray(np.zeros((32, 32), np.uint16)).save(second)
    rejected("002.png has pixels of mode I;16, expected 8-bit grey or RGB")
    Image.new("1", (20_000, 20_000)).save(second)
    rejected("002.png cannot be read as an image .*: create it again")
    second.unlink()
    second.symlink_to(folder / "nowhere")
    rejected("002.png is not a completion")
    second.unlink()
    second.mkdir()
    rejected("002.png is not a completion")
    second.rmdir()
    second.write_bytes(whole)
    deep.rename(folder.parent / "moved")
    array = deep.with_name(f"{deep.name}.npy")
    for content, message in (
        (np.zeros((2, 32, 32, 3), np.float32), r"float32 array of shape \[2, 32, 32, 3\], .* uint8 \[K, 32, 32, 3\]"),
        (np.zeros((2, 3, 32, 32), np.uint8), r"uint8 array of shape \[2, 3, 32, 32\], expected uint8 \[K, 32, 32, 3\]"),
        (np.zeros((0, 32, 32, 3), np.uint8), "cannot be read|expected uint8"),
    ):
        np.save(array, content)
        rejected(message)
    with array.open("wb") as file:
        np.savez(file, content)
    rejected("contains several arrays")


def test_inputs_returned_with_their_holes_are_rejected(
    ready: tuple[Path, Problems], data: Dataset, tmp_path: Path
) -> None:
    _, problems = ready
    write_inputs(problems, tmp_path / "inputs", k=2)
    method = ExternalCompletions.open("untouched", tmp_path / "inputs" / "images", problems, k=2)
    with pytest.raises(ValueError, match="has transparent pixels, but a completion has no holes"):
        experiment([method], data, tmp_path / "out", settings=QUICK, networks=small_networks(), say=lambda text: None)


def shifted(path: Path, by: int) -> None:
    with Image.open(path) as picture:
        levels = np.asarray(picture).astype(np.int64)
    Image.fromarray(np.where(levels > 127, levels - by, levels + by).astype(np.uint8)).save(path)


def test_small_errors_of_known_pixels_are_corrected_and_counted(
    ready: tuple[Path, Problems], data: Dataset, tmp_path: Path
) -> None:
    folder, problems = ready
    place = int(problems.deep[1])
    path = folder / "0.4-0.6" / problems.names[place] / "001.png"

    def measured(name: str) -> dict[str, Any]:
        method = ExternalCompletions.open("ready", folder, problems, k=2)
        found = experiment([method], data, tmp_path / name, settings=QUICK, networks=small_networks(), say=said.append)
        return dict(numbers(found)["methods"]["ready"])

    said: list[str] = []
    assert measured("before")["known_pixels_put_back"] == 0
    shifted(path, 8)
    assert measured("after")["known_pixels_put_back"] == 1
    assert "known pixels were corrected in 1 completions" in said[-1]
    shifted(path, 9)
    with pytest.raises(ValueError, match=f"image {problems.names[place]} in the bin 0.4-0.6 by .* another hole"):
        measured("at last")


def test_the_completion_of_another_image_is_an_error(
    ready: tuple[Path, Problems], data: Dataset, tmp_path: Path
) -> None:
    folder, problems = ready
    one, other = (folder / "0-0.2" / problems.names[i] for i in problems.deep)
    one.rename(folder / "moved")
    other.rename(one)
    (folder / "moved").rename(other)
    method = ExternalCompletions.open("ready", folder, problems, k=2)
    with pytest.raises(ValueError, match="not of another image or another hole"):
        experiment([method], data, tmp_path / "out", settings=QUICK, networks=small_networks(), say=lambda text: None)


def test_inputs_are_complete_and_contain_no_hidden_pixels(tmp_path: Path, data: Dataset) -> None:
    problems = Problems.choose(data, QUICK)
    write_inputs(problems, tmp_path / "new" / "inputs", k=2)
    folder = tmp_path / "new" / "inputs"
    assert [path.name for path in folder.parent.iterdir()] == ["inputs"]
    index = json.loads((folder / "index.json").read_text())
    assert (index["names"], index["k"], index["size"]) == (problems.names, 2, 32)
    assert index["deep"] == [problems.names[i] for i in problems.deep]
    assert "NAME/0.png, 1.png   for each" in (folder / "README.txt").read_text()
    for k, files in ((1, "0.png   for"), (3, "0.png, 1.png, 2.png   for"), (9, "0.png, 1.png, ... 8.png   for")):
        write_inputs(problems, tmp_path / str(k), k=k)
        text = (tmp_path / str(k) / "README.txt").read_text()
        assert f"NAME/{files}" in text and f'"deep" in index.json: {k} completion{"s" * (k > 1)}\n' in text
    cpu = torch.device("cpu")
    for number, hole in enumerate(index["bins"]):
        for place, name in enumerate(index["names"]):
            known = problems.known(number, np.array([place]), cpu)[0, 0].numpy()
            with Image.open(folder / "images" / hole / f"{name}.png") as picture:
                levels = np.asarray(picture)
            assert levels.shape == (32, 32, 4)
            assert ((levels[:, :, 3] == 255) == known).all()
            assert (levels[~known][:, :3] == 0).all()
            truth = problems.truth(np.array([place]), cpu)[0].permute(1, 2, 0).numpy()
            assert (levels[known][:, :3] == truth[known]).all()
            with Image.open(folder / "known" / hole / f"{name}.png") as picture:
                assert ((np.asarray(picture) == 255) == known).all()
    with pytest.raises(ValueError, match="not an empty folder"):
        write_inputs(problems, folder, k=2)
