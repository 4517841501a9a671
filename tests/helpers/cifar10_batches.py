"""Files in the format of CIFAR-10's Python batches, but with faces."""

import pickle
from pathlib import Path

import numpy as np
from numpy.typing import NDArray


def write_cifar10(folder: Path, faces: NDArray[np.uint8], protocol: int = 2) -> None:
    """Write six batches of 80 faces. The real files use pickle protocol 2."""
    folder.mkdir(parents=True, exist_ok=True)
    for i, name in enumerate([*(f"data_batch_{k}" for k in range(1, 6)), "test_batch"]):
        part = faces[80 * i : 80 * i + 80].transpose(0, 3, 1, 2).reshape(80, 3072)
        batch = {b"data": np.ascontiguousarray(part), b"labels": [k % 10 for k in range(80)], b"batch_label": b"faces"}
        (folder / name).write_bytes(pickle.dumps(batch, protocol=protocol))
