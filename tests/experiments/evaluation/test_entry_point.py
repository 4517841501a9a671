"""`condvae.evaluate` joins several data sets, and measures models and learned baselines on the same images."""

import functools
import hashlib
import shutil
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from helpers.baseline_models import baseline_file, small_baseline
from helpers.evaluation_runs import numbers, small_model, small_networks
from helpers.training import FACES, call, few_faces
from torch import Tensor

from condvae.completers.learned_completer import LearnedCompleter
from condvae.completers.model_completer import ModelCompleter
from condvae.experiments.evaluation.entry_point import evaluate
from condvae.metrics.feature_networks import FeatureNetworks
from condvae.observe import Observation
from condvae.runtime.json_reading import read_json_file
from condvae.runtime.messages import silent

MEASURED = {"baselines": ["mean"], "metrics": ("pixels",), "deep_images": 2, "n": 2, "device": "cpu", "say": silent}


def test_several_data_sets_are_joined(tmp_path: Path) -> None:
    other = shutil.copy(few_faces(), tmp_path / "few.zip")
    one = evaluate(None, FACES, out=tmp_path / "one", images=4, **MEASURED)  # type: ignore[arg-type]
    both = evaluate(None, [FACES, other], out=tmp_path / "both", images=4, **MEASURED)  # type: ignore[arg-type]
    assert one is not None and both is not None
    assert (one["data"], both["data"]) == ("faces32.zip", "faces32.zip, few.zip")
    means = [found["methods"]["training mean"]["metrics"]["psnr_of_mean"]["mixture"]["mean"] for found in (one, both)]
    assert means[0] != means[1]  # other training and test images
    words = ["--baselines", "mean", "--metrics", "pixels", "--images", "4", "--deep-images", "2", "-n", "2"]
    words += ["--device", "cpu", "--model", "none", "--out", str(tmp_path / "cli")]
    call("evaluate", "--data", str(FACES), str(other), *words)
    by_command = read_json_file(tmp_path / "cli" / "results.json")
    assert by_command["data"] == both["data"]
    for name, found in both["methods"].items():
        assert by_command["methods"][name]["metrics"] == found["metrics"]


def test_the_output_folder_must_be_outside_of_every_data_folder(tmp_path: Path) -> None:
    photos = tmp_path / "photos"
    photos.mkdir()
    with pytest.raises(ValueError, match=r"is inside .*photos"):
        evaluate(None, [FACES, photos], out=photos / "results", images=4, **MEASURED)  # type: ignore[arg-type]


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[str]]:
    """Use small networks for metrics, draw no figures, and list the problems that each model completes, as digests."""
    problems: dict[str, list[str]] = defaultdict(list)

    def listing(complete: Callable[..., Tensor]) -> Callable[..., Tensor]:
        @functools.wraps(complete)
        def listed(self: Any, observation: Observation, k: int, seed: int, *, places: Sequence[int]) -> Tensor:
            assert observation.known is not None and observation.pixels is not None
            for place, known, pixels in zip(places, observation.known, observation.pixels, strict=True):
                content = torch.where(known, pixels, 0.0).numpy().tobytes() + known.numpy().tobytes()
                problems[self.name].append(f"{k} {place} {hashlib.sha256(content).hexdigest()}")
            return complete(self, observation, k, seed, places=places)

        return listed

    for kind in (LearnedCompleter, ModelCompleter):
        monkeypatch.setattr(kind, "complete", listing(kind.complete))
    monkeypatch.setattr(FeatureNetworks, "load", lambda *arguments, **options: small_networks())
    monkeypatch.setattr("condvae.experiments.evaluation.figures.draw", lambda result, out: [])
    return problems


SMALL = {"images": 4, "deep_images": 3, "n": 2, "metrics": ("lpips", "pixels"), "baselines": ["mean"], "device": "cpu"}


