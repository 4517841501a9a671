"""The `Completer` interface: what a model or a baseline must provide so that its completions can be measured."""

from typing import Protocol

import torch
from torch import Tensor

from condvae.observe import Observation
from condvae.runtime.pixels import to_uint8


class Completer(Protocol):
    """Draws completions of observations, with a model or without one."""

    @property
    def name(self) -> str:
        """The completer's name in tables."""

    @property
    def varies(self) -> bool:
        """Whether the completions of one observation differ; if False, measuring one of them is enough."""

    def complete(self, observation: Observation, k: int, seed: int) -> Tensor:
        """Return k completions of each observation, uint8 [B, k, C, H, W], on the device of the observations.

        Known pixels must be unchanged. Completion i of observation b must depend only on the seed, b and i. A completer
        may also accept a `places=` argument: the index of each observation in a larger set of images, to be used in
        place of b. A completer without this argument is called for one image at a time, which may be slow.
        """


def paste_known(observation: Observation, images: Tensor) -> Tensor:
    """Return completions, uint8 [B, k, C, H, W], with the known pixels of the observations pasted in."""
    if observation.known is None or observation.pixels is None:
        return images
    return torch.where(observation.known[:, None], to_uint8(observation.pixels)[:, None], images)
