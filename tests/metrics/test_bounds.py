import math
from typing import Any

import pytest
import torch
from helpers.linear_gaussian import KNOWN, PIXELS, LinearConditional, LinearVAE, observe
from helpers.models import images, small_conditional, small_vae, some_known
from torch.distributions import MultivariateNormal

from condvae import objectives
from condvae.likelihood import GaussianPixels, LogisticMixture
from condvae.metrics import conditional_nats, elbo_bits_per_dim, forward_kl_nats_per_dim, hidden_bits_per_dim
from condvae.metrics.bounds import ByLikelihood
from condvae.vdvae import preset

SEEDS = [5, 6, 7]


@pytest.mark.parametrize("bits", [8, 5])
def test_bits_of_a_discrete_likelihood_equal_the_elbo(bits: int) -> None:
    vae = small_vae(preset("tiny", likelihood=LogisticMixture(components=3, bits=bits, bins="exact")))
    x = images(3)
    found = elbo_bits_per_dim(vae, x, noise=SEEDS)
    expected = objectives.elbo(vae, x, noise=SEEDS).bits_per_dim.double()
    torch.testing.assert_close(found.native, expected, rtol=1e-5, atol=0)
    if bits == 8:
        assert found.of_8_bits is not None
        torch.testing.assert_close(found.of_8_bits, expected, rtol=1e-5, atol=0)
    else:
        assert found.of_8_bits is None


def test_a_gaussian_is_scored_on_8_bit_images() -> None:
    likelihood = GaussianPixels(noise_floor=0.03)
    vae = small_vae(preset("tiny", likelihood=likelihood))
    x = images(3)
    found = elbo_bits_per_dim(vae, x, noise=SEEDS)
    bound = objectives.elbo(vae, x, noise=SEEDS)
    torch.testing.assert_close(found.native, bound.bits_per_dim.double(), rtol=1e-5, atol=0)
    with torch.no_grad():
        descent = vae.descend(vae.posterior(x), batch=3, noise=SEEDS)
        log_mass = likelihood.log_mass(vae.decoder.pixel_parameters(descent.state), x).sum(dim=(1, 2))
    expected = (bound.kl_nats.sum(1) - log_mass) / (bound.image_dims * math.log(2))
    assert found.of_8_bits is not None
    torch.testing.assert_close(found.of_8_bits, expected.double(), rtol=1e-5, atol=0)
    # The bits below the floor s cost at least log2(s sqrt(2 pi) 127.5), with equality if the std is s.
    floor_bits = math.log2(0.03 * math.sqrt(2 * math.pi) * 127.5)
    assert (found.of_8_bits > found.native + floor_bits).all()


def test_forward_kl_is_the_mean_log_ratio_of_the_two_encoders() -> None:
    model, x = small_conditional(), images(1)
    observation = model.observe(x, some_known(1))
    n = 2000
    with torch.no_grad():
        q, c = model.artifact.posterior(x), model.posterior(observation)
        ratios = model.artifact.descend(
            q,
            batch=n,
            noise=torch.Generator().manual_seed(0),
            score=lambda step: (
                (step.drawn_from.log_prob(step.z) - c(step.group, step.state, step.prior).log_prob(step.z))
                .flatten(1)
                .sum(1)
            ),
        ).scores.sum(dim=1) / (3 * 8 * 8)
    seeds = [torch.Generator().manual_seed(i) for i in range(1, 41)]
    found = torch.stack([forward_kl_nats_per_dim(model, x, observation, noise=seed) for seed in seeds])
    error = math.hypot(float(ratios.std()) / n**0.5, float(found.std()) / len(found) ** 0.5)
    assert abs(float(ratios.mean() - found.mean())) < 4 * error
    assert error < 0.05 * float(found.mean())


def test_forward_kl_is_zero_where_the_partial_encoder_is_the_encoder() -> None:
    model, x = small_conditional(), images(3)
    model.start_from_encoder()
    every = torch.ones(3, 1, 8, 8, dtype=torch.bool)
    found = forward_kl_nats_per_dim(model, x, model.observe(x, every), noise=SEEDS)
    assert found.abs().max() < 1e-6
    assert (forward_kl_nats_per_dim(model, x, model.observe(x, ~every), noise=SEEDS) > 1e-3).all()


@pytest.mark.parametrize("samples", [1, 4])
def test_bits_of_hidden_pixels_equal_the_objective(samples: int) -> None:
    vae = preset("tiny", likelihood=LogisticMixture(components=3, bits=8, bins="exact"))
    model, x = small_conditional(vae), images(3)
    known = some_known(3)
    known[1], known[2] = False, True
    observation = model.observe(x, known)
    found = hidden_bits_per_dim(model, x, observation, noise=SEEDS, samples=samples)
    with torch.no_grad():
        bound: objectives.LogProbability = objectives.forward(model, x, observation, noise=SEEDS)
        if samples > 1:
            bound = objectives.importance_weighted(model, x, observation, noise=SEEDS, samples=samples)
    hidden = 3 * (~known[:2]).sum(dim=(1, 2, 3))
    expected = -bound.nats[:2].double() / (hidden * math.log(2))
    torch.testing.assert_close(found.native[:2], expected, rtol=1e-6, atol=0)
    assert found.of_8_bits is not None
    torch.testing.assert_close(found.of_8_bits[:2], expected, rtol=1e-6, atol=0)
    assert found.native[2].isnan() and found.of_8_bits[2].isnan()


