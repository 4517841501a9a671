import math

import pytest
import torch

from condvae.metrics import Estimate


def test_an_estimate_is_the_mean_with_its_standard_error() -> None:
    estimate = Estimate.of(torch.tensor([1.0, 2.0, 3.0, 6.0]))
    assert estimate.mean == 3
    assert estimate.standard_error == pytest.approx(math.sqrt((4 + 1 + 0 + 9) / 3 / 4))
    assert math.isnan(Estimate.of(torch.tensor([1.0])).standard_error)
