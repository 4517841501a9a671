"""Completions from files are measured as those of a method, and files that are not what they should be are refused."""

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
    """Write what the method answers, as its authors would."""
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


def test_a_models_own_completions_have_the_models_numbers(tmp_path: Path, data: Dataset) -> None:
    problems = Problems.choose(data, SETTINGS)
    ours = small_methods(small_subject(), data, k=SETTINGS.n)
    copies, originals = [], {}
    for i, arrays in itertools.product((0, 2), (False, True)):  # one that varies, and one that does not
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
                # Completed one by one, a pixel may be rounded to the other side.
                expected = pytest.approx(cell["mean"], rel=1e-3, abs=1e-6)
                assert mine["metrics"][metric][column]["mean"] == expected, metric


@pytest.fixture
def ready(tmp_path: Path, data: Dataset) -> tuple[Path, Problems]:
    problems = Problems.choose(data, QUICK)
    fill(tmp_path / "ready", methods_of(small_subject(), ["1"], ["mean"], k=2)[0], problems, QUICK)
    ExternalCompletions.open("ready", tmp_path / "ready", problems, k=2)
    return tmp_path / "ready", problems


def test_files_that_are_not_what_they_should_be_are_refused(ready: tuple[Path, Problems], data: Dataset) -> None:
    folder, problems = ready
    bin_folder = folder / "0.2-0.4"
    deep, wide = problems.names[problems.deep[0]], problems.names[1]
    assert (bin_folder / deep).is_dir() and (bin_folder / f"{wide}.webp").is_file()

    def refused(message: str) -> None:
        with pytest.raises(ValueError, match=message):
            ExternalCompletions.open("ready", folder, problems, k=2)

    (bin_folder / f"{wide}.webp").rename(bin_folder / "99999.webp")
    refused(f"0.2-0.4 lacks completions of {wide}")
    (bin_folder / "99999.webp").rename(bin_folder / f"{wide}.webp")
    Image.new("RGB", (32, 32)).save(bin_folder / "99999.png")
    refused("not asked for: 99999")
    (bin_folder / "99999.png").rename(bin_folder / f"{wide}.png")
    refused(f"two things under one name: {wide}")
    (bin_folder / f"{wide}.png").unlink()
    (bin_folder / "notes.txt").write_text("")
    refused("notes.txt is not one of")
    (bin_folder / "notes.txt").unlink()
    (bin_folder / deep / "002.png").rename(bin_folder / deep / "003.png")
    refused("has gaps")
    (bin_folder / deep / "003.png").rename(bin_folder / deep / "1.webp")
    refused("completion 1 twice")
    (bin_folder / deep / "1.webp").unlink()
    refused("one completion of some images and several of others")
    Image.new("RGB", (32, 32)).save(bin_folder / deep / "002.png")
    with pytest.raises(ValueError, match=f"0-0.2 has fewer than 3 completions of {deep}"):
        ExternalCompletions.open("ready", folder, problems, k=3)
    ExternalCompletions.open("ready", folder, problems, k=3, deep=False)  # for FID one of each is enough
    Image.new("RGB", (31, 32)).save(bin_folder / f"{wide}.webp")
    refused("31 x 32 pixels, expected 32 x 32")
    (bin_folder / f"{wide}.webp").write_bytes(b"no picture")
    refused("cannot be read as an image")
    (folder / "0.2-0.4").rename(folder / "0.3-0.4")
    refused("holds 0.3-0.4, expected 0-0.2, 0.2-0.4")


def test_every_file_is_looked_at_before_anything_is_computed(ready: tuple[Path, Problems]) -> None:
    folder, problems = ready
    deep = folder / "0.2-0.4" / problems.names[problems.deep[0]]
    second = deep / "002.png"
    whole = second.read_bytes()

    def refused(message: str) -> None:
        with pytest.raises(ValueError, match=message):
            ExternalCompletions.open("ready", folder, problems, k=2)

    Image.new("RGB", (16, 16)).save(second)
    refused("002.png is 16 x 16 pixels, expected 32 x 32")
    Image.fromarray(np.zeros((32, 32), np.uint16)).save(second)
    refused("002.png has pixels of the kind I;16, expected grey or RGB of 8 bits")
    Image.new("1", (20_000, 20_000)).save(second)
    refused("002.png cannot be read as an image .*: make it again")
    second.unlink()
    second.symlink_to(folder / "nowhere")
    refused("002.png is not a completion")
    second.unlink()
    second.mkdir()
    refused("002.png is not a completion")
    second.rmdir()
    second.write_bytes(whole)
    deep.rename(folder.parent / "aside")
    array = deep.with_name(f"{deep.name}.npy")
    for content, message in (
        (np.zeros((2, 32, 32, 3), np.float32), r"is float32 \[2, 32, 32, 3\], expected uint8 \[K, 32, 32, 3\]"),
        (np.zeros((2, 3, 32, 32), np.uint8), r"is uint8 \[2, 3, 32, 32\], expected uint8 \[K, 32, 32, 3\]"),
        (np.zeros((0, 32, 32, 3), np.uint8), "cannot be read|expected uint8"),
    ):
        np.save(array, content)
        refused(message)
    with array.open("wb") as file:
        np.savez(file, content)
    refused("holds several arrays")


def test_inputs_that_come_back_with_their_holes_are_no_completions(
    ready: tuple[Path, Problems], data: Dataset, tmp_path: Path
) -> None:
    _, problems = ready
    write_inputs(problems, tmp_path / "inputs", k=2)
    method = ExternalCompletions.open("untouched", tmp_path / "inputs" / "images", problems, k=2)
    with pytest.raises(ValueError, match="is transparent in places: a completion has no holes"):
        experiment([method], data, tmp_path / "out", settings=QUICK, networks=small_networks(), say=lambda text: None)


def shifted(path: Path, by: int) -> None:
    with Image.open(path) as picture:
        levels = np.asarray(picture).astype(np.int64)
    Image.fromarray(np.where(levels > 127, levels - by, levels + by).astype(np.uint8)).save(path)


def test_known_pixels_a_little_off_are_put_back_and_counted(
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
    assert "known pixels were a little off in 1 completions" in said[-1]
    shifted(path, 9)
    with pytest.raises(ValueError, match=f"image {problems.names[place]} in the bin 0.4-0.6 by .* another hole"):
        measured("at last")


def test_the_completion_of_another_image_is_an_error(
    ready: tuple[Path, Problems], data: Dataset, tmp_path: Path
) -> None:
    folder, problems = ready
    one, other = (folder / "0-0.2" / problems.names[i] for i in problems.deep)
    one.rename(folder / "aside")
    other.rename(one)
    (folder / "aside").rename(other)
    method = ExternalCompletions.open("ready", folder, problems, k=2)
    with pytest.raises(ValueError, match="of another image or another hole"):
        experiment([method], data, tmp_path / "out", settings=QUICK, networks=small_networks(), say=lambda text: None)


def test_inputs_tell_all_that_a_program_needs_and_nothing_of_the_answer(tmp_path: Path, data: Dataset) -> None:
    problems = Problems.choose(data, QUICK)
    write_inputs(problems, tmp_path / "new" / "inputs", k=2)
    folder = tmp_path / "new" / "inputs"
    assert [path.name for path in folder.parent.iterdir()] == ["inputs"]
    index = json.loads((folder / "index.json").read_text())
    assert (index["names"], index["k"], index["size"]) == (problems.names, 2, 32)
    assert index["deep"] == [problems.names[i] for i in problems.deep]
    assert "0.png, 1.png, ... 1.png" in (folder / "README.txt").read_text()
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
