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
from recipes import baselines_speed
from recipes.baselines_results import all_tables
from recipes.baselines_training import LONG, MODELS, RUNS, Limits, check_budgets, check_equal, model_of, parts_of

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
    "comodgan": {"kind": "comodgan", "max_width": 4, "latent_features": 4, "mapping_layers": 1, "code_features": 4},
    "vqvae": {
        "kind": "vqvae", "codes": 4, "code_width": 4, "codes_width": 4, "structure_width": 4, "structure_blocks": 1,
        "structure_attentions": 1, "output_blocks": 0, "attention_heads": 1, "key_width": 2, "value_width": 2,
        "condition_width": 4, "condition_blocks": 1, "max_dilation": 1, "texture_width": 4, "critic_layers": 1,
    },
    "diffusion": {
        "kind": "diffusion", "widths": (4, 4), "level_blocks": 1, "attention_sizes": (8,), "embedding": 4,
        "sampling_steps": 2,
    },
}  # fmt: skip
"""Networks of the baselines with few weights, and without the network of RFR's losses."""
QUICK = {
    "minutes": 5, "steps": 1, "batch": 4, "validation": 4, "images": 4, "deep-images": 2, "n": 2, "device": "cpu",
}  # fmt: skip
NAMES = ["ipa, t 1", *MODELS[1:], "cifar10, t 1"]
"""The methods of the report that were trained, in its order."""
SINGLE = ("ce", "rfr")


@pytest.fixture(autouse=True)
def small_networks(monkeypatch: pytest.MonkeyPatch, undrawn: None) -> Iterator[None]:
    monkeypatch.setattr(LPIPS, "load", lambda *, trunk: PixelDistance())
    monkeypatch.setattr(Inception, "load", lambda *, precision: SmallInception())
    monkeypatch.setattr(baselines_speed, "COMPLETIONS", 3)
    monkeypatch.setattr(baselines_speed, "MOST", 6)
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
    assert {path.name for path in out.iterdir()} == {*RUNS, "vae", *written}
    result = json.loads((out / "baselines.json").read_text())
    check_numbers(result)
    with Image.open(out / "sheet.png") as sheet:
        assert sheet.height > 12 * 64 and sheet.width > 12 * 64  # four images, three columns each


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
    check_speeds(result)
    tables = all_tables({"baselines": result})
    assert "| PIC | " in tables["main"] and "| IPA, embedded: VAE | 7.25 |" in tables["training"]


def check_speeds(result: dict[str, Any]) -> None:
    names = [*MODELS, "cifar10"]
    speeds, equal = result["speed"]["methods"], result["equal_time"]["methods"]
    assert list(speeds) == names and list(equal) == [name for name in names if name not in SINGLE]
    for found in speeds.values():
        assert found["milliseconds"] * found["completions_per_second"] == pytest.approx(1000, rel=1e-4)
    assert (speeds["diffusion"]["network_evaluations"], speeds["pic"]["network_evaluations"]) == (2, 1)
    assert equal["ipa"]["k"] == 3 and result["equal_time"]["reference"] == "ipa"
    for name, found in equal.items():
        ratio = 3 * speeds[name]["completions_per_second"] / speeds["ipa"]["completions_per_second"]
        assert found["k"] == min(6, max(1, round(ratio)))
        assert found["calibrated"] == pytest.approx((found["k"] - 1) / (found["k"] + 1), rel=1e-6)
        assert found["lpips_gt"]["mean"] >= 0 and all(0 <= found[kind]["mean"] <= 1 for kind in ("white", "smooth"))


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
    assert sum(part.minutes for part in parts_of("vqvae", Limits(4.0)).values()) == pytest.approx(4.0, abs=1e-5)
    for name, wrong in (
        ("pic", of(network=5.0)), ("ipa", of(VAE=2.8)), ("pic", of(3, network=4.0)), ("comodgan", of(network=4.0)),
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


def test_bad_input_is_one_sentence_and_writes_nothing(tmp_path: Path, data: Path, model: Path) -> None:
    out = tmp_path / "out"
    small = small_data(tmp_path / "small", size=8)
    cases: list[tuple[dict[str, Any], tuple[object, ...], str]] = [
        ({}, ("--only", "gan"), "--only is 'gan', expected 'ce' or 'anp' or 'pic' or 'rfr' or 'comodgan' or"),
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
