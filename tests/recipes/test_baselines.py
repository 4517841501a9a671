"""The recipe of the comparison with learned baselines, with networks and images that take milliseconds."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from helpers.evaluation_runs import SmallInception, small_model
from helpers.pretraining_runs import PixelDistance, small_data
from helpers.recipe_calls import Call, run
from helpers.resumed_runs import times
from PIL import Image

from condvae import weights
from condvae.completers.learned_names import LEARNED_PRESETS
from condvae.metrics import LPIPS, Inception
from condvae.vdvae import presets
from recipes.baselines import BASELINES, METHODS, Options, check_budgets, check_equal
from recipes.baselines_results import all_tables

SMALL = {
    "ce": {"kind": "ce", "bottleneck": 4, "width": 2},
    "anp": {"kind": "anp", "width": 8, "heads": 2},
    "pic": {
        "kind": "pic", "width": 4, "max_width": 8, "latent_channels": 4, "prior_blocks": 1, "latent_size": 4,
        "attention_size": 8, "output_scales": 2,
    },
    "rfr": {
        "kind": "rfr", "widths": (4, 4, 4, 4), "kernels": (5, 5), "strides": 2, "head_width": 4,
        "perceptual_weight": 0.0, "style_weight": 0.0,
    },
}  # fmt: skip
"""Networks of the baselines with few weights, and without the network of RFR's losses."""
QUICK = {
    "minutes": 5, "steps": 1, "batch": 4, "validation": 4, "images": 4, "deep-images": 2, "n": 2, "device": "cpu",
}  # fmt: skip
NAMES = ["cifar10, t 1", "ipa, t 1", *BASELINES]
"""The methods of the report that were trained, in its order."""


@pytest.fixture(autouse=True)
def small_networks(monkeypatch: pytest.MonkeyPatch, undrawn: None) -> Iterator[None]:
    monkeypatch.setattr(LPIPS, "load", lambda *, trunk: PixelDistance())
    monkeypatch.setattr(Inception, "load", lambda *, precision: SmallInception())
    sheet = Image.new("RGB", (8, 8))
    with (
        mock.patch.dict(presets._TABLES, {"cifar10-small": [(32, 8, 4, 1, 1), (4, 8, 4, 1, 1)]}),
        mock.patch.dict(LEARNED_PRESETS, SMALL),
        mock.patch("condvae.training.training_run._sheet", return_value=sheet),
    ):
        yield


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small_data(tmp_path_factory.mktemp("data") / "noise", train=16, test=8, size=32)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random model in place of the embedded one, with a record of its training."""
    path = tmp_path_factory.mktemp("model") / "cifar10.safetensors"
    options = {"batch": 4, "lr": 0.1, "seed": 0, "split_seed": 5, "validation": 4}
    record = {"minutes": 2.5, "steps": 9, "images_seen": 36, "device": "abacus", "data": "noise", "options": options}
    weights.save(small_model(), path, record={**record, "artifact": {**record, "minutes": 7.25}})
    return path


def call(out: Path, data: Path, model: Path, *words: object, **changes: Any) -> Call:
    given = {"data": data, "out": out, "model": model, **QUICK, **changes}
    flat = [word for name, value in given.items() for word in (f"--{name}", value)]
    return run("baselines.py", *flat, *words)


def test_from_data_to_numbers_in_two_calls(tmp_path: Path, data: Path, model: Path) -> None:
    out = tmp_path / "out"
    done = call(out, data, model, "--only", "ce", "rfr")
    assert done.returncode == 0, done.stderr
    assert sorted(path.name for path in out.iterdir()) == ["ce", "rfr"]
    first = times(out)
    done = call(out, data, model, "--only", "evaluate")
    assert (done.returncode, done.stderr) == (
        2, f"baselines: {out / 'anp'} has no finished model: train it first, with --only anp\n",
    )  # fmt: skip
    done = call(out, data, model)
    assert done.returncode == 0, done.stderr
    assert first.items() <= times(out).items()  # what was trained is not trained again
    written = {"evaluation", "baselines.json", "sheet.png", "large_holes.png"}
    assert {path.name for path in out.iterdir()} == {*METHODS, "vae", *written}
    result = json.loads((out / "baselines.json").read_text())
    check_numbers(result)
    with Image.open(out / "sheet.png") as sheet:
        assert sheet.height > 7 * 64 and sheet.width > 12 * 64  # four images, three columns each


def check_numbers(result: dict[str, Any]) -> None:
    methods, training = result["methods"], result["training"]
    assert list(methods)[:6] == NAMES and len(methods) == 10  # and four simple baselines
    assert [methods[name]["varies"] for name in NAMES] == [True, True, False, True, True, False]
    settings = result["settings"]
    assert (settings["images"], settings["deep_images"], settings["k"], result["budget_minutes"]) == (4, 2, 2, 5.0)
    assert [name for name, found in methods.items() if "sharpness" in found["metrics"]] == NAMES
    assert set(training) == {*METHODS, "cifar10"} and training["cifar10"]["minutes"] == 9.75
    assert list(training["ipa"]["parts"]) == ["VAE", "partial encoder"]
    for name in METHODS:
        assert training[name]["weights"] > 100
        for part in training[name]["parts"].values():
            assert (part["steps"], part["images_seen"], part["batch"], part["validation"]) == (1, 4, 4, 4)
            assert part["images_per_second"] > 0 and part["trained_weights"] > 0 and part["device"] == "cpu"
            assert part["data"].endswith("12 training, 4 validation and 8 test images of 32 x 32 x 3, 10 labels")
            assert part["observe"] is None or len(part["observe"]) == 5
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
    def of(*minutes: float, steps: int | None = None) -> dict[str, Any]:
        return {"parts": {str(i): {"budget": {"minutes": m, "steps": steps}} for i, m in enumerate(minutes)}}

    options = Options(data=(Path("x"),), out=Path("y"), minutes=4.0)
    check_budgets({"ce": of(4.0), "ipa": of(2.8, 1.2)}, options)
    for wrong in (of(5.0), of(2.8, 1.0), of(4.0, steps=3)):
        with pytest.raises(ValueError, match=r"^pic was trained with --minutes .*: give the same --minutes"):
            check_budgets({"ce": of(4.0), "pic": wrong}, options)


def test_bad_input_is_one_sentence_and_writes_nothing(tmp_path: Path, data: Path, model: Path) -> None:
    out = tmp_path / "out"
    small = small_data(tmp_path / "small", size=8)
    cases: list[tuple[dict[str, Any], tuple[object, ...], str]] = [
        ({}, ("--only", "comodgan"), "--only is 'comodgan', expected 'ce' or 'anp' or 'pic' or 'rfr' or 'ipa' or"),
        ({"minutes": 0}, (), "--minutes is 0, expected more than 0"),
        ({"data": tmp_path / "none"}, (), "none does not exist"),
        ({"data": small}, (), f"the data has images of 8 x 8 x 3, but {model} makes 32 x 32 x 3"),
        ({"images": 1}, (), "the number of images is 1"),
        ({"model": tmp_path / "gone.safetensors"}, (), "gone.safetensors does not exist"),
    ]
    for changes, words, message in cases:
        done = call(out, changes.pop("data", data), changes.pop("model", model), *words, **changes)
        assert (done.returncode, len(done.stderr.strip().splitlines())) == (2, 1), done.stderr
        assert done.stderr.startswith("baselines: ") and message in done.stderr
    assert not out.exists()
