import itertools
import math
from collections.abc import Callable

import pytest
import torch
from helpers.models import generator
from torch import Tensor
from torchmetrics.functional.image import peak_signal_noise_ratio, structural_similarity_index_measure

from condvae.metrics import pixel_errors, pixel_mean, psnr, sample_mse, ssim


def levels(*shape: int, seed: int = 0) -> Tensor:
    return torch.randint(256, shape, generator=generator(seed), dtype=torch.uint8)


def disturbed(images: Tensor, by: float, seed: int = 1) -> Tensor:
    noise = by * torch.randn(images.shape, generator=generator(seed))
    return (images + noise).round().clamp(0, 255).to(torch.uint8)


def smooth(*shape: int) -> Tensor:
    """Images with large dark, bright and flat regions."""
    places = torch.linspace(0, 6, shape[-1])
    waves = torch.sin(places)[None, :] * torch.cos(places)[:, None]
    factors = torch.linspace(0.2, 1.5, math.prod(shape[:-2])).reshape(*shape[:-2], 1, 1)
    return (127.5 * (1 + factors * waves)).clamp(0, 255).to(torch.uint8)


@pytest.mark.parametrize("at_once", [1, 2**24])
def test_mse_is_computed_for_each_sample(at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pixel_errors, "_PIXELS_AT_ONCE", at_once)
    truth, samples = levels(3, 3, 8, 8), levels(3, 5, 3, 8, 8, seed=1)
    found = sample_mse(truth, samples)
    for b, k in itertools.product(range(3), range(5)):
        squares = ((samples[b, k].double() - truth[b].double()) / 255).square()
        assert float(found[b, k]) == pytest.approx(float(squares.mean()), rel=1e-6)
    samples[1, 3] = truth[1]
    assert float(sample_mse(truth, samples)[1].min()) == 0


def test_black_against_white_is_one() -> None:
    truth = torch.zeros(1, 3, 4, 4, dtype=torch.uint8)
    assert float(sample_mse(truth, 255 - truth[:, None])) == 1
    assert float(psnr(truth, 255 - truth)) == 0


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("make", [levels, smooth])
def test_psnr_and_ssim_equal_those_of_torchmetrics(make: Callable[..., Tensor], channels: int) -> None:
    images = make(4, channels, 24, 24)
    for other in (disturbed(images, 5), disturbed(images, 60), levels(4, channels, 24, 24, seed=9)):
        a, b = images.double(), other.double()
        theirs = peak_signal_noise_ratio(a, b, data_range=255.0, reduction="none", dim=(1, 2, 3))
        torch.testing.assert_close(psnr(images, other), theirs, rtol=1e-6, atol=0)
        similar = structural_similarity_index_measure(a, b, data_range=255.0, reduction="none")
        assert isinstance(similar, Tensor)
        torch.testing.assert_close(ssim(images, other), similar, rtol=1e-6, atol=1e-8)
        torch.testing.assert_close(ssim(images, other), ssim(other, images))


def test_equal_images_are_perfect_and_noise_makes_them_worse() -> None:
    images = smooth(3, 3, 32, 32)
    assert (psnr(images, images) == 100).all()
    torch.testing.assert_close(ssim(images, images), torch.ones(3).double())
    others = [disturbed(images, by) for by in (2, 10, 50)]
    for score in (psnr, ssim):
        for better, worse in itertools.pairwise([score(images, other) for other in others]):
            assert (better > worse).all()


def test_the_mean_of_samples_is_not_rounded_and_has_the_smallest_error() -> None:
    samples = levels(2, 7, 3, 16, 16)
    mean = pixel_mean(samples)
    torch.testing.assert_close(mean.double(), samples.double().mean(dim=1), rtol=1e-6, atol=0)
    truth = levels(2, 3, 16, 16, seed=5)
    best = -10 * sample_mse(truth, samples).min(dim=1).values.log10()
    assert (psnr(truth, mean) > best).all()
    assert ssim(truth, mean).shape == (2,)


def test_invalid_pairs_are_rejected() -> None:
    images = levels(2, 3, 16, 16)
    for measure in (psnr, ssim):
        with pytest.raises(ValueError, match="pairs of the same shape"):
            measure(images, images[:1])
        with pytest.raises(ValueError, match="with grey levels"):
            measure(images, images.float() / 127.5 - 1)
        with pytest.raises(ValueError, match="expected grey levels, uint8"):
            measure(images.long(), images.long())
    with pytest.raises(ValueError, match="SSIM needs 11 x 11"):
        ssim(images[..., :8], images[..., :8])
    with pytest.raises(ValueError, match=r"expected \[B, K, C, H, W\]"):
        sample_mse(images, images[:1, None])
