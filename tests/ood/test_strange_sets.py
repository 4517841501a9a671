"""Sets of strange images: how they are generated, and that each image is independent of the others."""

import gzip
import struct
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from helpers.ood_models import plain_data
from torch import Tensor

from condvae.noise import SeededNoise
from condvae.ood.strange_sets import GENERATED_SETS, Foreign, open_foreign, own
from condvae.sampling.plain import seeds_from


def levels(n: int, *, size: int = 16, channels: int = 3) -> Tensor:
    """uint8 [n, channels, size, size], all different."""
    generator = torch.Generator().manual_seed(0)
    return torch.randint(256, (n, channels, size, size), generator=generator, dtype=torch.uint8)


def ramp(size: int) -> Tensor:
    """Two images, [2, 1, size, size]: grey levels rise by 4 from column to column, or from row to row."""
    row = (4 * torch.arange(size)).to(torch.uint8).expand(size, size)
    return torch.stack((row, row.T))[:, None]


@pytest.mark.parametrize("name", GENERATED_SETS)
@pytest.mark.parametrize("channels", [1, 3])
def test_every_image_is_generated_independently(name: str, channels: int) -> None:
    one, test = own(name), levels(6, channels=channels)
    made = one.images(test, seed=5)
    assert made.shape == test.shape and made.dtype == torch.uint8 and made.is_contiguous()
    assert torch.equal(one.images(test[:4], seed=5), made[:4])
    other = test.clone()
    other[2] = 255 - other[2]
    changed = (one.images(other, seed=5) != made).flatten(1).any(dim=1)
    assert changed.tolist() == [one.paired and i == 2 for i in range(6)]
    if not one.paired:
        assert not torch.equal(one.images(test, seed=6), made)


def test_sets_share_no_seeds_with_each_other_or_with_scores() -> None:
    used = list(seeds_from(5, 1, observations=range(6)).seeds)  # the seeds that `measure` uses to score them

    def keep(test: Tensor, noise: SeededNoise) -> Tensor:
        used.extend(noise.seeds)
        return test

    for one in GENERATED_SETS.values():
        replace(one, make=keep).images(levels(6), seed=5)
    assert len(set(used)) == len(used) == 6 * (1 + len(GENERATED_SETS))


def test_noise_takes_all_levels_equally_often() -> None:
    counts = torch.bincount(own("noise").images(levels(64, size=32), seed=1).flatten().int(), minlength=256)
    expected = 64 * 3 * 32**2 / 256
    assert ((counts - expected).abs() < 6 * expected**0.5).all()


def test_constant_images_have_one_colour_each() -> None:
    made = own("constant").images(levels(200, size=4), seed=1)
    assert torch.equal(made, made[:, :, :1, :1].expand_as(made))
    colours = made[:, :, 0, 0].double()
    assert (colours.mean(dim=0) - 127.5).abs().max() < 25 and colours.std(dim=0).min() > 60
    assert (made[:, 0] != made[:, 1]).any()  # channels are drawn independently


def test_flip_is_upside_down_and_rotate_a_quarter() -> None:
    test = levels(3)
    flipped, turned = own("flip").images(test, seed=0), own("rotate").images(test, seed=0)
    assert torch.equal(flipped[:, :, 0], test[:, :, -1]) and torch.equal(own("flip").images(flipped, seed=0), test)
    assert torch.equal(turned[:, :, 0], test[:, :, :, -1])  # counter-clockwise: the last column is the first row
    for _ in range(3):
        turned = own("rotate").images(turned, seed=0)
    assert torch.equal(turned, test)


def test_crop_shows_the_middle_larger() -> None:
    across, down = own("crop").images(ramp(32), seed=0)[:, 0].double()
    assert torch.equal(across, down.T)
    # The slope is 2/3 and the middle stays; away from the borders, bicubic interpolation is exact on a ramp.
    expected = 4 * ((torch.arange(32) - 15.5) / 1.5 + 15.5)
    assert (across - expected).abs().max() <= 0.51


