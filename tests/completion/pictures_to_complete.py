"""Pictures for these tests, and a model that completes them."""

from pathlib import Path

import numpy as np
import numpy.typing as npt
from models import images, small_conditional
from PIL import Image

from condvae import save
from condvae.observe import Boxes
from condvae.pixels import to_uint8

Levels = npt.NDArray[np.uint8]


def levels(height: int, width: int, channels: int = 3, seed: int = 0) -> Levels:
    """[height, width, channels]: noise, in which any mix-up shows."""
    x = to_uint8(images(1, size=max(height, width), channels=channels, seed=seed))[0]
    return x.permute(1, 2, 0).numpy()[:height, :width]


def model_file(folder: Path) -> Path:
    path = folder / "model.safetensors"
    model = small_conditional()
    model.process = Boxes()
    save(model, path)
    return path


def photo(path: Path, height: int = 20, width: int = 20, seed: int = 0) -> Path:
    Image.fromarray(levels(height, width, seed=seed)).save(path)
    return path
