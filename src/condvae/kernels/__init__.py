"""Triton kernels for the few computations that decide the speed on a GPU. Each is held to plain torch by tests, which
run it in Triton's interpreter where there is no GPU. Modules here are imported late: Triton comes with CUDA builds of
torch, and nothing else needs it.
"""

import functools
import importlib.util

import torch


@functools.cache
def installed() -> bool:
    """Whether Triton can be imported."""
    return importlib.util.find_spec("triton") is not None


def available(device: torch.device) -> bool:
    """Whether kernels can run there: tensor cores for bfloat16 came with compute capability 8."""
    return device.type == "cuda" and installed() and torch.cuda.get_device_capability(device) >= (8, 0)
