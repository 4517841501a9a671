"""Information between x~ and y given z, compared with covariance matrices, with random draws and with a real VAE."""

import dataclasses
import math
from functools import partial

import pytest
import torch
from helpers.models import SMALLEST, generator, images, small_vae, some_known
from torch import Tensor
from torch.distributions import Categorical, MultivariateNormal, kl_divergence

from condvae.gaussian import Gaussian
from condvae.likelihood import GaussianPixels, LogisticMixture
from condvae.metrics import calibrated_nats, label_entropy_nats, observed_information
from condvae.observe import Boxes, Edges, Grey, Label, LinearProcess, LowResolution, Process
from condvae.vdvae import VDVAE

FLOOR = 0.05
CONFIG = dataclasses.replace(SMALLEST, likelihood=GaussianPixels(noise_floor=FLOOR))
SEEDS = [5, 6, 7]
PROCESSES = [Grey(), LowResolution(factor=4), LowResolution(factor=2)]


def random_variance(batch: int, channels: int, size: int, seed: int = 0) -> Tensor:
    """Variances from far below to far above FLOOR^2."""
    spread = torch.randn(batch, channels, size, size, generator=generator(seed), dtype=torch.float64)
    return FLOOR**2 * (2 * spread).exp()


def matrix(process: LinearProcess, channels: int, size: int) -> Tensor:
    """The matrix A of y = A x, found by giving one pixel at a time: [dimensions of y, dimensions of x]."""
    dims = channels * size * size
    units = torch.eye(dims, dtype=torch.float64).reshape(dims, channels, size, size)
    return process.weighted_sums(units).flatten(1).T


def brute_force(weights: Tensor, variance: Tensor, target: Tensor) -> float:
    """I(x~; y) from log-determinants of the joint covariance of x~ = x_target + floor * noise and y = weights x."""
    x_and_y = torch.cat((torch.eye(len(variance), dtype=torch.float64)[target], weights))
    joint = x_and_y @ variance.diag() @ x_and_y.T
    n = int(target.sum())
    joint[:n, :n] += FLOOR**2 * torch.eye(n, dtype=torch.float64)
    parts = torch.logdet(joint[:n, :n]) + torch.logdet(joint[n:, n:])
    return float(parts - torch.logdet(joint)) / 2


@pytest.mark.parametrize("process", PROCESSES)
@pytest.mark.parametrize("channels", [1, 3])
def test_squared_weights_make_variances_of_y(process: LinearProcess, channels: int) -> None:
    weights, values = matrix(process, channels, 4), random_variance(2, channels, 4)
    for power in (1, 2):
        expected = values.flatten(1) @ weights.T**power
        torch.testing.assert_close(process.weighted_sums(values, power=power).flatten(1), expected)
    covariance = weights @ weights.T
    torch.testing.assert_close(covariance, covariance.diagonal().diag())
    torch.testing.assert_close(weights.sum(dim=1), torch.ones(len(weights), dtype=torch.float64))


@pytest.mark.parametrize("process", PROCESSES)
@pytest.mark.parametrize("share", [None, 0.7, 0.2])
def test_the_closed_form_equals_log_determinants(process: LinearProcess, share: float | None) -> None:
    variance = random_variance(4, 3, 4)
    target = None if share is None else torch.rand(variance.shape, generator=generator(1)) < share
    found = calibrated_nats(variance, FLOOR, partial(process.weighted_sums, power=2), target=target)
    weights = matrix(process, 3, 4)
    every = torch.ones(3 * 4 * 4, dtype=torch.bool)
    for i, nats in enumerate(found.tolist()):
        chosen = every if target is None else target[i].flatten()
        assert nats == pytest.approx(brute_force(weights, variance[i].flatten(), chosen), rel=1e-8)


def test_the_closed_form_equals_log_determinants_for_random_weights() -> None:
    weights = torch.randn(6, 5, generator=generator(), dtype=torch.float64)  # six sums of five values each
    rows = torch.block_diag(*weights)
    variance = random_variance(3, 6, 5)[:, :, :, :1]
    target = torch.rand(variance.shape, generator=generator(1)) < 0.5

    def variance_of_y(values: Tensor) -> Tensor:
        return (values * weights[:, :, None] ** 2).sum(dim=2)

    found = calibrated_nats(variance, FLOOR, variance_of_y, target=target)
    for i, nats in enumerate(found.tolist()):
        assert nats == pytest.approx(brute_force(rows, variance[i].flatten(), target[i].flatten()), rel=1e-8)


