"""Pictures for tests of completion, and a model that completes them."""

import zlib
from pathlib import Path

import numpy as np
import numpy.typing as npt
from helpers.models import images, small_conditional
from PIL import Image

from condvae import save
from condvae.observe import Boxes
from condvae.runtime.pixels import to_uint8

Levels = npt.NDArray[np.uint8]


def levels(height: int, width: int, channels: int = 3, seed: int = 0) -> Levels:
    """An image of noise, [height, width, channels], in which swapped pixels are noticed."""
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


def bomb(width: int, height: int) -> bytes:
    """A grey PNG of zeros, which needs a thousand times more memory when it is decoded."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        body = kind + data
        return len(data).to_bytes(4, "big") + body + zlib.crc32(body).to_bytes(4, "big")

    head = width.to_bytes(4, "big") + height.to_bytes(4, "big") + bytes([8, 0, 0, 0, 0])
    length = (width + 1) * height
    packer = zlib.compressobj(9, wbits=-15)
    block = packer.compress(bytes(2**20)) + packer.flush(zlib.Z_FULL_FLUSH)  # this block can be repeated unchanged
    rest = packer.compress(bytes(length % 2**20)) + packer.flush()
    checksum = (length % 65521) << 16 | 1  # Adler-32 of zeros
    data = b"\x78\xda" + block * (length // 2**20) + rest + checksum.to_bytes(4, "big")
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", data) + chunk(b"IEND", b"")


def contents(folder: Path) -> dict[str, bytes]:
    """The PNG files in a folder."""
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.suffix == ".png"}
