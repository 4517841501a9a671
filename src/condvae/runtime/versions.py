"""Software versions and device names, which are written to the record of a result."""

import numpy as np
import PIL
import torch

import condvae


def versions() -> dict[str, str]:
    """Return the versions of the packages that can affect pixel values."""
    return {
        "condvae": condvae.__version__,
        "torch": torch.__version__,
        "numpy": np.__version__,
        "pillow": PIL.__version__,
    }


def device_name(device: torch.device) -> str:
    """Return the model name of a GPU, or the type of any other device."""
    return torch.cuda.get_device_name(device) if device.type == "cuda" else device.type
