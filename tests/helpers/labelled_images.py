"""Small labelled data sets for tests, in which simple patterns show the labels."""

import io
import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

SIZE = 16
FINDINGS = ("Mass", "Nodule", "Hernia")
"""Mass is bright in the upper left quarter, Nodule is dark in the upper right quarter, and Hernia never occurs."""


def findings_pack(path: Path, *, train: int = 160, test: int = 40, seed: int = 0) -> Path:
    """Write a zip file of grey images with findings and two images of each patient."""
    random = np.random.RandomState(seed)
    n = train + test
    labels = (random.rand(n, len(FINDINGS)) < 0.4).astype(int)
    labels[:, 2] = 0
    pixels = random.randint(90, 110, (n, SIZE, SIZE))
    half = SIZE // 2
    pixels[:, :half, :half] += 90 * labels[:, 0, None, None]
    pixels[:, :half, half:] -= 80 * labels[:, 1, None, None]
    names = [f"{'train' if i < train else 'test'}/{i:04}.png" for i in range(n)]
    table = {
        "labels": [[name, list(map(int, label))] for name, label in zip(names, labels, strict=True)],
        "label_names": list(FINDINGS),
        "patient_id": [i // 2 for i in range(n)],
    }
    with zipfile.ZipFile(path, "w") as pack:
        pack.writestr("dataset.json", json.dumps(table))
        for name, image in zip(names, pixels, strict=True):
            file = io.BytesIO()
            Image.fromarray(image.astype(np.uint8)).save(file, "PNG", compress_level=1)
            pack.writestr(name, file.getvalue())
    return path


def classes_file(path: Path, *, n: int = 200, classes: int = 3, labelled: bool = True, seed: int = 0) -> Path:
    """Write an .npz file of colour images, whose class sets their brightness."""
    random = np.random.RandomState(seed)
    labels: NDArray[np.int64] = random.randint(0, classes, n).astype(np.int64)
    pixels = random.randint(0, 30, (n, SIZE, SIZE, 3)) + 60 * labels[:, None, None, None]
    arrays: dict[str, Any] = {"images": pixels.astype(np.uint8)}
    if labelled:
        arrays["labels"] = labels
    np.savez(path, **arrays)
    return path