def test_translate_starts_in_a_corner() -> None:
    size, test = 20, ramp(20)[:1].expand(64, -1, -1, -1)
    made = own("translate").images(test, seed=0)[:, 0].double()
    column = torch.arange(size)
    positions = (column + 0.5) * 0.9 - 0.5  # 18 of 20 columns, enlarged
    inside = slice(2, -2)  # where interpolation does not reach the border
    left, right = (4 * (positions + first) for first in (0, 2))
    starts_left = (made[:, 5] - left)[:, inside].abs().amax(dim=1) <= 0.51
    starts_right = (made[:, 5] - right)[:, inside].abs().amax(dim=1) <= 0.51
    assert (starts_left ^ starts_right).all()
    assert 16 < int(starts_left.sum()) < 48
    both = torch.stack((test[0, 0], test[0, 0].T))[None].expand(64, -1, -1, -1)  # across, and down
    made = own("translate").images(torch.cat((both, both[:, :1]), dim=1), seed=0).double()
    corners = {tuple((one[:2, 10, 10] > 41).tolist()) for one in made}
    assert len(corners) == 4


def test_names() -> None:
    with pytest.raises(ValueError, match=r"unknown set 'twirl'"):
        own("twirl")
    with pytest.raises(ValueError, match=r"torch.float32 \[2, 3, 4, 4\]"):
        own("noise").images(torch.zeros(2, 3, 4, 4), seed=0)


def idx(array: np.ndarray) -> bytes:
    return gzip.compress(bytes([0, 0, 8, 3]) + struct.pack(">3I", *array.shape) + array.tobytes())


@pytest.fixture
def digits(tmp_path: Path) -> Path:
    """30 training and 10 test images in MNIST's format, 28 x 28 and grey; all pixels of test image i are 10 i."""
    for word, n in (("train", 30), ("t10k", 10)):
        flat = np.broadcast_to((np.arange(n) * (10 if word == "t10k" else 1))[:, None, None], (n, 28, 28))
        (tmp_path / f"{word}-images-idx3-ubyte.gz").write_bytes(idx(flat.astype(np.uint8)))
    return tmp_path


def test_other_data_at_the_size_and_with_the_channels_of_ours(digits: Path) -> None:
    one = open_foreign(f"digits={digits}", size=32, channels=3)
    assert (one.name, one.paired) == ("digits", False)
    made = one.images(levels(5, size=32))
    assert made.shape == (5, 3, 32, 32) and made.dtype == torch.uint8
    assert made[:, 2, 3, 4].tolist() == [0, 20, 40, 60, 80]  # evenly spaced test images


def test_other_data_with_few_test_images(digits: Path) -> None:
    one = open_foreign(f"digits={digits}", size=32, channels=3)
    assert one.images(levels(25, size=32))[:10, 0, 0, 0].tolist() == [10 * i for i in range(10)]
    assert len(one.images(levels(25, size=32))) == 25
    every = one.images(levels(90, size=32))
    assert len(every) == 40 and sorted(every[10:, 0, 0, 0].tolist()) == list(range(30))


def test_other_data_comes_first_from_test_then_from_validation_then_from_training() -> None:
    data = plain_data(train=4, validation=3, test=2)
    test, validation, train = (one.take(np.arange(len(one))).images for one in (data.test, data.validation, data.train))
    foreign = Foreign(name="slopes", data=data)
    for count, expected in (
        (1, test[:1]),
        (4, torch.cat((test, validation[[0, 1]]))),  # evenly spaced over three: the first two
        (7, torch.cat((test, validation, train[[0, 2]]))),
        (20, torch.cat((test, validation, train))),
    ):
        assert torch.equal(foreign.images(levels(count, size=8)), expected)


def test_other_data_that_does_not_fit(digits: Path) -> None:
    for text in ("digits", "=there", "digits="):
        with pytest.raises(ValueError, match="expected NAME=PATH"):
            open_foreign(text, size=32, channels=3)
    with pytest.raises(ValueError, match=r"noise is the name of a built-in set"):
        open_foreign(f"noise={digits}", size=32, channels=3)
    grey = open_foreign(f"digits={digits}", size=32, channels=1)
    assert isinstance(grey, Foreign)
    with pytest.raises(
        ValueError, match=r"images of digits have shape \(1, 32, 32\), but test images have shape \(3, 32, 32\)"
    ):
        grey.images(levels(2, size=32))
