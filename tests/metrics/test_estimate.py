import math

import pytest
import torch

from condvae.metrics import Estimate


def test_an_estimate_is_the_mean_with_its_standard_error() -> None:
    estimate = Estimate.of(torch.tensor([1.0, 2.0, 3.0, 6.0]))
    assert estimate.mean == 3
    assert estimate.standard_error == pytest.approx(math.sqrt((4 + 1 + 0 + 9) / 3 / 4))
    assert math.isnan(Estimate.of(torch.tensor([1.0])).standard_error)


def test_the_standard_error_of_a_ratio_matches_repetition() -> None:
    """The weights differ greatly, and the values are correlated with them: 2 per unit of weight, plus noise."""
    generator = torch.Generator().manual_seed(0)
    weights = torch.rand(400, 200, generator=generator, dtype=torch.float64) ** 3 + 0.01
    values = 2 * weights + 0.3 * torch.randn(400, 200, generator=generator, dtype=torch.float64)
    found = [Estimate.of_ratio(a, b) for a, b in zip(values, weights, strict=True)]
    ratios = torch.tensor([one.mean for one in found])
    assert torch.allclose(ratios.double(), values.sum(1) / weights.sum(1), rtol=1e-6)
    errors = torch.tensor([one.standard_error for one in found])
    assert float(errors.mean()) == pytest.approx(float(ratios.std()), rel=0.1)
    assert math.isnan(Estimate.of_ratio(values[0], 0 * weights[0]).standard_error)
    one = Estimate.of_ratio(values[0], torch.full((200,), 3.0))  # equal weights give the plain mean
    assert one.mean == pytest.approx(float(values[0].mean()) / 3)
    assert one.standard_error == pytest.approx(Estimate.of(values[0]).standard_error / 3)
