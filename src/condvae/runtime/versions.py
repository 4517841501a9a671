"""The versions of all that has a say in the pixels, for records."""

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
