"""What can be measured: anything that completes observations."""

from typing import Protocol

import torch
from torch import Tensor

from condvae.observe import Observation
from condvae.runtime.pixels import to_uint8


class Completer(Protocol):
    """Completes observations, by a model or without."""

    @property
    def name(self) -> str:
        """What a table calls it."""

    @property
    def varies(self) -> bool:
        """Whether the completions of an observation differ; if not, one tells all."""

    def complete(self, observation: Observation, k: int, seed: int) -> Tensor:
        """[B, k, C, H, W] uint8 on the observation's device, known pixels exactly as they were.

        Completion i of observation b depends on (seed, b, i) alone. One that takes `places=` too is told what stands
        for b, where the observations are some of many; others are asked for one image at a time, which may be slow.
        """


def paste_known(observation: Observation, images: Tensor) -> Tensor:
    """The known pixels put back into grey levels [B, k, C, H, W]."""
    if observation.known is None or observation.pixels is None:
        return images
    return torch.where(observation.known[:, None], to_uint8(observation.pixels)[:, None], images)
