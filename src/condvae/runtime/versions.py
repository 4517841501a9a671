"""What computed something, for records: versions and the device."""

import numpy as np
import PIL
import torch

import condvae


def versions() -> dict[str, str]:
    """Of all that has a say in the pixels."""
    return {
        "condvae": condvae.__version__,
        "torch": torch.__version__,
        "numpy": np.__version__,
        "pillow": PIL.__version__,
    }


def device_name(device: torch.device) -> str:
    """The GPU by its own name, other devices by their kind."""
    return torch.cuda.get_device_name(device) if device.type == "cuda" else device.type
