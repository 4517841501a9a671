"""The recipe of the comparison with learned baselines, with networks and images that take milliseconds."""

import json
from pathlib import Path
from typing import Any

import pytest
from helpers.pretraining_runs import small_data
from helpers.recipe_calls import Call, run
from helpers.resumed_runs import times
from PIL import Image

from recipes.baselines_results import all_tables
from recipes.baselines_training import (
    LONG,
    RUNS,
    Limits,
    check_budgets,
    check_equal,
    model_of,
    models_of,
    parts_of,
)

pytestmark = pytest.mark.usefixtures("small_comparison")
MODELS = models_of(RUNS)
QUICK = {
    "minutes": 5, "steps": 1, "batch": 4, "validation": 4, "images": 4, "deep-images": 2, "n": 2, "device": "cpu",
}  # fmt: skip
NAMES = ["ipa, t 1", *MODELS[1:], "cifar10, t 1"]
"""The methods of the report that were trained, in its order."""
SINGLE = ("ce", "rfr")


def call(out: Path, data: Path, model: Path, *words: object, **changes: Any) -> Call:
    given = {"data": data, "out": out, "model": model, **QUICK, **changes}
    flat = [word for name, value in given.items() for word in (f"--{name}", value)]
    return run("baselines.py", *flat, *words)


def test_from_data_to_numbers_in_two_calls(tmp_path: Path, noise32: Path, finished_model: Path) -> None:
    out = tmp_path / "out"
    done = call(out, noise32, finished_model, "--methods", "rfr", "ce", "--no-evaluate")
    assert done.returncode == 0, done.stderr
    assert sorted(path.name for path in out.iterdir()) == ["ce", "rfr"]
    first = times(out)
    done = call(out, noise32, finished_model)
    assert done.returncode == 0, done.stderr
    assert first.items() <= times(out).items()  # what was trained is not trained again
    written = {"evaluation", "baselines.json", "sheet.png", "large_holes.png"}
    assert {path.name for path in out.iterdir()} == {*RUNS, "vae", *written}
    check_numbers(json.loads((out / "baselines.json").read_text()))
    with Image.open(out / "sheet.png") as sheet:
        assert sheet.height > 12 * 64 and sheet.width > 12 * 64  # four images, three columns each


def test_a_call_measures_its_own_methods(tmp_path: Path, noise32: Path, finished_model: Path) -> None:
    out = tmp_path / "out"
    done = call(out, noise32, finished_model, "--methods", "ce", "--simple", "mean")
    assert done.returncode == 0, done.stderr
    assert list(json.loads((out / "baselines.json").read_text())["methods"]) == ["ce", "cifar10, t 1", "training mean"]
    done = call(out, noise32, finished_model, "--methods", "diffusion", "--simple")
    assert done.returncode == 0, done.stderr
    result = json.loads((out / "baselines.json").read_text())
    assert list(result["methods"]) == ["diffusion", "diffusion-long", "cifar10, t 1"]
    assert set(result["training"]) == {"diffusion", "diffusion-long", "cifar10"} and set(result["models"]) == {
        "cifar10"
    }
    assert all("sharpness" in found["metrics"] for found in result["methods"].values())
    with Image.open(out / "large_holes.png") as sheet:
        assert 5 * 64 < sheet.height < 6 * 64  # originals, known pixels, and three methods


def check_numbers(result: dict[str, Any]) -> None:
    methods, training = result["methods"], result["training"]
    assert list(methods)[: len(NAMES)] == NAMES and len(methods) == len(NAMES) + 4  # and four simple baselines
    assert [name for name in NAMES if not methods[name]["varies"]] == list(SINGLE)
    settings = result["settings"]
    assert (settings["images"], settings["deep_images"], settings["k"], result["budget_minutes"]) == (4, 2, 2, 5.0)
    assert [name for name, found in methods.items() if "sharpness" in found["metrics"]] == NAMES
    assert set(training) == {*MODELS, "cifar10"} and training["cifar10"]["minutes"] == 9.75
    assert list(training["ipa"]["parts"]) == ["VAE", "partial encoder"]
    assert list(training["vqvae"]["parts"]) == ["codes", "structure", "texture"]
    for name in MODELS:
        steps = 2 if name in LONG.values() else 1
        assert training[name]["weights"] > 100
        for part in training[name]["parts"].values():
            assert (part["steps"], part["images_seen"], part["batch"], part["validation"]) == (steps, 4 * steps, 4, 4)
            assert part["trained_weights"] > 0 and part["device"] == "cpu"
            assert name in LONG or part["images_per_second"] > 0  # before the snapshot, no line was logged
            assert part["data"].endswith("12 training, 4 validation and 8 test images of 32 x 32 x 3, 10 labels")
            assert part["observe"] is None or len(part["observe"]) == 5
    assert not {"speed", "equal_time"} & result.keys()  # recipes/baselines_speed.py measures them
    tables = all_tables({"baselines": result})
    assert "| PIC | " in tables["main"] and "| IPA, embedded: VAE | 7.25 |" in tables["training"]