def test_baselines_and_models_are_measured_on_the_same_problems(tmp_path: Path, measured: dict[str, list[str]]) -> None:
    ce, anp = baseline_file(tmp_path, "ce", size=32), small_baseline("anp", size=32)
    given: dict[str, Any] = {"against": [ce, anp], "out": tmp_path / "out", "say": silent, **SMALL}
    result = evaluate(small_model(), FACES, **given)
    assert result is not None
    names = ["model, t 1", "ce", "Attentive Neural Process", "training mean"]
    found = result["methods"]
    assert list(found) == names and list(result["models"]) == []
    # The places and the observations are the same. A method with one answer completes each image once.
    one, two, theirs = measured["Context Encoder"], measured["Attentive Neural Process"], measured["model, t 1"]
    assert len(set(theirs)) == len(theirs) == 3 * 5  # five bins of the size of the hole
    assert sorted(two) == sorted(theirs) == sorted(f"2{name[1:]}" for name in one)
    assert all(name.startswith("1 ") for name in one)
    assert [found[name]["k"] for name in names] == [2, 1, 2, 1]
    for name in names:
        diversity = found[name]["metrics"]["lpips_diversity"]["mixture"]["mean"]
        assert (diversity == 0) == (name in ("ce", "training mean"))
        assert found[name]["metrics"]["best_mse"]["mixture"]["mean"] > 0
    mine = found["ce"]
    assert (mine["method"], mine["model"], mine["varies"]) == ("Context Encoder", "ce", False)
    assert (mine["training_minutes"], mine["record"]["data"]) == ({"all": 1.5}, "faces")
    assert mine["parameters"] == sum(weight.numel() for weight in small_baseline("ce", size=32).parameters())

    # A repeated call measures nothing, and a weight that changed is another model.
    measured.clear()
    again = evaluate(small_model(), FACES, **given)
    assert not measured and numbers(again) == numbers(result)
    with torch.no_grad():
        list(anp.parameters())[-1][0] += 0.2  # the bias of its last layer
    changed = evaluate(small_model(), FACES, **given)
    assert changed is not None and list(measured) == ["Attentive Neural Process"]
    for name in names:
        same = changed["methods"][name]["metrics"] == found[name]["metrics"]
        assert same == (name != "Attentive Neural Process")
    before, after = (one["methods"]["Attentive Neural Process"]["made_of"] for one in (result, changed))
    assert before != after


def test_a_baseline_can_be_the_only_model(tmp_path: Path, measured: dict[str, list[str]]) -> None:
    ce, model = baseline_file(tmp_path, "ce", size=32), small_model()
    both = evaluate(ce, FACES, against=model, out=tmp_path / "both", say=silent, **SMALL)  # type: ignore[arg-type]
    alone = evaluate(None, FACES, against=str(ce), out=tmp_path / "one", say=silent, **SMALL)  # type: ignore[arg-type]
    assert both is not None and alone is not None
    assert list(both["methods"]) == ["ce", "model, t 1", "training mean"]
    assert list(alone["methods"]) == ["ce", "training mean"]
    assert both["methods"]["ce"]["metrics"] == alone["methods"]["ce"]["metrics"]


@pytest.mark.usefixtures("measured")
def test_models_in_memory_can_be_named(tmp_path: Path) -> None:
    others = {"tall": small_model(seed=1), "wide": small_model(seed=2), "ce": small_baseline("ce", size=32)}
    found = evaluate(small_model(), FACES, against=others, out=tmp_path, say=silent, **SMALL)  # type: ignore[arg-type]
    assert found is not None
    assert list(found["methods"]) == ["model, t 1", "tall, t 1", "wide, t 1", "ce", "training mean"]
    assert found["methods"]["tall, t 1"]["metrics"] != found["methods"]["wide, t 1"]["metrics"]


@pytest.mark.usefixtures("measured")
def test_rivals_that_cannot_be_measured_are_one_sentence(tmp_path: Path) -> None:
    small, grey = small_baseline("rfr"), small_baseline("ce", size=32, channels=1)
    same = small_baseline("ce", size=32)
    (tmp_path / "damaged.safetensors").write_bytes(b"hello")
    wrong: list[tuple[Any, str]] = [
        (small, "the data has images of 32 x 32 x 3, but Recurrent Feature Reasoning makes 16 x 16 x 3: give data of "
         "this size, or --size 16$"),
        (grey, "but Context Encoder makes 32 x 32 x 1: give data of this size$"),
        ([same, same], "the method names 'Context Encoder' and 'Context Encoder' are too similar"),
        (tmp_path / "no.safetensors", "does not exist"),
        (tmp_path / "damaged.safetensors", "not a complete"),
    ]  # fmt: skip
    for against, message in wrong:
        with pytest.raises(ValueError, match=message):
            evaluate(None, FACES, against=against, out=tmp_path / "out", say=silent, **SMALL)  # type: ignore[arg-type]
        assert not (tmp_path / "out").exists()
    only_bounds: dict[str, Any] = {**SMALL, "metrics": ("bounds",), "baselines": []}
    with pytest.raises(ValueError, match="nothing to measure"):
        evaluate(same, FACES, out=tmp_path / "out", say=silent, **only_bounds)
