import math

import pytest
import torch

from condvae.experiments.evaluation.summary import by_column, of_features
from condvae.metrics.discrimination import ids
from condvae.metrics.frechet import fid


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_an_image_without_a_number_is_not_left_out_silently(value: float) -> None:
    values = torch.rand(5, 6)
    values[2, 3] = value
    found = by_column(values)
    missing = {"mean": None, "standard_error": None}
    assert found["0.4-0.6"] == found["mixture"] == missing
    assert found["0.2-0.4"]["mean"] == pytest.approx(float(values[1].mean()))


def test_the_mixture_has_each_image_once_in_the_bin_of_its_turn() -> None:
    generator = torch.Generator().manual_seed(0)
    real = torch.randn(23, 4, generator=generator)
    bins = [real + i + torch.randn(23, 4, generator=generator) for i in range(5)]
    mixture = torch.stack([bins[i % 5][i] for i in range(23)])
    found = of_features(real, iter(bins), seed=0)
    assert found["fid"]["mixture"]["mean"] == pytest.approx(fid(real, mixture, paired=True).mean)
    assert found["p_ids"]["mixture"]["mean"] == ids(real, mixture).p_ids.mean
    assert found["fid"]["0.6-0.8"]["mean"] == pytest.approx(fid(real, bins[3], paired=True).mean)
