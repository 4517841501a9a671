import math

import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.distributions import Normal, kl_divergence

from condvae.gaussian import Gaussian

means = st.floats(-20, 20)
log_stds = st.floats(-6, 4)


def gaussian(mean: float, log_std: float) -> Gaussian:
    return Gaussian(torch.tensor(mean, dtype=torch.float64), torch.tensor(log_std, dtype=torch.float64))


def normal(g: Gaussian) -> Normal:
    return Normal(g.mean, g.log_std.exp())


@given(means, log_stds, means, log_stds)
def test_kl_matches_torch_distributions(m1: float, s1: float, m2: float, s2: float) -> None:
    p, q = gaussian(m1, s1), gaussian(m2, s2)
    torch.testing.assert_close(p.kl_to(q), kl_divergence(normal(p), normal(q)), rtol=1e-9, atol=1e-9)
    assert p.kl_to(q) >= -1e-12
    assert p.kl_to(p) == 0


@given(means, log_stds, means)
def test_log_density_and_entropy_match_torch_distributions(mean: float, log_std: float, z: float) -> None:
    g = gaussian(mean, log_std)
    value = torch.tensor(z, dtype=torch.float64)
    torch.testing.assert_close(g.log_prob(value), normal(g).log_prob(value), rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(g.entropy(), normal(g).entropy(), rtol=1e-9, atol=1e-9)


def test_the_spread_of_samples_is_the_temperature_times_the_std() -> None:
    noise = torch.randn(200_000, generator=torch.Generator().manual_seed(0))
    g = Gaussian(torch.full_like(noise, 3.0), torch.full_like(noise, math.log(2.0)))
    for temperature in (0.0, 0.5, 1.0):
        z = g.sample(noise, temperature)
        assert abs(float(z.mean()) - 3.0) < 0.02
        assert abs(float(z.std()) - 2.0 * temperature) < 0.02


def test_softplus_scales_start_at_one_and_have_finite_gradients() -> None:
    raw = torch.tensor([0.0, 1.0, -200.0, 200.0], dtype=torch.float64).reshape(1, 4, 1, 1).repeat(1, 2, 1, 1)
    raw.requires_grad_()
    log_std = Gaussian.from_network(raw, "softplus").log_std.flatten()
    assert log_std[0] == 0.0
    beta = math.log(2.0)
    expected = torch.tensor([math.log1p(math.exp(beta)) / beta, 200.0], dtype=torch.float64).log()
    torch.testing.assert_close(log_std[[1, 3]], expected)
    torch.testing.assert_close(log_std[2], torch.tensor(-200 * beta - math.log(beta), dtype=torch.float64))
    log_std.sum().backward()
    gradient: Tensor | None = raw.grad
    assert gradient is not None
    assert torch.isfinite(gradient).all()


def test_half_precision_outputs_become_float32() -> None:
    g = Gaussian.from_network(torch.zeros(1, 4, 1, 1, dtype=torch.bfloat16))
    assert g.mean.dtype == g.log_std.dtype == torch.float32


def test_shift_adds_to_mean_and_log_std() -> None:
    g = gaussian(1.0, 0.5).shifted_by(gaussian(0.25, -1.0))
    assert (float(g.mean), float(g.log_std)) == (1.25, -0.5)