@pytest.mark.parametrize("samples", [1, 4])
def test_a_gaussian_is_scored_on_hidden_8_bit_pixels(samples: int) -> None:
    """Both numbers come from the same passes: with one sample they differ only by the likelihoods."""
    likelihood = GaussianPixels(noise_floor=0.03)
    model, x = small_conditional(preset("tiny", likelihood=likelihood)), images(3)
    known = some_known(3)
    observation = model.observe(x, known)
    found = hidden_bits_per_dim(model, x, observation, noise=SEEDS, samples=samples)
    assert found.of_8_bits is not None
    assert (found.of_8_bits > found.native + math.log2(0.03 * math.sqrt(2 * math.pi) * 127.5)).all()
    with torch.no_grad():
        own: objectives.LogProbability = objectives.forward(model, x, observation, noise=SEEDS)
        if samples > 1:
            own = objectives.importance_weighted(model, x, observation, noise=SEEDS, samples=samples)
        torch.testing.assert_close(found.native, own.bits_per_scored_dim.double(), rtol=1e-6, atol=0)
        if samples == 1:
            vae = model.artifact
            descent = vae.descend(vae.posterior(x), batch=3, noise=SEEDS)
            parameters = vae.decoder.pixel_parameters(descent.state)
            gap = likelihood.log_prob(parameters, x) - likelihood.log_mass(parameters, x)
            hidden = (~known).sum(dim=(1, 2, 3))
            expected = torch.where(known[:, 0], 0.0, gap).sum(dim=(1, 2)) / (3 * hidden * math.log(2))
            torch.testing.assert_close(found.of_8_bits - found.native, expected.double(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("samples", [1, 4])
@pytest.mark.parametrize("likelihood", [GaussianPixels(noise_floor=0.03), LogisticMixture(components=3)])
def test_one_pass_gives_both_targets(likelihood: GaussianPixels | LogisticMixture, samples: int) -> None:
    model, x = small_conditional(preset("tiny", likelihood=likelihood)), images(3)
    known = some_known(3)
    known[1], known[2] = False, True
    observation = model.observe(x, known)
    found = conditional_nats(model, x, observation, noise=SEEDS, samples=samples)
    targets: tuple[tuple[objectives.Target, ByLikelihood, torch.Tensor], ...] = (
        ("hidden", found.hidden, found.hidden_dims),
        ("whole", found.whole, found.whole_dims),
    )
    for target, nats, dims in targets:
        given: dict[str, Any] = {"noise": SEEDS, "target": target, "pixel_score": model.artifact.pixel_log_probs}
        with torch.no_grad():
            bound: objectives.LogProbability = objectives.forward(model, x, observation, **given)
            if samples > 1:
                bound = objectives.importance_weighted(model, x, observation, samples=samples, **given)
        assert torch.equal(dims, bound.scored_dims)
        torch.testing.assert_close(nats.native, -bound.nats[0].double(), rtol=1e-6, atol=1e-5)
        if nats.of_8_bits is None:
            assert likelihood.bits != 8
        else:
            torch.testing.assert_close(nats.of_8_bits, -bound.nats[-1].double(), rtol=1e-6, atol=1e-5)
    # The targets are equal where nothing is known; where all is known, hidden pixels cost only the KL.
    assert found.hidden.native[1] == found.whole.native[1]
    if samples == 1:
        assert found.kl is not None
        assert torch.equal(found.kl / found.whole_dims, forward_kl_nats_per_dim(model, x, observation, noise=SEEDS))
        assert float(found.hidden.native[2]) == pytest.approx(float(found.kl[2]), rel=1e-5)


def test_a_five_bit_likelihood_gives_no_8_bit_number() -> None:
    model = small_conditional(preset("tiny", likelihood=LogisticMixture(components=3, bits=5)))
    x = images(3)
    assert hidden_bits_per_dim(model, x, model.observe(x, some_known(3)), noise=SEEDS).of_8_bits is None


def test_nats_of_both_targets_approach_the_exact_ones_from_above() -> None:
    """-ELBO >= importance-weighted >= -log p_cond(x~ | y) on average, the last in closed form for an arbitrary c."""
    generator = torch.Generator().manual_seed(3)
    loading = 0.2 * torch.randn(PIXELS, 3, generator=generator, dtype=torch.float64)
    vae = LinearVAE([1, 1, 1], loading, sigma=0.1)
    vae.fit_encoder()
    vae.likelihood = LogisticMixture(channels=1)  # only declares 8-bit grey levels; the pixels are normal
    model = LinearConditional(vae)
    root = torch.linalg.cholesky(vae.data_covariance())
    x = torch.randn(300, PIXELS, generator=generator, dtype=torch.float64) @ root.T
    x = x[(x.abs() < 1).all(dim=1)].reshape(-1, 1, 2, 2)
    m, s = model.c_given_y()
    mean = x.flatten(1)[:, KNOWN] @ m.T @ loading.T
    covariance = loading @ s @ loading.T + vae.sigma**2 * torch.eye(PIXELS, dtype=torch.float64)
    of_hidden = MultivariateNormal(mean[:, ~KNOWN], covariance[~KNOWN][:, ~KNOWN]).log_prob(x.flatten(1)[:, ~KNOWN])
    of_whole = MultivariateNormal(mean, covariance).log_prob(x.flatten(1))
    exact = -torch.stack((of_hidden, of_whole)).mean(dim=1)

    def nats(samples: int) -> torch.Tensor:
        found = conditional_nats(model, x, observe(x), noise=generator, samples=samples)
        return torch.stack((found.hidden.native, found.whole.native)).mean(dim=1)

    elbo, few, many = nats(1), nats(5), nats(2000)
    # q is the exact posterior of the whole image, so its bounds are already tight with one sample.
    margin = torch.tensor([0.07, 0.005])
    assert (elbo > few + margin).all() and (few > many + margin).all()
    torch.testing.assert_close(many, exact, rtol=0, atol=0.07)
