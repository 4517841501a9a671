"""Triton kernels for the few computations that decide the speed on a GPU. Each is held to plain torch by tests, which
run it in Triton's interpreter where there is no GPU. Modules here are imported late: Triton comes with CUDA builds of
torch, and nothing else needs it.
"""

import functools
import importlib.util

import torch

_SHARED_BYTES = 160 * 1024


@functools.cache
def installed() -> bool:
    """Whether Triton can be imported."""
    return importlib.util.find_spec("triton") is not None


def available(device: torch.device) -> bool:
    """Whether kernels can run there."""
    return device.type == "cuda" and installed() and _large(device)


@functools.cache
def _large(device: torch.device) -> bool:
    """Tensor cores for bfloat16 came with compute capability 8; tiles want the shared memory of A100, H100 and later
    cards for servers, which those for desktops have not.
    """
    properties = torch.cuda.get_device_properties(device)
    shared = getattr(properties, "shared_memory_per_block_optin", None)
    capability = (properties.major, properties.minor)
    if shared is None:  # an older torch does not tell
        return capability in ((8, 0), (9, 0), (10, 0), (10, 3))
    return capability >= (8, 0) and shared >= _SHARED_BYTES
