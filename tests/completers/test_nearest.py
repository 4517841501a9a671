from typing import Any

import numpy as np
import pytest
import torch
from helpers.models import images, some_known

from condvae.completers import NearestTrainingImages, RandomTrainingImage, nearest
from condvae.completers.interface import Completer
from condvae.data import ImageSet
from condvae.observe import Observation
from condvae.observe.observation import observe_pixels
from condvae.runtime.pixels import to_uint8


def training_set(n: int = 60, *, seed: int = 0) -> ImageSet:
    pixels = np.random.RandomState(seed).randint(256, size=(n, 8, 8, 3), dtype=np.uint8)
    return ImageSet(images=pixels, rows=np.arange(0, n, 2))


def observed(x: torch.Tensor, known: torch.Tensor) -> Observation:
    return observe_pixels(torch.where(known, x, torch.nan), known, lambda images: images)


@pytest.mark.parametrize("at_once", [2**22, 8 * 8 * 3 * 7])
def test_distances_use_the_known_pixels_of_all_channels(at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nearest, "_NUMBERS_AT_ONCE", {"cpu": at_once})  # in one block, and in several
    data, x, known = training_set(), images(5), some_known(5)
    made = NearestTrainingImages(images=data).complete(observed(x, known), 30, 0)
    everything = data.images[data.rows].transpose(0, 3, 1, 2).astype(np.int64)
    for b in range(5):
        mask = known[b].expand(3, -1, -1).numpy()
        distances = ((everything - to_uint8(x[b]).numpy().astype(np.int64))[:, mask] ** 2).sum(axis=1)
        order = np.argsort(distances, kind="stable")
        expected = np.where(mask, to_uint8(x[b]).numpy(), everything[order])
        assert torch.equal(made[b], torch.from_numpy(expected).to(torch.uint8))


def test_equally_near_images_keep_their_order() -> None:
    pixels = np.zeros((200, 8, 8, 3), dtype=np.uint8)
    pixels[:, 4:] = np.arange(200, dtype=np.uint8)[:, None, None, None]
    data = ImageSet(images=pixels, rows=np.arange(200))
    known = torch.zeros(1, 1, 8, 8, dtype=torch.bool)
    known[:, :, :4] = True
    made = NearestTrainingImages(images=data).complete(observed(images(1), known), 50, 3)
    assert made[0, :, 0, 6, 6].tolist() == list(range(50))


def test_images_are_random_where_nothing_is_known() -> None:
    data, x = training_set(), images(4)
    known = some_known(4)
    known[1:3] = False
    seen = observed(x, known)
    made = NearestTrainingImages(images=data).complete(seen, 6, 5)
    by_chance = RandomTrainingImage(images=data).complete(seen, 6, 5)
    assert torch.equal(made[1:3], by_chance[1:3])
    assert not torch.equal(made[0], by_chance[0])
    other = NearestTrainingImages(images=data).complete(seen, 6, 6)
    assert torch.equal(made[::3], other[::3])  # the nearest images do not depend on the seed
    assert not torch.equal(made[1:3], other[1:3])
    some = NearestTrainingImages(images=data).complete(seen[2:], 6, 5, places=[2, 3])
    assert torch.equal(some, made[2:])


def test_random_images_are_drawn_only_where_nothing_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[tuple[int, object]] = []

    def counted(among: int, observations: int, k: int, seed: int, places: object) -> np.ndarray[Any, Any]:
        calls.append((observations, places))
        return np.zeros((observations, k), dtype=np.int64)

    monkeypatch.setattr(nearest, "random_positions", counted)
    data, x, known = training_set(), images(4), some_known(4)
    NearestTrainingImages(images=data).complete(observed(x, known), 6, 5)
    assert not calls
    known[[1, 3]] = False
    NearestTrainingImages(images=data).complete(observed(x, known), 6, 5, places=[10, 11, 12, 13])
    assert calls == [(2, [11, 13])]


def test_known_pixels_are_exact_and_bad_input_is_rejected() -> None:
    x, known = images(3), some_known(3)
    baseline: Completer = NearestTrainingImages(images=training_set())
    made = baseline.complete(observed(x, known), 4, 0)
    assert (made.shape, made.dtype) == ((3, 4, 3, 8, 8), torch.uint8)
    everywhere = known[:, None].expand_as(made)
    assert torch.equal(made[everywhere], to_uint8(x)[:, None].expand_as(made)[everywhere])
    with pytest.raises(ValueError, match="31 completions were requested, but there are 30 training images"):
        baseline.complete(observed(x, known), 31, 0)
    with pytest.raises(ValueError, match="no training images"):
        NearestTrainingImages(images=ImageSet(images=training_set().images, rows=np.arange(0)))
