from dataclasses import replace

import pytest
import torch
from helpers.models import generator, images

from condvae.design.avp_cnn.augmentation import Augmentation

ALL = Augmentation(shift=0.3, scale=0.2, rotation=20, contrast=0.5, brightness=0.5, blur=0.5, flips=True)


def test_the_default_changes_nothing() -> None:
    x = images(4)
    assert Augmentation()(x, generator()) is x


def test_results_stay_in_range_and_depend_on_the_seed() -> None:
    x = images(64, size=16)
    made = ALL(x, generator(1))
    assert made.shape == x.shape and made.dtype == x.dtype
    assert made.min() >= -1 and made.max() <= 1
    assert torch.equal(made, ALL(x, generator(1)))
    assert not torch.equal(made, ALL(x, generator(2)))
    grey = torch.full_like(x, 0.25)
    moved = Augmentation(shift=0.5, scale=0.5, rotation=45, blur=0.5, flips=True)(grey, generator())
    torch.testing.assert_close(moved, grey)  # edge pixels are repeated outwards


def test_flips_mirror_half_of_the_images() -> None:
    x = images(200, size=8)
    made = Augmentation(flips=True)(x, generator())
    same = torch.isclose(made, x, atol=1e-4).flatten(1).all(dim=1)
    mirrored = torch.isclose(made, x.flip(3), atol=1e-4).flatten(1).all(dim=1)
    assert bool((same ^ mirrored).all())
    assert 60 < int(mirrored.sum()) < 140


def test_a_shift_stays_below_its_limit() -> None:
    """The image is a ramp from left to right, so that a pixel's value shows how far the image moved."""
    size = 32
    ramp = torch.linspace(-1, 1, size).expand(300, 1, size, size)
    made = Augmentation(shift=0.25)(ramp, generator())
    moved = (made - ramp)[:, 0, 0, size // 2]
    most = 0.25 * size / (size - 1)  # in units of the ramp, whose ends are at pixel centres
    assert moved.abs().max() <= most + 1e-5
    assert moved.max() > 0.9 * most and moved.min() < -0.9 * most
    middle = made[:, 0, :, 10:22]
    torch.testing.assert_close(
        middle, middle[:, :1].expand_as(middle), rtol=0, atol=1e-5
    )  # the ramp only moves sideways


def test_contrast_and_brightness_stay_in_their_limits() -> None:
    x = images(500, size=4)
    gains = Augmentation(contrast=0.2)(x, generator())[:, 0, 0, 0] / x[:, 0, 0, 0]
    assert 0.79 < gains.min() < 0.83 and gains.max() > 1  # larger values are clamped to white
    lifts = Augmentation(brightness=0.1)(0 * x, generator())
    assert lifts.abs().max() <= 0.1 and lifts.max() > 0.09 and lifts.min() < -0.09
    assert torch.equal(lifts, lifts[:, :1, :1, :1].expand_as(lifts))


def test_blur_takes_3_x_3_means_of_some_images() -> None:
    x = images(400, size=8)
    made = Augmentation(blur=0.25)(x, generator())
    sharp = torch.isclose(made, x, atol=1e-6).flatten(1).all(dim=1)
    assert 60 < int((~sharp).sum()) < 140
    which = int((~sharp).nonzero()[0])
    torch.testing.assert_close(made[which, :, 3, 4], x[which, :, 2:5, 3:6].mean(dim=(1, 2)))


@pytest.mark.parametrize("strength", ["shift", "rotation", "contrast", "brightness"])
def test_one_limit_does_not_change_the_other_draws(strength: str) -> None:
    x = torch.linspace(-0.2, 0.2, 16).expand(20, 1, 16, 16)
    plain = Augmentation(blur=0.5)
    more = replace(plain, **{strength: 1e-7})  # type: ignore[arg-type]
    torch.testing.assert_close(more(x, generator()), plain(x, generator()), rtol=0, atol=1e-4)
