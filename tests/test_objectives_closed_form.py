"""The paper's theorems, tested on a linear Gaussian VAE for which all quantities have a closed form."""

from collections.abc import Callable

import pytest
import torch
from helpers.linear_gaussian import KNOWN, PIXELS, LinearConditional, LinearVAE, observe, sigma_points
from torch import Tensor
from torch.distributions import MultivariateNormal

from condvae import objectives


def hierarchical(*, exact_encoder: bool = True) -> LinearConditional:
    """Three groups of one latent each, so that c(z_l | z_<l, y) can represent any Gaussian posterior."""
    generator = torch.Generator().manual_seed(3)
    loading = torch.randn(PIXELS, 3, generator=generator, dtype=torch.float64)
    vae = LinearVAE([1, 1, 1], loading, sigma=0.5)
    vae.fit_encoder()
    if not exact_encoder:
        with torch.no_grad():
            for weight, log_std in zip(vae.q.weights, vae.q.log_stds, strict=True):
                weight.add_(0.2 * torch.randn(weight.shape, generator=generator, dtype=torch.float64))
                log_std.add_(0.3)
    return LinearConditional(vae)


def correlated() -> LinearConditional:
    """One group of two latents, which are independent given all pixels but strongly correlated given the known ones."""
    loading = torch.tensor([[1, 1], [1, 1], [1, -1], [1, -1]], dtype=torch.float64)
    vae = LinearVAE([2], loading, sigma=0.5)
    vae.fit_encoder()
    return LinearConditional(vae)


def maximise(model: LinearConditional, objective: Callable[[], objectives.Bound]) -> None:
    optimiser = torch.optim.LBFGS(
        model.c.parameters(), max_iter=500, tolerance_grad=1e-12, tolerance_change=1e-15, line_search_fn="strong_wolfe"
    )

    def closure() -> Tensor:
        optimiser.zero_grad()
        loss = objective().loss
        loss.backward()
        return loss

    optimiser.step(closure)


def fit_forward(model: LinearConditional) -> Tensor:
    """Maximise O_for over c, and return its maximum in nats."""
    assert isinstance(model.artifact, LinearVAE)
    x, noise = sigma_points(model.artifact)
    maximise(model, lambda: objectives.forward(model, x, observe(x), noise=noise, check_values=False))
    return objectives.forward(model, x, observe(x), noise=noise, check_values=False).nats.mean()


def fit_reverse(model: LinearConditional) -> Tensor:
    assert isinstance(model.artifact, LinearVAE)
    x, noise = sigma_points(model.artifact)
    maximise(model, lambda: objectives.reverse(model, observe(x), noise=noise, check_values=False))
    return objectives.reverse(model, observe(x), noise=noise, check_values=False).nats.mean()


@pytest.mark.parametrize("exact_encoder", [True, False])
def test_the_forward_objective_recovers_r_for_any_encoder(exact_encoder: bool) -> None:
    """Theorem 3.1: the maximum of O_for is at c(z | y) = r(z | y), mean and full covariance."""
    model = hierarchical(exact_encoder=exact_encoder)
    before = model.c_given_y()
    fit_forward(model)
    for found, wanted, start in zip(model.c_given_y(), model.r_given_y(), before, strict=True):
        torch.testing.assert_close(found, wanted, atol=1e-5, rtol=1e-5)
        assert (start - wanted).abs().max() > 0.1  # the start was far from the optimum
    if exact_encoder:
        for found, wanted in zip(model.c_given_y(), model.p_given_y(), strict=True):
            torch.testing.assert_close(found, wanted, atol=1e-5, rtol=1e-5)


def test_frozen_weights_of_a_perfect_vae_lose_nothing() -> None:
    """Theorem 3.2: with optimal theta and phi, the maximum over psi alone is E[log p_data(x~ | y)]."""
    model = hierarchical()
    assert isinstance(model.artifact, LinearVAE)
    reached = fit_forward(model)
    covariance = model.artifact.data_covariance()
    known, unknown = covariance[KNOWN][:, KNOWN], covariance[~KNOWN][:, ~KNOWN]
    cross = covariance[~KNOWN][:, KNOWN]
    conditional = unknown - cross @ torch.linalg.solve(known, cross.T)
    negative_entropy = -MultivariateNormal(torch.zeros(2, dtype=torch.float64), conditional).entropy()
    torch.testing.assert_close(reached, negative_entropy, atol=1e-6, rtol=0)


