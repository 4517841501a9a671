import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression
from torch import Tensor

from condvae.design.avp_cnn.calibration import expected_calibration_error, platt_scaling, temperature_scaling


def often(p: list[float], times: int) -> tuple[Tensor, Tensor]:
    """Repeat each probability `times` times, with labels of which exactly that share is 1."""
    labels = torch.cat([torch.arange(times) < round(share * times) for share in p])
    return torch.tensor(p).repeat_interleave(times), labels.long()


@pytest.mark.parametrize("equal_mass", [False, True])
def test_calibrated_probabilities_have_no_error(equal_mass: bool) -> None:
    p, labels = often([0.05, 0.25, 0.5, 0.75, 0.95], 100)
    assert expected_calibration_error(p, labels, equal_mass=equal_mass) == pytest.approx(0, abs=1e-7)
    # All are 0.04 too high, except the last, which is 0.04 too low.
    wrong = torch.where(p > 0.9, p - 0.04, p + 0.04)
    assert expected_calibration_error(wrong, labels, equal_mass=equal_mass) == pytest.approx(0.04)


def test_bins_agree_with_a_calculation_by_hand() -> None:
    p, labels = torch.tensor([0.1, 0.2, 0.3, 0.9, 1.0]), torch.tensor([0, 1, 0, 1, 1])
    # Two bins, below and above 0.5: |0.6 - 1| and |1.9 - 2|, divided by five.
    assert expected_calibration_error(p, labels, bins=2) == pytest.approx(0.5 / 5)
    # Equal mass, two or three in each bin: only two of five are smaller than .3, so .3 is in the first bin.
    assert expected_calibration_error(p, labels, bins=2, equal_mass=True) == pytest.approx(0.5 / 5)
    assert expected_calibration_error(p, labels, bins=5, equal_mass=True) == pytest.approx((0.1 + 0.8 + 0.3 + 0.1) / 5)


def test_equal_probabilities_stay_together() -> None:
    p = torch.full((1000,), 0.3)
    labels = torch.arange(1000) < 300
    assert expected_calibration_error(p, labels, equal_mass=True) == pytest.approx(0, abs=1e-7)


