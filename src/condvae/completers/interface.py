"""The interface of completers: anything that completes observations and can be measured."""

from typing import Protocol

import torch
from torch import Tensor

from condvae.observe import Observation
from condvae.runtime.pixels import to_uint8


class Completer(Protocol):
    """Draws completions of observations, with a model or without one."""

    @property
    def name(self) -> str:
        """The name in tables."""

    @property
    def varies(self) -> bool:
        """Whether the completions of one observation differ; if False, measuring one of them is enough."""

    def complete(self, observation: Observation, k: int, seed: int) -> Tensor:
        """Return k completions per observation, uint8 [B, k, C, H, W], on its device, with known pixels unchanged.

        Completion i of observation b must depend on (seed, b, i) only. A completer may accept a `places=` argument:
        it gives the number to use for each b when the observations are part of a larger set. Completers without it
        are called for one image at a time, which may be slow.
        """


def paste_known(observation: Observation, images: Tensor) -> Tensor:
    """Put the known pixels back into completions, uint8 [B, k, C, H, W]."""
    if observation.known is None or observation.pixels is None:
        return images
    return torch.where(observation.known[:, None], to_uint8(observation.pixels)[:, None], images)