def test_the_elbo_of_a_perfect_vae_is_the_log_evidence() -> None:
    model = hierarchical()
    assert isinstance(model.artifact, LinearVAE)
    x, noise = sigma_points(model.artifact)
    bound = objectives.elbo(model.artifact, x, noise=noise, check_values=False).nats.mean()
    evidence = MultivariateNormal(torch.zeros(PIXELS, dtype=torch.float64), model.artifact.data_covariance())
    torch.testing.assert_close(bound, -evidence.entropy(), atol=1e-6, rtol=0)


def test_the_reverse_objective_recovers_the_posterior_and_its_maximum_is_the_evidence_of_y() -> None:
    model = hierarchical()
    assert isinstance(model.artifact, LinearVAE)
    reached = fit_reverse(model)
    for found, wanted in zip(model.c_given_y(), model.p_given_y(), strict=True):
        torch.testing.assert_close(found, wanted, atol=1e-4, rtol=1e-4)
    covariance = model.artifact.data_covariance()[KNOWN][:, KNOWN]
    evidence = MultivariateNormal(torch.zeros(2, dtype=torch.float64), covariance)
    torch.testing.assert_close(reached, -evidence.entropy(), atol=1e-6, rtol=0)


def test_forward_covers_and_reverse_shrinks_if_c_cannot_represent_the_posterior() -> None:
    """With a diagonal c and a correlated posterior S, forward finds S_ii, reverse only 1 / (S^-1)_ii (mode-seeking)."""
    model = correlated()
    _, posterior = model.p_given_y()
    torch.testing.assert_close(model.r_given_y()[1], posterior)
    fit_forward(model)
    mean, covering = model.c_given_y()
    torch.testing.assert_close(mean, model.p_given_y()[0], atol=1e-5, rtol=0)
    torch.testing.assert_close(covering.diagonal(), posterior.diagonal(), atol=1e-5, rtol=0)
    fit_reverse(model)
    mean, shrunk = model.c_given_y()
    torch.testing.assert_close(mean, model.p_given_y()[0], atol=1e-4, rtol=0)
    torch.testing.assert_close(shrunk.diagonal(), 1 / posterior.inverse().diagonal(), atol=1e-4, rtol=0)
    assert (shrunk.diagonal() < 0.25 * covering.diagonal()).all()


def test_the_two_bounds_are_ordered_below_the_exact_log_probability() -> None:
    """O_for <= importance-weighted bound <= log p_cond(x~ | y), which has a closed form for any c."""
    model = hierarchical()
    artifact = model.artifact
    assert isinstance(artifact, LinearVAE)
    generator = torch.Generator().manual_seed(0)
    root = torch.linalg.cholesky(artifact.data_covariance())
    x = (torch.randn(300, PIXELS, generator=generator, dtype=torch.float64) @ root.T).reshape(-1, 1, 2, 2)
    observation = observe(x)
    m, s = model.c_given_y()
    loading = artifact.loading[~KNOWN]
    mean = x.flatten(1)[:, KNOWN] @ m.T @ loading.T
    covariance = loading @ s @ loading.T + artifact.sigma**2 * torch.eye(2, dtype=torch.float64)
    exact = MultivariateNormal(mean, covariance).log_prob(x.flatten(1)[:, ~KNOWN])

    with torch.no_grad():
        forward = torch.stack(
            [objectives.forward(model, x, observation, noise=generator, check_values=False).nats for _ in range(20)]
        )
    few, many = (
        objectives.importance_weighted(model, x, observation, samples=s, noise=generator, check_values=False).nats
        for s in (5, 1000)
    )
    assert forward.mean() + 0.1 < few.mean() < many.mean() - 0.1
    assert many.mean() < exact.mean() + 0.01
    assert (many - exact).abs().mean() < 0.1
    # With one sample, it is the forward objective with a sampled KL.
    one = objectives.importance_weighted(
        model, x, observation, samples=1, noise=torch.Generator().manual_seed(5), check_values=False
    )
    sampled = objectives.forward(
        model, x, observation, noise=torch.Generator().manual_seed(5), kl="sampled", check_values=False
    )
    torch.testing.assert_close(one.nats, sampled.nats.detach())
