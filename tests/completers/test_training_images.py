import numpy as np
import pytest
import torch
from helpers.models import images, some_known

from condvae.completers import RandomTrainingImage, TrainingMean
from condvae.completers.interface import Completer
from condvae.data import ImageSet
from condvae.observe.observation import observe_pixels
from condvae.runtime.pixels import to_uint8


def training_set(n: int = 300) -> ImageSet:
    """Images of one grey level each, which differ except in one corner pixel; the set contains every third row."""
    pixels = np.broadcast_to(np.arange(n, dtype=np.uint8).reshape(n, 1, 1, 1) // 2, (n, 8, 8, 3)).copy()
    pixels[:, 0, 0] = 77
    return ImageSet(images=pixels, rows=np.arange(0, n, 3))


def test_the_mean_is_over_the_rows_of_the_set() -> None:
    data = training_set()
    image = TrainingMean.fit(data).image
    expected = np.round(data.images[data.rows].mean(axis=0)).astype(np.uint8).transpose(2, 0, 1)
    assert torch.equal(image, torch.from_numpy(expected))
    assert int(image[0, 0, 0]) == 77


def test_random_images_are_uniform_training_images_and_sample_i_is_reproducible() -> None:
    data = training_set(30)
    x, known = images(40), torch.zeros(40, 1, 8, 8, dtype=torch.bool)
    observation = observe_pixels(x, known, lambda images: images)
    baseline = RandomTrainingImage(images=data)
    made = baseline.complete(observation, 50, 9)
    counts = torch.bincount(made[:, :, 0, 4, 4].flatten().long(), minlength=15).float()
    allowed = torch.from_numpy(np.unique(data.images[data.rows][:, 4, 4, 0]).astype(np.int64))
    assert counts[allowed].sum() == 2000
    assert ((counts[allowed] - 200).abs() < 5 * 200**0.5).all()
    assert torch.equal(baseline.complete(observation[:7], 3, 9), made[:7, :3])
    assert not torch.equal(baseline.complete(observation, 50, 10), made)
    assert len({tuple(row.tolist()) for row in made[:, :, 0, 4, 4]}) == 40


def test_known_pixels_are_exact() -> None:
    x, known = images(3), some_known(3)
    observation = observe_pixels(torch.where(known, x, torch.nan), known, lambda images: images)
    baselines: list[Completer] = [TrainingMean.fit(training_set()), RandomTrainingImage(images=training_set())]
    for baseline in baselines:
        made = baseline.complete(observation, 4, 0)
        assert (made.shape, made.dtype) == ((3, 4, 3, 8, 8), torch.uint8)
        everywhere = known[:, None].expand_as(made)
        assert torch.equal(made[everywhere], to_uint8(x)[:, None].expand_as(made)[everywhere])
        assert baseline.varies == bool((made[:, 0] != made[:, 1]).any())


def test_baselines_reject_empty_training_sets() -> None:
    nothing = ImageSet(images=training_set().images, rows=np.arange(0))
    for make in (TrainingMean.fit, lambda images: RandomTrainingImage(images=images)):
        with pytest.raises(ValueError, match="no training images"):
            make(nothing)
    observation = observe_pixels(images(1), some_known(1), lambda images: images)
    with pytest.raises(ValueError, match="number of samples is 0"):
        TrainingMean.fit(training_set()).complete(observation, 0, 0)
