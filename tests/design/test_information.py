import math

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from torch import Tensor

from condvae.design import entropy, expected_information_gain, expected_posterior_entropy, information_gains

logits = st.tuples(st.integers(1, 6), st.integers(1, 3), st.integers(2, 5)).flatmap(
    lambda shape: arrays(np.float32, shape, elements=st.floats(-60, 60, width=32))
)


def log_softmax(values: np.ndarray[tuple[int, ...], np.dtype[np.float32]]) -> Tensor:
    return torch.from_numpy(values).log_softmax(dim=-1)


@given(logits)
def test_eig_is_never_negative_and_is_the_mean_of_the_gains(values: np.ndarray) -> None:
    log_p = log_softmax(values)
    gains, eig = information_gains(log_p), expected_information_gain(log_p)
    assert gains.shape == log_p.shape[:-1] and eig.shape == log_p.shape[1:-1]
    assert (gains >= 0).all() and (eig >= 0).all()
    assert (gains.mean(dim=0) - eig).abs().max() <= 1e-6
    assert (eig <= math.log(min(log_p.shape[0], log_p.shape[-1])) + 1e-9).all()


@given(logits)
def test_eig_is_the_entropy_of_the_mean_less_the_mean_entropy(values: np.ndarray) -> None:
    p = np.exp(log_softmax(values).double().numpy())
    p /= p.sum(axis=-1, keepdims=True)

    def entropy_of(q: np.ndarray) -> np.ndarray:
        return np.asarray(-(q * np.log(np.maximum(q, 1e-300))).sum(axis=-1))

    log_p = log_softmax(values)
    after = expected_posterior_entropy(log_p)
    np.testing.assert_allclose(entropy(log_p), entropy_of(p), atol=1e-10)
    np.testing.assert_allclose(after, entropy_of(p).mean(axis=0), atol=1e-10)
    np.testing.assert_allclose(expected_information_gain(log_p), entropy_of(p.mean(axis=0)) - after.numpy(), atol=1e-10)


def test_outcomes_that_are_impossible_or_certain() -> None:
    certain = torch.eye(4).log()  # four images, each of which makes v certain
    assert torch.equal(entropy(certain), torch.zeros(4, dtype=torch.float64))
    torch.testing.assert_close(information_gains(certain), torch.full((4,), math.log(4), dtype=torch.float64))
    half = torch.tensor([[1.0, 0.0, 0.0], [0.5, 0.5, 0.0]]).log()
    expected = torch.tensor([math.log(4 / 3), math.log(2 / 3) / 2 + math.log(2) / 2], dtype=torch.float64)
    torch.testing.assert_close(information_gains(half), expected, rtol=0, atol=1e-7)


def test_nan_stays_nan() -> None:
    log_p = torch.tensor([[0.5, 0.5], [0.1, 0.9]]).log()
    log_p[0, 1] = torch.nan
    assert expected_information_gain(log_p).isnan() and expected_posterior_entropy(log_p).isnan()


def test_equal_predictions_have_no_gain() -> None:
    log_p = torch.randn(1, 50, 3, generator=torch.Generator().manual_seed(0)).log_softmax(dim=-1)
    for n in (1, 3, 10, 1000):
        assert not information_gains(log_p.expand(n, -1, -1)).any()  # exactly: only then are ties ties


def test_a_gain_is_a_kl_divergence_between_distributions_that_do_not_quite_sum_to_one() -> None:
    log_p = torch.tensor([[0.1, 0.9], [0.6, 0.4]]).log()
    torch.testing.assert_close(information_gains(log_p + 1e-3), information_gains(log_p), rtol=0, atol=1e-7)
    mean = torch.tensor([0.35, 0.65])
    expected = (log_p.exp() * (log_p - mean.log())).sum(dim=-1).double()
    torch.testing.assert_close(information_gains(log_p), expected, rtol=0, atol=1e-6)