def test_different_trainings_are_not_compared() -> None:
    same = {"data": "noise", "split_seed": 5, "validation": 4, "seed": 0, "observe": ["freeform"]}
    vae = {**same, "observe": None}  # it sees whole images
    trainings = {"ce": {"parts": {"network": dict(same)}}, "ipa": {"parts": {"VAE": vae, "partial encoder": same}}}
    check_equal(trainings)
    for key, other in (("data", "faces"), ("validation", 5), ("observe", ["boxes"]), ("seed", 1), ("split_seed", 6)):
        different = {**trainings, "pic": {"parts": {"network": {**same, key: other}}}}
        with pytest.raises(ValueError, match=f"^pic was trained with {key} .*: train all methods with the same"):
            check_equal(different)


def test_different_budgets_are_not_compared() -> None:
    def of(steps: int | None = None, **parts: float) -> dict[str, Any]:
        budgets = {name: {"budget": {"minutes": m, "steps": steps}} for name, m in parts.items()}
        return {"minutes": 4.0, "parts": budgets}

    vqvae = of(codes=4 * 1.5 / 7, structure=4 * 3 / 7, texture=4 * 2.5 / 7)
    ipa = {"parts": {**of(VAE=2.8)["parts"], "partial encoder": of(x=1.2)["parts"]["x"]}}
    right = {
        "ce": of(network=4.0), "ipa": ipa, "vqvae": vqvae, "comodgan": of(network=8.0),
        "comodgan-long": of(network=8.0),
    }  # fmt: skip
    check_budgets(right, Limits(4.0))
    check_budgets({"comodgan": of(network=4.0)}, Limits(4.0))  # without a longer training
    assert sum(part.minutes for part in parts_of("vqvae", Limits(4.0)).values()) == pytest.approx(4.0, abs=1e-5)
    for name, wrong in (
        ("pic", of(network=5.0)), ("ipa", of(VAE=2.8)), ("pic", of(3, network=4.0)), ("comodgan", of(network=6.0)),
        ("vqvae", of(codes=4.0)),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=rf"^{name} was trained with --minutes .*: give the same --minutes"):
            check_budgets({**right, name: wrong}, Limits(4.0))


def test_a_snapshot_that_came_late_or_twice_is_refused(tmp_path: Path) -> None:
    parts = {"network": {"budget": {"minutes": 8.0, "steps": None}}}
    check_budgets({"diffusion": {"minutes": 4.1, "parts": parts}}, Limits(4.0))
    with pytest.raises(ValueError, match=r"the snapshot of diffusion was made after 7\.9 minutes, expected 4"):
        check_budgets({"diffusion": {"minutes": 7.9, "parts": parts}}, Limits(4.0))
    folder = tmp_path / "diffusion" / "snapshots"
    folder.mkdir(parents=True)
    assert not model_of("diffusion", tmp_path).is_file()
    for number in (1, 2):
        (folder / f"step-{number}.safetensors").touch()
        if number == 1:
            assert model_of("diffusion", tmp_path) == folder / "step-1.safetensors"
    with pytest.raises(ValueError, match="has several snapshots: train diffusion again"):
        model_of("diffusion", tmp_path)
    assert model_of("diffusion-long", tmp_path) == tmp_path / "diffusion" / "model.safetensors"


def test_a_run_of_the_budget_alone_has_no_longer_training(tmp_path: Path) -> None:
    finished = tmp_path / "diffusion" / "model.safetensors"
    finished.parent.mkdir()
    finished.touch()
    for snapshots, short in (([], True), ([4.0], False)):  # with snapshots, the short one is not made yet
        (finished.parent / "options.json").write_text(json.dumps({"snapshot_minutes": snapshots}))
        files = {name: model_of(name, tmp_path) for name in ("diffusion", "diffusion-long")}
        assert [path == finished for path in files.values()] == [short, not short]
        assert [path.is_file() for path in files.values()] == [short, not short]


def test_bad_input_is_one_sentence_and_writes_nothing(tmp_path: Path, noise32: Path, finished_model: Path) -> None:
    out = tmp_path / "out"
    small = small_data(tmp_path / "small", size=8)
    cases: list[tuple[dict[str, Any], tuple[object, ...], str]] = [
        ({}, ("--methods", "gan"), "--methods is 'gan', expected 'ce' or 'anp' or 'pic' or 'rfr' or 'comodgan' or"),
        (
            {},
            ("--methods",),
            "no --methods were given: give some of ce, anp, pic, rfr, comodgan, vqvae, diffusion, ipa",
        ),
        ({}, ("--simple", "median"), "--simple is 'median', expected 'mean' or 'random' or 'nearest' or 'harmonic'"),
        ({"minutes": 0}, (), "--minutes is 0, expected more than 0"),
        ({"data": tmp_path / "none"}, (), "none does not exist"),
        ({"data": small}, (), f"the data has images of 8 x 8 x 3, but {finished_model} makes 32 x 32 x 3"),
        ({"images": 1}, (), "the number of images is 1"),
        ({"model": tmp_path / "gone.safetensors"}, (), "gone.safetensors does not exist"),
    ]
    for changes, words, message in cases:
        done = call(out, changes.pop("data", noise32), changes.pop("model", finished_model), *words, **changes)
        assert (done.returncode, len(done.stderr.strip().splitlines())) == (2, 1), done.stderr
        assert done.stderr.startswith("baselines: ") and message in done.stderr
    assert not out.exists()