def test_hidden_pixels_and_known_pixels_share_no_information_given_the_latents() -> None:
    """The assumption of the paper's theorem for image completion."""
    variance, known = random_variance(5, 3, 8), some_known(5)
    known[3], known[4] = False, True

    def of_known(values: Tensor) -> Tensor:
        return torch.where(known, values, 0.0)

    assert torch.equal(calibrated_nats(variance, FLOOR, of_known, target=~known), torch.zeros(5, dtype=torch.float64))
    # With known pixels in x~, each adds log(std / floor).
    whole = calibrated_nats(variance, FLOOR, of_known)
    each = (1 + variance / FLOOR**2).log() / 2
    torch.testing.assert_close(whole, of_known(each).flatten(1).sum(dim=1))
    assert (whole[known.flatten(1).any(dim=1)] > 1).all() and whole[3] == 0
    one_more = ~known
    one_more[0].view(-1)[known[0].flatten().nonzero()[0]] = True
    assert (calibrated_nats(variance, FLOOR, of_known, target=one_more) > 0).tolist() == [True] + [False] * 4


@pytest.mark.parametrize("process", PROCESSES)
def test_hidden_pixels_share_information_with_sums_of_known_and_hidden_ones(process: LinearProcess) -> None:
    """The zero for image completion comes from disjoint pixels, not from hiding pixels."""
    variance = random_variance(2, 3, 4)
    variance_of_y = partial(process.weighted_sums, power=2)
    one = torch.zeros(3, 4, 4, dtype=torch.bool)
    none, one[0, 0, 0] = one.clone(), True
    whole = calibrated_nats(variance, FLOOR, variance_of_y)
    part = calibrated_nats(variance, FLOOR, variance_of_y, target=one)
    assert (part > 0).all() and (part < whole).all()
    assert torch.equal(calibrated_nats(variance, FLOOR, variance_of_y, target=none), torch.zeros_like(whole))


def test_pixels_without_variance_share_no_information() -> None:
    variance_of_y = partial(LowResolution(factor=2).weighted_sums, power=2)
    for scale in (0.0, 1e-300, 1e-30):
        variance = torch.full((1, 3, 4, 4), scale, dtype=torch.float64)
        assert calibrated_nats(variance, FLOOR, variance_of_y).tolist() == [0]
    variance[0, 0, 0, 0] = math.nan
    assert calibrated_nats(variance, FLOOR, variance_of_y).isnan().all()


def vae_with_pixels(pixels: Gaussian) -> VDVAE:
    """A VAE whose decoder gives these means and log-stds, [B, C, H, W], for any latents."""
    vae = small_vae(CONFIG)
    above = pixels.log_std - math.log(FLOOR)
    raw = above + (-torch.expm1(-above)).log() + math.log(FLOOR)  # softplus(raw - log floor) = above
    parameters = torch.cat((pixels.mean, raw), dim=1)
    vae.decoder.pixel_parameters = lambda state: parameters[: len(state)]  # type: ignore[method-assign]
    return vae


@pytest.mark.parametrize("process", PROCESSES)
@pytest.mark.parametrize("equal", [True, False])
def test_both_forms_have_the_mean_of_random_draws_if_the_model_is_calibrated(
    process: LinearProcess, equal: bool
) -> None:
    """Draw x from the model and estimate mutual information from log-densities of the draws."""
    n = 4000
    variance = torch.full((1, 3, 8, 8), 0.02, dtype=torch.float64)
    if not equal:
        variance = variance * torch.rand(variance.shape, generator=generator(3), dtype=torch.float64)
    noise = torch.randn(2, n, 3, 8, 8, generator=generator(4), dtype=torch.float64)
    x = 0.05 + variance.sqrt() * noise[0]
    x_noisy = x + FLOOR * noise[1]
    std = (variance + FLOOR**2).sqrt().log()
    vae = vae_with_pixels(Gaussian(torch.full((n, 3, 8, 8), 0.05, dtype=torch.float64), std.expand(n, -1, -1, -1)))
    found = observed_information(vae, x.float(), process, noise=generator())

    def sums(values: Tensor) -> Tensor:
        return process.weighted_sums(values).flatten(1)

    def nats(seen: Gaussian, prior: Gaussian, y: Tensor) -> Tensor:
        return (seen.log_prob(y) - prior.log_prob(y)).sum(dim=1)

    weights = matrix(process, 3, 8)
    before = weights**2 @ variance.flatten()
    y, prior = sums(x), Gaussian(sums(torch.full_like(x, 0.05)), before.log() / 2)
    # I(x'; y): the density of y given x' against its density.
    gain = variance / (variance + FLOOR**2)
    given = Gaussian(sums(0.05 + gain * (x_noisy - 0.05)), (weights**2 @ (gain * FLOOR**2).flatten()).log() / 2)
    from_image = nats(given, prior, y)
    # I(A x'; y): the same with the sums of x' only.
    noise_of_y = weights.square().sum(dim=1) * FLOOR**2
    gain_of_y = before / (before + noise_of_y)
    given = Gaussian(0.05 + gain_of_y * (sums(x_noisy) - 0.05), (gain_of_y * noise_of_y).log() / 2)
    from_sums = nats(given, prior, y)
    for values, drawn in ((found.calibrated_nats, from_image), (found.cross_entropy_nats, from_sums)):
        error = float((values - drawn).std()) / n**0.5
        assert abs(float((values - drawn).mean())) < 4 * error
        assert error < 0.01 * float(drawn.mean())
    difference = float(found.calibrated_nats[0] - found.cross_entropy_nats.mean())
    error = float(found.cross_entropy_nats.std()) / n**0.5
    assert abs(difference) < 4 * error if equal else difference > 10 * error
    if equal:
        expected = len(weights) * math.log(math.sqrt(0.02 + FLOOR**2) / FLOOR)
        assert float(found.calibrated_nats[0]) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("process", PROCESSES)
