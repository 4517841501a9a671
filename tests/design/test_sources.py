import numpy as np
import pytest
import torch
from helpers.models import images, some_known
from torch import Tensor

from condvae.completers import RandomTrainingImage
from condvae.data import ImageSet
from condvae.design import Completions, TrainingImages
from condvae.observe import Observation
from condvae.observe.observation import observe_levels
from condvae.runtime.pixels import to_uint8

PIXELS = np.random.default_rng(0).integers(0, 256, (50, 8, 8, 1), dtype=np.uint8)
TRAIN = ImageSet(images=PIXELS, rows=np.arange(10, 50))
KNOWN = some_known(3)
SEEN = observe_levels(to_uint8(images(3, channels=1)), KNOWN)


def test_training_images_do_not_depend_on_known_pixels() -> None:
    source = TrainingImages(images=TRAIN)
    drawn = source.imagine(SEEN, 5, 1, [7, 8, 9])
    assert drawn.shape == (3, 5, 1, 8, 8) and drawn.dtype == torch.uint8
    rows = torch.from_numpy(PIXELS[10:]).permute(0, 3, 1, 2)
    for image in drawn.flatten(0, 1):
        assert (image == rows).flatten(1).all(dim=1).any()  # nothing pasted
    other = observe_levels(to_uint8(images(3, channels=1, seed=1)), ~KNOWN)
    assert torch.equal(source.imagine(other, 5, 1, [7, 8, 9]), drawn)


def test_training_images_are_drawn_evenly() -> None:
    pixels = np.broadcast_to(np.arange(4, dtype=np.uint8)[:, None, None, None], (4, 4, 4, 1))
    numbered = ImageSet(images=pixels, rows=np.arange(4))
    one = observe_levels(torch.zeros(1, 1, 4, 4, dtype=torch.uint8), torch.zeros(1, 1, 4, 4, dtype=torch.bool))
    drawn = TrainingImages(images=numbered).imagine(one, 4000, 0, [0])[0, :, 0, 0, 0]
    counts = torch.bincount(drawn.long(), minlength=4)
    assert ((counts - 1000).abs() < 150).all()


def test_completions_keep_known_pixels() -> None:
    source = Completions(completer=RandomTrainingImage(images=TRAIN))
    assert source.name == "random training image"
    drawn = source.imagine(SEEN, 5, 1, [7, 8, 9])
    assert SEEN.pixels is not None
    known = KNOWN[:, None].expand_as(drawn)
    assert torch.equal(drawn[known], to_uint8(SEEN.pixels)[:, None].expand_as(drawn)[known])


@pytest.mark.parametrize(
    "source", [TrainingImages(images=TRAIN), Completions(completer=RandomTrainingImage(images=TRAIN))]
)
def test_drawn_images_depend_only_on_seed_and_place(source: TrainingImages | Completions) -> None:
    drawn = source.imagine(SEEN, 5, 1, [7, 8, 9])
    assert torch.equal(source.imagine(SEEN[1:2], 5, 1, [8]), drawn[1:2])
    assert torch.equal(source.imagine(SEEN, 3, 1, [7, 8, 9]), drawn[:, :3])
    assert not torch.equal(source.imagine(SEEN, 5, 2, [7, 8, 9]), drawn)
    assert not torch.equal(source.imagine(SEEN[:1], 5, 1, [8]), drawn[:1])


def test_no_training_images() -> None:
    with pytest.raises(ValueError, match="no training images"):
        TrainingImages(images=TRAIN.subset(np.arange(0)))


class Careless:
    """Completions whose known pixels are off by some grey levels."""

    name, varies = "careless", True

    def __init__(self, off: int) -> None:
        self.off = off

    def complete(self, observation: Observation, k: int, seed: int) -> Tensor:
        assert observation.pixels is not None
        return (to_uint8(observation.pixels)[:, None].clamp(10, 200) + self.off).expand(-1, k, -1, -1, -1)


def test_changed_known_pixels_are_refused_and_rounding_is_corrected() -> None:
    seen = observe_levels(to_uint8(images(3, channels=1)).clamp(10, 200), KNOWN)
    known = KNOWN[:, None].expand(-1, 2, -1, -1, -1)
    exact, close = (Completions(completer=Careless(off)).imagine(seen, 2, 0, [0, 1, 2]) for off in (0, 1))
    assert torch.equal(close[known], exact[known]) and torch.equal(close[~known], exact[~known] + 1)
    with pytest.raises(ValueError, match="careless has changed known pixels, which a completion must keep"):
        Completions(completer=Careless(2)).imagine(seen, 2, 0, [0, 1, 2])
