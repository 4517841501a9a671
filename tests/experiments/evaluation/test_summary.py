import math
from pathlib import Path
from typing import get_args

import pytest
import torch
from helpers.evaluation_runs import numbers

from condvae import objectives
from condvae.data import Dataset
from condvae.experiments.evaluation import EvaluationSettings, FeatureNetworks, Problems, Subject, experiment
from condvae.experiments.evaluation.summary import RealFeatures, by_column, image_values, of_bounds, of_features
from condvae.metrics import HOLE_BINS, cfid
from condvae.metrics.discrimination import ids
from condvae.metrics.frechet import fid
from condvae.runtime.messages import silent
from condvae.runtime.pixels import from_uint8
from condvae.runtime.seeds import Seeds


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_an_image_without_a_number_makes_the_mean_none(value: float) -> None:
    values = torch.rand(5, 6)
    values[2, 3] = value
    found = by_column(values)
    missing = {"mean": None, "standard_error": None}
    assert found["0.4-0.6"] == found["mixture"] == missing
    assert found["0.2-0.4"]["mean"] == pytest.approx(float(values[1].mean()))


def test_image_i_has_a_hole_of_bin_i_mod_5_in_the_mixture() -> None:
    generator = torch.Generator().manual_seed(0)
    real = torch.randn(23, 4, generator=generator)
    bins = [real + i + torch.randn(23, 4, generator=generator) for i in range(5)]
    mixture = torch.stack([bins[i % 5][i] for i in range(23)])
    observed = [one + torch.randn(23, 4, generator=generator) for one in bins]
    found = of_features(RealFeatures(real, lambda: observed), iter(bins), seed=0)
    assert found["fid"]["mixture"]["mean"] == pytest.approx(fid(real, mixture, paired=True).mean)
    assert found["p_ids"]["mixture"]["mean"] == ids(real, mixture).p_ids.mean
    mixture_observed = torch.stack([observed[i % 5][i] for i in range(23)])
    assert found["cfid"]["mixture"]["mean"] == pytest.approx(cfid(real, mixture, mixture_observed).mean)
    assert found["cfid"]["0.2-0.4"]["mean"] == pytest.approx(cfid(real, bins[1], observed[1]).mean)
    assert found["fid"]["0.6-0.8"]["mean"] == pytest.approx(fid(real, bins[3], paired=True).mean)


def test_bits_of_a_set_are_a_ratio_of_sums(tmp_path: Path, data: Dataset, subject: Subject) -> None:
    """Every hidden pixel counts equally: a bin reports the total code length divided by the number of dimensions."""
    settings = EvaluationSettings(images=4, metrics=("bounds",))
    found = experiment([], data, tmp_path, settings=settings, networks=FeatureNetworks(), models=[subject], say=silent)
    metrics = numbers(found)["models"]["small"]["metrics"]
    problems, model = Problems.choose(data, settings), subject.model
    places, noise = problems.deep, [Seeds(0, "bounds")(i) for i in range(4)]
    x = from_uint8(problems.truth(places, torch.device("cpu")))
    for number, hole in enumerate(HOLE_BINS):
        observation = model.observe(x, problems.known(number, places, torch.device("cpu")))
        for target in get_args(objectives.Target):
            with torch.no_grad():
                bound = objectives.forward(model, x, observation, noise=noise, target=target)
            expected = float(-bound.nats.sum() / bound.scored_dims.sum() / math.log(2))
            assert metrics[f"{target}_bits_per_dim_native"][str(hole)]["mean"] == pytest.approx(expected, rel=1e-5)
            expected = float(-bound.nats.mean())
            assert metrics[f"{target}_nats_native"][str(hole)]["mean"] == pytest.approx(expected, rel=1e-5)


def test_bounds_of_holes_of_very_different_sizes() -> None:
    """Each hidden dimension costs two bits, and each image 100 nats of KL, for any size of its hole."""
    dims = torch.tensor([1, 10, 1000]).repeat(len(HOLE_BINS), 1) * torch.arange(1, 6)[:, None]
    nats = 2 * math.log(2) * dims + 100.0
    bins = [
        {"kl_nats": torch.full((3,), 100.0), "hidden_nats": a, "whole_nats": a + 1, "hidden_dims": b, "whole_dims": c}
        for a, b, c in zip(nats, dims, torch.full_like(dims, 6000), strict=True)
    ]
    found = of_bounds(image_values(bins))["metrics"]
    for column, scale in (*((str(hole), i + 1) for i, hole in enumerate(HOLE_BINS)), ("mixture", 15)):
        images = 5 if column == "mixture" else 1
        bits = found["hidden_bits_per_dim"][column]
        excess = 300 * images / (1011 * scale) / math.log(2)  # a mean of the three ratios would be 34 bits higher
        assert bits["mean"] == pytest.approx(2 + excess)
        # Delta method: (KL - excess * dims) / mean of dims.
        rest = 100 * images / math.log(2) - excess * scale * torch.tensor([1.0, 10, 1000], dtype=torch.float64)
        error = float(rest.std()) / math.sqrt(3) / (337 * scale)
        assert bits["standard_error"] == pytest.approx(error)
        mean = 100 + 2 * math.log(2) * 337 * scale / images
        assert found["hidden_nats"][column]["mean"] == pytest.approx(mean)
        assert found["whole_nats"][column]["mean"] == pytest.approx(mean + 1)
        assert found["whole_bits_per_dim"][column]["mean"] == pytest.approx((mean + 1) / 6000 / math.log(2))
        assert found["forward_kl_nats_per_dim"][column]["mean"] == pytest.approx(100 / 6000)
    assert "hidden_nats_native" not in found