def test_a_column_of_a_table_works_like_a_copy() -> None:
    table = torch.rand(50, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    labels = torch.arange(50) % 2
    found = expected_calibration_error(table[:, 1], labels, equal_mass=True)  # without a warning
    assert found == expected_calibration_error(table[:, 1].clone(), labels, equal_mass=True)


def test_with_many_outcomes_the_most_likely_one_is_judged() -> None:
    p = torch.tensor([[0.75, 0.2, 0.05], [0.75, 0.2, 0.05], [0.1, 0.05, 0.85], [0.2, 0.65, 0.15]])
    labels = torch.tensor([0, 1, 2, 1])
    assert expected_calibration_error(p, labels, bins=10) == pytest.approx((0.5 + 0.15 + 0.35) / 4)


def test_invalid_arguments_are_refused() -> None:
    with pytest.raises(ValueError, match=r"the probabilities have shape \[3\] and the labels \[2\]"):
        expected_calibration_error(torch.zeros(3), torch.zeros(2))
    with pytest.raises(ValueError, match="not all probabilities are between 0 and 1"):
        expected_calibration_error(torch.tensor([0.5, math.nan]), torch.zeros(2))
    with pytest.raises(ValueError, match="the number of bins is 0"):
        expected_calibration_error(torch.zeros(3), torch.zeros(3), bins=0)
    with pytest.raises(ValueError, match=r"the logits have shape \[3\] and the labels"):
        platt_scaling(torch.zeros(3), torch.zeros(3))
    with pytest.raises(ValueError, match=r"expected logits \[N, K\] and labels \[N\]"):
        temperature_scaling(torch.zeros(3, 2), torch.zeros(3, 2))


def test_platt_scaling_undoes_a_distortion() -> None:
    """The classifier predicts (z - 1) / 2 for true log-odds z, so gain 2 and offset 1 correct it."""
    true = torch.tensor([-3.0, -1.0, 0.0, 0.5, 2.0])
    _, labels = often(true.sigmoid().tolist(), 100_000)
    predicted = ((true - 1) / 2).repeat_interleave(100_000)
    gain, offset = platt_scaling(predicted[:, None], labels[:, None], strength=0.0)
    assert gain.item() == pytest.approx(2, abs=1e-3)
    assert offset.item() == pytest.approx(1, abs=1e-3)


def test_platt_scaling_is_logistic_regression_with_a_prior() -> None:
    random = torch.Generator().manual_seed(0)
    z = 3 * torch.randn(200, 3, generator=random, dtype=torch.float64)
    labels = (torch.rand(200, 3, generator=random) < (0.4 * z - 1).sigmoid()).long()
    gain, offset = platt_scaling(z, labels, strength=1e-9)
    for i in range(3):
        fitted = LogisticRegression(C=1e12, tol=1e-12).fit(z[:, i : i + 1].numpy(), labels[:, i].numpy())
        assert gain[i].item() == pytest.approx(fitted.coef_[0, 0], abs=1e-4)
        assert offset[i].item() == pytest.approx(fitted.intercept_[0], abs=1e-4)
    firm = platt_scaling(z, labels, strength=1e9)
    torch.testing.assert_close(torch.stack(firm), torch.tensor([[1.0] * 3, [0.0] * 3]).double(), rtol=0, atol=1e-5)


def test_few_or_no_positives_give_sensible_results() -> None:
    z = torch.linspace(-6, -2, 50)[:, None].repeat(1, 3)
    labels = torch.zeros(50, 3)
    labels[-1, 1] = 1  # the image with the highest logit
    labels[0, 2] = 1  # the image with the lowest logit, which suggests a reversed ranking
    gain, offset = platt_scaling(z, labels)
    assert torch.isfinite(gain).all() and torch.isfinite(offset).all()
    assert (gain >= 0.05).all()
    assert gain[2] < gain[1]
    p = (z * gain + offset).sigmoid()
    assert (p[:, 0] < 0.1).all()
    assert p[:, 2].mean() == pytest.approx(1 / 50, abs=0.05)


def test_a_reversed_variable_gets_the_smallest_gain() -> None:
    z = torch.linspace(-4, 4, 400)[:, None]
    labels = (z < 0).long()
    gain, offset = platt_scaling(z, labels)
    assert gain.item() == pytest.approx(0.05)
    assert offset.item() == pytest.approx(0, abs=1e-3)  # both labels are equally frequent


@given(st.integers(0, 10_000), st.floats(0.1, 30))
def test_newtons_method_finds_the_minimum(seed: int, spread: float) -> None:
    random = torch.Generator().manual_seed(seed)
    z = spread * torch.randn(40, 2, generator=random, dtype=torch.float64)
    labels = (torch.rand(40, 2, generator=random) < 0.2).double()
    gain, offset = platt_scaling(z, labels)

    def slope(i: int) -> tuple[float, float]:
        wrong = (z[:, i] * gain[i] + offset[i]).sigmoid() - labels[:, i]
        return float((wrong * z[:, i]).sum() + gain[i] - 1), float(wrong.sum() + offset[i])

    for i in range(2):
        of_gain, of_offset = slope(i)
        assert of_offset == pytest.approx(0, abs=1e-6)
        assert of_gain == pytest.approx(0, abs=1e-5) or (float(gain[i]) == 0.05 and of_gain > 0)


def test_temperature_scaling_undoes_a_distortion() -> None:
    true = torch.tensor([[1.0, 0.0, -1.0], [0.0, 2.0, 0.0], [-1.0, -1.0, 0.5]])
    times = 10_000
    rows, labels = [], []
    for row in true:
        for k, share in enumerate(row.softmax(dim=0).tolist()):
            rows.append(row.expand(round(share * times), 3))
            labels.append(torch.full((round(share * times),), k))
    gain = temperature_scaling(
        4 * torch.cat(rows) + 7, torch.cat(labels), strength=0.0
    )  # adding one number to all logits changes nothing
    assert gain.item() == pytest.approx(0.25, abs=1e-3)
    assert temperature_scaling(4 * torch.cat(rows), torch.cat(labels), strength=1e12).item() == pytest.approx(1)
    assert temperature_scaling(-torch.cat(rows), torch.cat(labels)).item() == pytest.approx(0.05)
