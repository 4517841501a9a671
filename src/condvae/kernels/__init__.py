"""Everything about GPU speed: Triton kernels, fused networks, side streams, CUDA graphs.

When this package is imported, seeded noise, freeform holes and the sampling of diffusion models use their kernels on
suitable GPUs. A model uses kernels
through `fused_vdvae.Fused`. Plain torch is the reference: tests compare every kernel with it, and run in Triton's
interpreter if there is no GPU. The other modules of this package are imported only when they are needed, because only
CUDA builds of torch come with Triton.
"""

import functools
import importlib.util
from collections.abc import Callable
from typing import Any

import torch

from condvae.runtime.fast_paths import attach

_SHARED_BYTES = 160 * 1024


@functools.cache
def installed() -> bool:
    """Return whether Triton can be imported."""
    return importlib.util.find_spec("triton") is not None


def available(device: torch.device) -> bool:
    """Return whether the kernels of this package can run on the device."""
    return device.type == "cuda" and installed() and _large(device)


@functools.cache
def _large(device: torch.device) -> bool:
    """Return whether a GPU has tensor cores for bfloat16 and enough shared memory for our tiles.

    Such tensor cores exist from compute capability 8 on. A100, H100 and later server GPUs have enough shared memory;
    desktop GPUs do not.
    """
    properties = torch.cuda.get_device_properties(device)
    shared = getattr(properties, "shared_memory_per_block_optin", None)
    capability = (properties.major, properties.minor)
    if shared is None:  # older versions of torch do not report the shared memory
        return capability in ((8, 0), (9, 0), (10, 0), (10, 3))
    return capability >= (8, 0) and shared >= _SHARED_BYTES


def _seeded_noise(device: torch.device) -> Callable[..., Any] | None:
    if not available(device):
        return None
    from condvae.kernels.philox import numbers

    return numbers


def _freeform_holes(device: torch.device) -> Callable[..., Any] | None:
    if not available(device):
        return None
    from condvae.kernels.freeform_process import draw_known

    return draw_known


def find_mixtures(device: torch.device) -> Callable[..., Any] | None:
    """Return the function that draws the holes of a mixture in one launch, or None if the device has no kernels."""
    if not available(device):
        return None
    from condvae.kernels.freeform_process import draw_mixture

    return draw_mixture


def _normalised_activation(device: torch.device) -> Callable[..., Any] | None:
    if not available(device):
        return None
    from condvae.kernels.normalised_activation import normalised_activation

    return normalised_activation


attach("seeded noise", _seeded_noise)
attach("normalised activation", _normalised_activation)
attach("freeform holes", _freeform_holes)
attach("mixtures of holes", find_mixtures)
