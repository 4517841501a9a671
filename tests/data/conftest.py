"""Real faces, 32 x 32, as files and as the array that Pillow makes of them."""

import io
import zipfile

import numpy as np
import pytest
from helpers.fixtures import FIXTURES
from numpy.typing import NDArray
from PIL import Image

FACES = FIXTURES / "faces32.zip"


@pytest.fixture(scope="session")
def face_files() -> dict[str, bytes]:
    """Name -> JPEG, in the order of their names."""
    with zipfile.ZipFile(FACES) as archive:
        return {name: archive.read(name) for name in sorted(archive.namelist()) if name.endswith(".jpg")}


@pytest.fixture(scope="session")
def faces(face_files: dict[str, bytes]) -> NDArray[np.uint8]:
    """[512, 32, 32, 3]"""
    faces = np.stack([np.asarray(Image.open(io.BytesIO(content))) for content in face_files.values()])
    assert faces.shape == (512, 32, 32, 3) and faces.dtype == np.uint8
    return faces
