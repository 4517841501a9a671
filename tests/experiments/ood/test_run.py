"""The reported numbers are those of the stated images and models."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from helpers.ood_models import observing, plain_data
from helpers.ood_runs import OTHERS, SMALL, TESTS, digits, numbers, small_experiment, small_models
from helpers.resumed_runs import planned
from safetensors.torch import load_file
from scipy.stats import multivariate_normal
from sklearn.metrics import roc_auc_score
from torch import Tensor

from condvae import objectives
from condvae.conditional import ConditionalVAE
from condvae.data import Dataset
from condvae.data.order import spread
from condvae.experiments.ood.summary import COLUMNS
from condvae.observe import Edges, Observation
from condvae.observe.hole_bins import HOLE_BINS, known_in_bin
from condvae.ood import GaussianDensity, Inference, measure, score_of
from condvae.ood.strange_sets import own
from condvae.sampling.plain import seeds_from

QUICK: dict[str, Any] = {"scores": ("likelihood",), "baselines": (), "sets": ("noise",)}
ROWS = spread(20, TESTS)


def measured_images() -> Tensor:
    """Return the test images that are measured."""
    return plain_data().test.take(ROWS).images


def showing(images: np.ndarray, data: Dataset | None = None) -> Dataset:
    """Return the data set with its images replaced."""
    data = data or plain_data()
    return replace(
        data, **{name: replace(getattr(data, name), images=images) for name in ("train", "validation", "test")}
    )


def test_likelihoods_are_bounds_on_the_known_pixels(tmp_path: Path) -> None:
    """The objective computes the same bounds image by image."""
    model = small_models()["ipa"]
    result = small_experiment(tmp_path, change=QUICK, models={"ipa": model})
    assert result is not None
    images = {"test": measured_images(), "noise": own("noise").images(measured_images(), seed=0)}
    for column, hole in enumerate(HOLE_BINS):
        known = known_in_bin(hole, TESTS, 8, seed=0)
        bounds = []
        for levels in images.values():
            for i in range(TESTS):
                seen = model.observe(levels[i : i + 1] / 127.5 - 1, known[i : i + 1])
                noise = seeds_from(0, 1, observations=[i])
                bounds.append(float(objectives.reverse(model, seen, noise=noise).nats.detach()))
        expected = roc_auc_score(np.arange(2 * TESTS) < TESTS, bounds)
        assert result["methods"]["ipa likelihood"]["auroc"]["noise"][column]["mean"] == pytest.approx(expected)


def test_gradients_are_scored_by_the_density_of_training_images(folder: Path, whole: dict[str, Any]) -> None:
    """In the result files, the sum of the two terms is the gradient; its density agrees with SciPy."""

    def parts(name: str, unit: str) -> np.ndarray:
        found = []
        for place in (folder / "runs").glob(f"walk-{name}-*"):
            files = sorted(place.glob(f"{unit}*.safetensors"))
            found.append(np.concatenate([load_file(path)["features"].numpy() for path in files]) if files else None)
        (values,) = [one for one in found if one is not None and len(one)]
        groups = values.shape[1] // 2
        return np.asarray(values[:, :groups] + values[:, groups:-1])

    # Whole images are measured once, because both models have the same artifact.
    score, inference = score_of("gradient"), Inference.of(small_models()["other"], "whole")
    train = plain_data().train.take(spread(60, SMALL.fit_images)).images
    test, noise = (parts(name, "whole") for name in ("test-images", "noise"))
    assert test == pytest.approx(measure(score, inference, measured_images(), seed=0), rel=1e-9)
    fit = GaussianDensity.fit(fitted := training(folder, len(train)))
    assert fitted.shape == (SMALL.fit_images, test.shape[1])
    density = multivariate_normal(fit.mean, fit.covariance, allow_singular=True)
    expected = roc_auc_score(np.arange(2 * TESTS) < TESTS, [*density.logpdf(test), *density.logpdf(noise)])
    for model in ("ipa", "other"):
        found = whole["methods"][f"{model} gradient"]["auroc"]["noise"][COLUMNS.index("whole")]
        assert found["mean"] == pytest.approx(expected)


def training(folder: Path, count: int) -> np.ndarray:
    """Return the gradients of whole training images."""
    from condvae.ood.fitting import training_features

    inference = Inference.of(small_models()["ipa"], "whole")
    return np.asarray(training_features(score_of("gradient"), inference, plain_data(), images=count))


def test_columns_and_methods(whole: dict[str, Any]) -> None:
    names = ["gradient", "parts-2", "likelihood-2", "completed-ipa", "completed-nearest"]
    assert list(whole["methods"]) == [f"{model} {name}" for model in ("ipa", "other") for name in names]
    assert whole["columns"] == ["0-0.2", "0.2-0.4", "0.4-0.6", "0.6-0.8", "0.8-1", "mean", "whole"]
    assert whole["sets"] == {
        "noise": {"images": TESTS, "paired": False},
        "flip": {"images": TESTS, "paired": True},
        "digits": {"images": OTHERS, "paired": False},
    }
    for name, found in whole["methods"].items():
        has_whole = found["auroc"]["noise"][-1]["mean"] is not None
        assert has_whole != ("completed" in name)


def test_scores_share_readings(whole: dict[str, Any]) -> None:
    """parts-2 and likelihood-2 share a reading; both models share readings that only use the artifact."""
    assert list(whole["readings"]) == [
        "ipa walk",
        "ipa walk, whole",
        "ipa walk-2",
        "ipa walk-2, whole",
        "ipa completed-ipa",
        "ipa completed-nearest",
        "other walk",
        "other walk-2",
        "other completed-ipa",
    ]
    everything = 3 * TESTS + OTHERS
    assert whole["readings"]["ipa walk-2"]["images"] == 5 * everything + SMALL.fit_images
    assert whole["readings"]["ipa completed-ipa"]["images"] == 5 * everything
    one, other = (whole["methods"][f"{model} completed-nearest"]["auroc"] for model in ("ipa", "other"))
    assert one == other


def mirrored() -> Dataset:
    """Return a data set whose images look the same upside down."""
    upper = plain_data().test.images[:, :4]
    return showing(np.concatenate((upper, upper[:, ::-1]), axis=1))


def test_identical_images_cannot_be_separated(tmp_path: Path) -> None:
    """Row i of a set has the hole, the noise and the resamples of test image i, so all scores are ties."""
    change = {"sets": ("flip",), "baselines": ("completed-ipa",), "scores": ("parts", "likelihood")}
    result = small_experiment(tmp_path, data=mirrored(), change=change, foreign={})
    assert result is not None and len(result["methods"]) == 6
    even = {"mean": 0.5, "low": 0.5, "high": 0.5}
    for name, found in result["methods"].items():
        assert found["auroc"]["flip"][:6] == [even] * 6
        assert "completed" in name or found["auroc"]["flip"][6] == even


def wide() -> ConditionalVAE:
    """Return a model whose pixel distributions are wide and centred at grey for any latents."""
    model = observing()
    with torch.no_grad():
        for parameter in model.artifact.decoder.parameters():
            parameter.mul_(1e-3)
    return model


def test_a_likelihood_that_separates_exactly(tmp_path: Path) -> None:
    """Black and white include the tails of the logistic, so they are far likelier than a single grey level.

    With scale 1 the tail has probability sigmoid(-1); no other term can make up for the difference.
    """
    shape = plain_data().test.images.shape
    dots = showing((255 * np.random.default_rng(0).integers(0, 2, shape)).astype(np.uint8))
    grey = showing(np.full(shape, 127, dtype=np.uint8))
    change = {"scores": ("likelihood",), "baselines": (), "sets": ()}
    for data, foreign, expected in ((dots, grey, 1.0), (grey, dots, 0.0)):
        out = tmp_path / str(expected)
        result = small_experiment(out, models={"wide": wide()}, data=data, foreign={"far": foreign}, change=change)
        assert result is not None
        cells = result["methods"]["wide likelihood"]["auroc"]["far"]
        assert cells[-1] == cells[0] == {"mean": expected, "low": expected, "high": expected}


def test_regret_is_measured_on_fewer_images(tmp_path: Path) -> None:
    change, few = {"scores": ("regret-1", "likelihood"), "baselines": (), "sets": ("flip",)}, SMALL.regret_images
    result = small_experiment(tmp_path, change=change, models={"ipa": small_models()["ipa"]}, foreign={})
    assert result is not None
    assert [found["images"] for found in result["methods"].values()] == [few, TESTS]
    assert result["readings"]["ipa regret-1"]["images"] == 2 * 5 * few
    text = (tmp_path / "results.md").read_text()
    assert f"Measured on only {few} of the images: ipa regret-1." in text


class Black:
    """A completer that paints hidden pixels black."""

    name, varies, identity = "black", False, "black"

    def complete(self, observation: Observation, k: int, seed: int) -> Tensor:
        assert observation.pixels is not None and observation.known is not None
        levels = ((observation.pixels + 1) * 127.5).round().to(torch.uint8)
        return torch.where(observation.known, levels, 0)[:, None].expand(-1, k, -1, -1, -1)


def test_any_completer_can_be_a_baseline(tmp_path: Path) -> None:
    change = {"scores": (), "baselines": ("completed-black", "completed-mean"), "sets": ("noise",)}
    result = small_experiment(tmp_path, change=change, completers={"black": Black()}, foreign={})
    assert result is not None and len(result["methods"]) == 4 and result["differences"] != {}
    assert sorted(result["readings"]) == ["ipa completed-black", "ipa completed-mean", "ipa walk, whole"]
    assert result["readings"]["ipa walk, whole"]["images"] == SMALL.fit_images  # only for the density


def test_results_with_different_inputs_are_never_mixed(tmp_path: Path) -> None:
    base: dict[str, Any] = {"scores": ("gradient",), "baselines": (), "sets": ("noise",)}
    ours, other = small_models().values()
    seen: set[str] = set()

    def folders(**options: Any) -> set[str]:
        given = {"models": {"ipa": ours}, "foreign": {}, **options}
        with planned("condvae.experiments.ood.run") as asked:
            small_experiment(tmp_path, **{**given, "change": {**base, **options.get("change", {})}})
        new = {name.rpartition("-")[0] for name in asked if name not in seen}
        seen.update(asked)
        return new

    everything = {"walk-test-images", "walk-noise", "walk-training-images"}
    assert folders() == everything
    assert folders() == set()
    assert folders(change={"resamples": 7}) == set()
    assert folders(models={"renamed": ours}) == set()
    assert folders(models={"ipa": other}) == everything
    assert folders(change={"fit_images": 9}) == {"walk-training-images"}
    assert folders(change={"seed": 1}) == everything
    assert folders(change={"images": 5}) == {"walk-test-images", "walk-noise"}
    assert folders(change={"sets": ("noise", "flip")}) == {"walk-flip"}
    assert folders(foreign={"digits": digits()}) == {"walk-digits"}
    assert folders(data=plain_data(seed=3)) == everything - {"walk-noise"}  # noise does not depend on test images
    first = small_experiment(tmp_path, change=base)
    assert small_experiment(tmp_path, change={**base, "seed": 1}) is not None
    assert numbers(small_experiment(tmp_path, change=base)) == numbers(first)


def translator() -> ConditionalVAE:
    model = observing()
    model.process = Edges()
    return model


def without_process() -> ConditionalVAE:
    model = observing()
    model.process = None
    return model


def without(name: str) -> Dataset:
    data = plain_data()
    return replace(data, **{name: getattr(data, name).subset(np.arange(0))})


def larger(data: Dataset) -> Dataset:
    return showing(np.tile(data.test.images, (1, 2, 2, 1)), data)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"models": {}}, "no models were given"),
        ({"models": {"": observing()}}, "the model name '' is empty"),
        ({"models": {"edges": translator()}}, "this model observes edges, not pixels"),
        ({"models": {"mute": without_process()}}, "this model has no observation process"),
        ({"data": without("test")}, "number of test images is 0"),
        ({"data": without("train")}, "number of training images is 0"),
        ({"data": larger(plain_data()), "foreign": {}}, r"expected shape \[batch, 3, 8, 8\]"),
        (
            {"foreign": {"digits": larger(digits())}},
            r"images of digits have shape .* open digits with the size and channels",
        ),
        ({"foreign": {"noise": digits()}}, "the set name 'noise' is empty or already in use"),
        ({"foreign": {"none": plain_data(train=0, validation=0, test=0)}}, "the set none contains no images"),
        ({"change": {"sets": ()}, "foreign": {}}, "no sets of strange images were given"),
        ({"change": {"sets": ("upside",)}}, "unknown set 'upside'"),
        ({"change": {"scores": ("guess",)}}, "unknown score 'guess'"),
        ({"change": {"scores": ("gradient", "gradient-1")}}, "a score was given twice"),
        ({"change": {"scores": ("ratio-99",)}}, "latents up to 99 x 99 are all"),
        ({"change": {"baselines": ("nearest",)}}, "unknown baseline 'nearest', expected completed-NAME"),
        ({"change": {"baselines": ("completed-gan",)}}, "needs a completer named 'gan'"),
        ({"completers": {"ipa": Black()}}, "a completer cannot be called 'ipa'"),
        ({"block": 0}, "the number of images in a block is 0"),
    ],
)
def test_refusals(tmp_path: Path, options: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        small_experiment(tmp_path / "out", **options)
    assert not (tmp_path / "out").exists()
