"""Paths of the repository, the test helpers and the test files."""

import shutil
from pathlib import Path

HELPERS = Path(__file__).parent
ROOT = HELPERS.parents[1]
FIXTURES = ROOT / "tests" / "fixtures"
FACES64 = sorted((FIXTURES / "faces64").iterdir())


def faces_pack(folder: Path, *, test: int) -> Path:
    """Copy the faces of 64 x 64 pixels to a data set in a folder, with so many of them as test images."""
    for i, face in enumerate(FACES64):
        split = folder / ("test" if i < test else "train")
        split.mkdir(parents=True, exist_ok=True)
        shutil.copy(face, split)
    return folder