def test_a_real_vae_gives_the_kl_of_multivariate_normals(process: LinearProcess) -> None:
    vae, x = small_vae(CONFIG), images(3)
    assert isinstance(vae.likelihood, GaussianPixels)
    found = observed_information(vae, x, process, noise=SEEDS)
    with torch.no_grad():
        descent = vae.descend(vae.posterior(x), batch=3, noise=SEEDS)
        pixels = vae.likelihood.gaussian(vae.decoder.pixel_parameters(descent.state).double())
    weights, variance = matrix(process, 3, 8), (2 * pixels.log_std.flatten(1)).exp()
    every = torch.ones(variance.shape[1], dtype=torch.bool)
    for i in range(3):
        seen = MultivariateNormal(weights @ x[i].double().flatten(), FLOOR**2 * weights @ weights.T)
        predicted = MultivariateNormal(weights @ pixels.mean[i].flatten(), weights @ variance[i].diag() @ weights.T)
        assert float(found.cross_entropy_nats[i]) == pytest.approx(float(kl_divergence(seen, predicted)), rel=1e-8)
        expected = brute_force(weights, variance[i] - FLOOR**2, every)
        assert float(found.calibrated_nats[i]) == pytest.approx(expected, rel=1e-8)
    assert (found.calibrated_nats > 0).all()
    assert not found.cross_entropy_nats.requires_grad


def test_an_observation_of_the_whole_image_costs_its_negative_log_likelihood() -> None:
    vae, x = small_vae(CONFIG), images(3)
    found = observed_information(vae, x, LowResolution(factor=1), noise=SEEDS)
    with torch.no_grad():
        descent = vae.descend(vae.posterior(x), batch=3, noise=SEEDS)
        expected = -vae.pixel_log_prob(descent.state, x).sum(dim=(1, 2))
    torch.testing.assert_close(found.cross_entropy_nats, expected.double(), rtol=1e-5, atol=0)


@pytest.mark.parametrize("process", [Edges(), Label(), Boxes()])
def test_other_processes_are_errors(process: Process) -> None:
    with pytest.raises(ValueError, match=f"the process is {process.name}, expected grey or low-resolution"):
        observed_information(small_vae(CONFIG), images(1), process, noise=generator())


def test_another_likelihood_is_an_error() -> None:
    vae = small_vae(dataclasses.replace(SMALLEST, likelihood=LogisticMixture(components=3)))
    with pytest.raises(ValueError, match="likelihood is logistic_mixture, expected gaussian"):
        observed_information(vae, images(1), Grey(), noise=generator())


def test_labels_have_at_most_the_entropy_of_their_counts() -> None:
    classes = torch.arange(10).repeat(7)
    assert label_entropy_nats(classes) == pytest.approx(math.log(10))
    uneven = torch.tensor([3, 3, 3, 8, 5])
    assert label_entropy_nats(uneven) == pytest.approx(float(Categorical(torch.tensor([0.6, 0.2, 0.2])).entropy()))
    assert label_entropy_nats(torch.full((4,), 2)) == 0
    # The second finding is present in all images; the third is that of the first, which the bound counts twice.
    first = torch.tensor([1, 0, 0, 0], dtype=torch.uint8)
    findings = torch.stack((first, torch.ones_like(first), first), dim=1)
    assert label_entropy_nats(findings) == pytest.approx(2 * label_entropy_nats(first))


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (torch.zeros(0, dtype=torch.int64), r"shape \(0,\)"),
        (torch.zeros(2, 2, 2), r"shape \(2, 2, 2\)"),
        (torch.tensor([[1, -1], [0, 1]]), "values other than 0 and 1"),
    ],
)
def test_wrong_labels_have_no_entropy(labels: Tensor, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        label_entropy_nats(labels)
