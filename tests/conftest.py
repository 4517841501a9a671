"""Set-up of all tests: one thread, reproducible hypothesis runs, and interpreted kernels on machines without a GPU."""

import io
import os
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch
from helpers.fixtures import FIXTURES, HELPERS
from helpers.packages import only_index
from helpers.processes import without_sync
from hypothesis import settings
from numpy.typing import NDArray
from PIL import Image

if not torch.cuda.is_available():
    os.environ.setdefault("TRITON_INTERPRET", "1")  # it is read when a kernel's module is imported

# Scripts that tests start in other processes can import the helpers too.
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (str(HELPERS.parent), os.environ.get("PYTHONPATH"))))

settings.register_profile("condvae", deadline=None, derandomize=True)
settings.load_profile("condvae")
os.fsync = without_sync  # tests kill processes, but not the machine
# One thread, because tests run in parallel and small networks are not faster with more.
torch.set_num_threads(1)
# Kernels are compared with torch's convolutions, which a GPU would otherwise round to ten bits.
torch.backends.cudnn.allow_tf32 = False


@pytest.fixture
def roomy_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    """Use large tiles without a GPU, because an interpreted kernel takes its time per program, not per number."""
    if torch.cuda.is_available():
        return
    from condvae.kernels.tiles import Tile, Window, block, choose_window, next_power_of_two

    def roomy(m: int, n: int, k: int, k2: int, taps: int, *, slope: bool = False, keep: bool = False) -> Tile:
        deep, deep2 = (next_power_of_two(max(size, 16)) for size in (k, k2))
        return Tile(128, block(n), deep, deep2, 4, 2, wide=keep)

    monkeypatch.setattr("condvae.kernels.convolution.choose_tile", roomy)
    monkeypatch.setattr("condvae.kernels.double_convolution.choose_tile_twice", lambda m, n, c: roomy(m, n, c, 0, 1))

    def roomy_window(rows: int, columns: int) -> tuple[Window, int]:
        return choose_window(rows, columns, 128), 256

    monkeypatch.setattr("condvae.kernels.depthwise.choose_depthwise", roomy_window)


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that is the only place where pip looks for packages."""
    folder = tmp_path / "index"
    folder.mkdir()
    only_index(folder, monkeypatch)
    return folder


@pytest.fixture
def drawn() -> None:
    """Request this fixture in tests of reports that need the figures."""


@pytest.fixture
def undrawn(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Skip figures in the other tests of reports, because drawing takes longer than computing the results."""
    if "drawn" not in request.fixturenames:
        for name in ("evaluation", "design", "ood", "pretraining"):
            monkeypatch.setattr(f"condvae.experiments.{name}.figures.draw", lambda result, out: [])


@pytest.fixture(scope="session")
def face_files() -> dict[str, bytes]:
    """JPEG files of faces by name, sorted by name."""
    with zipfile.ZipFile(FIXTURES / "faces32.zip") as archive:
        return {name: archive.read(name) for name in sorted(archive.namelist()) if name.endswith(".jpg")}


@pytest.fixture(scope="session")
def faces(face_files: dict[str, bytes]) -> NDArray[np.uint8]:
    """The decoded faces, [512, 32, 32, 3]."""
    faces = np.stack([np.asarray(Image.open(io.BytesIO(content))) for content in face_files.values()])
    assert faces.shape == (512, 32, 32, 3) and faces.dtype == np.uint8
    return faces
