"""A baseline that completes images with the nearest training images. It shows what memorising the data can do."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from condvae.completers.interface import paste_known
from condvae.completers.training_images import random_positions
from condvae.data import ImageSet
from condvae.observe import Observation
from condvae.runtime.checks import check_whole
from condvae.runtime.pixels import to_uint8

_NUMBERS_AT_ONCE = {"cuda": 2**25, "cpu": 2**22}
"""How many pixel values of training images are compared with the observations at once, in float64."""
_RESIDENT = 2**31
"""Training images of up to this many bytes in total are kept on the GPU; more are copied there block by block."""


@dataclass(frozen=True, kw_only=True, eq=False)
class NearestTrainingImages:
    """Completes an image with its nearest training images: completion i is the i-th nearest.

    Distances are sums of squared differences over the known pixels, in all channels. Of two training images at the same
    distance, the one that comes first in the training set is taken first. If an image has no known pixels, training
    images are drawn at random.
    """

    name: ClassVar[str] = "nearest training images"
    varies: ClassVar[bool] = True

    images: ImageSet
    _resident: dict[torch.device, Tensor] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        if not len(self.images):
            raise ValueError("the data has no training images to search: give data with training images")

    def complete(self, observation: Observation, k: int, seed: int, *, places: Sequence[int] | None = None) -> Tensor:
        check_whole(k, "the number of samples", least=1)
        if k > len(self.images):
            raise ValueError(
                f"{k} completions were requested, but there are {len(self.images)} training images: request fewer"
            )
        positions = torch.zeros(len(observation), k, dtype=torch.int64)
        nothing = torch.ones(len(observation), dtype=torch.bool)
        if observation.known is not None and observation.pixels is not None:
            nothing = ~observation.known.flatten(1).any(dim=1).cpu()
            positions = self.nearest(observation.pixels, observation.known, k).cpu()
        if bool(nothing.any()):
            rows = nothing.nonzero().flatten().tolist()
            there = rows if places is None else [places[row] for row in rows]
            positions[nothing] = torch.from_numpy(random_positions(len(self.images), len(rows), k, seed, there))
        images = self.images.take(positions.flatten().numpy()).images.to(observation.y.device)
        return paste_known(observation, images.unflatten(0, (len(observation), k)))

    @torch.no_grad()
    def nearest(self, pixels: Tensor, known: Tensor, k: int) -> Tensor:
        """Return the positions in the training set of the k nearest images, [B, k], found by an exact search.

        pixels: images [B, C, H, W] in [-1, 1]. known: bool [B, 1, H, W]. The distance of an image x to a training
        image y is the sum over known pixels of (y - x)^2 = y^2 . known - 2 y . (x known) + a constant, which takes two
        matrix products. Grey levels are integers, so float64 is exact. Sorting by the integer distance * N + position,
        where N is the number of training images, breaks ties by position.
        """
        seen = known.flatten(1).double()  # [B, H W]
        x = torch.where(known, to_uint8(pixels), 0).flatten(1).double()  # [B, C H W]
        constant = x.square().sum(dim=1).long()
        count = len(self.images)
        best = torch.empty(len(x), 0, dtype=torch.int64, device=x.device)
        for first, some in self._blocks(x.device):
            y = some.double()  # [n, C, H, W]
            distance = seen @ y.square().sum(dim=1).flatten(1).T
            distance -= 2 * (x @ y.flatten(1).T)
            keys = (distance.round().long() + constant[:, None]) * count
            keys += torch.arange(first, first + len(y), device=x.device)
            best = torch.cat((best, keys), dim=1)
            best = best.topk(min(k, best.shape[1]), dim=1, largest=False, sorted=True).values
        return best % count

    def _blocks(self, device: torch.device) -> Iterator[tuple[int, Tensor]]:
        """Yield blocks of training images on the device: the position of the first image, and uint8 [n, C, H, W]."""
        dims = self.images.channels * self.images.size**2
        step = max(1, _NUMBERS_AT_ONCE.get(device.type, _NUMBERS_AT_ONCE["cpu"]) // dims)
        if device.type == "cuda" and self.images.nbytes <= _RESIDENT and device not in self._resident:
            self._resident[device] = self.images.take(np.arange(len(self.images))).images.to(device)
        for first in range(0, len(self.images), step):
            stop = min(first + step, len(self.images))
            if device in self._resident:
                yield first, self._resident[device][first:stop]
            else:
                yield first, self.images.take(np.arange(first, stop)).images.to(device)
