"""Read benchmarks that have their own file formats: CIFAR-10's pickled batches, SVHN's .mat, MNIST's idx files."""

import gzip
import math
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import IO

import numpy as np
from numpy.typing import NDArray

from condvae.data.array_pickles import MOST_PICKLE_BYTES, read_array_pickle
from condvae.data.arrays import ArrayPart, joined_parts, parsed_arrays
from condvae.data.image_cache import ReadOptions
from condvae.data.image_set import class_numbers
from condvae.data.splits import ParsedData
from condvae.runtime.messages import reason_of
from condvae.runtime.zip_members import MOST_INFLATED, MOST_RATIO

CIFAR10_NAMES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
_TRAIN_BATCHES = tuple(f"data_batch_{i}" for i in range(1, 6))
BATCHES = (*_TRAIN_BATCHES, "test_batch")


def read_cifar10(folder: Path, reading: ReadOptions) -> ParsedData:
    """Read `data_batch_1` to `data_batch_5` and `test_batch`, which were pickled by Python 2."""
    absent = [name for name in BATCHES if not (folder / name).is_file()]
    if absent:
        raise ValueError(f"{folder} lacks CIFAR-10's {', '.join(absent)}: unpack cifar-10-python.tar.gz again")
    train = joined_parts([_cifar_batch(folder / name) for name in _TRAIN_BATCHES])
    return parsed_arrays(
        "cifar10", folder, reading, train, test=_cifar_batch(folder / "test_batch"), names=CIFAR10_NAMES
    )


def read_svhn(path: Path, reading: ReadOptions) -> ParsedData:
    """Read SVHN: `train_32x32.mat` together with `test_32x32.mat`, or any one .mat file.

    path: the folder of the two files, the path of `train_32x32.mat`, or the path of another .mat file.
    """
    folder = path if path.is_dir() else path.parent
    train, test = folder / "train_32x32.mat", folder / "test_32x32.mat"
    if path.is_file() and path != train:
        return parsed_arrays("svhn", path, reading, _mat(path), flips=False, names=tuple("0123456789"))
    if not train.is_file():
        raise ValueError(f"{folder} lacks SVHN's train_32x32.mat: download it, or give the path of one .mat file")
    held = _mat(test) if test.is_file() else None
    return parsed_arrays("svhn", path, reading, _mat(train), test=held, flips=False, names=tuple("0123456789"))


def idx_images(folder: Path) -> dict[str, Path]:
    """Return the existing image files of MNIST in a folder, as {'train': path, 'test': path}.

    The files may be compressed (.gz), and their names may have - or . before idx3.
    """
    found: dict[str, Path] = {}
    for split, word in (("train", "train"), ("test", "t10k")):
        stems = [f"{word}-images{mark}idx3-ubyte{end}" for mark in "-." for end in ("", ".gz")]
        existing = [folder / stem for stem in stems if (folder / stem).is_file()]
        if existing:
            found[split] = existing[0]
    return found


def read_idx(path: Path, reading: ReadOptions) -> ParsedData:
    """Read MNIST or a data set in the same format.

    path: a folder with `train-images-idx3-ubyte`, or the path of one file of images.
    """
    files = idx_images(path if path.is_dir() else path.parent)
    if path.is_file() and path != files.get("train"):
        files = {"train": path}
    if "train" not in files:
        raise ValueError(f"{path} lacks the training images, train-images-idx3-ubyte: download that file too")
    parts = {split: _idx(file) for split, file in files.items()}
    return parsed_arrays("idx", path, reading, parts["train"], test=parts.get("test"), flips=False)


def _mat(path: Path) -> ArrayPart:
    try:
        from scipy.io import loadmat, whosmat  # type: ignore[import-untyped, import-not-found, unused-ignore]
    except ImportError as error:
        raise ValueError(f"reading {path} needs SciPy: pip install 'condvae[svhn]'") from error
    try:
        _check_inflated(sum(math.prod(shape) for _, shape, _ in whosmat(str(path))), path)
        held = loadmat(str(path), variable_names=("X", "y"))
        images, labels = held["X"], np.asarray(held["y"]).reshape(-1).astype(np.int64)
    except Exception as error:  # SciPy can raise any exception on broken files
        raise ValueError(
            f"{path} is not a complete .mat file with the arrays X and y ({reason_of(error)}): download it again"
        ) from error
    if images.ndim != 4:
        raise ValueError(
            f"the array X in {path} has the shape {list(images.shape)}, expected [32, 32, 3, N] as in SVHN"
        )
    # Move the axis of images first: in the file it is last, which scatters each image over the whole array. SVHN's
    # label 10 is the digit 0.
    return ArrayPart(np.ascontiguousarray(images.transpose(3, 0, 1, 2)), labels % 10, [path])


def _idx(path: Path) -> ArrayPart:
    images = _idx_array(path, dimensions=3)
    same_kind = path.with_name(path.name.replace("images", "labels").replace("idx3", "idx1"))
    plain = same_kind.with_name(same_kind.name.removesuffix(".gz"))
    for labels in (same_kind, plain, plain.with_name(plain.name + ".gz")):
        if labels != path and labels.is_file():
            return ArrayPart(images, _idx_array(labels, dimensions=1).astype(np.int64), [path, labels])
    return ArrayPart(images, None, [path])


def _idx_array(path: Path, *, dimensions: int) -> NDArray[np.uint8]:
    """Read an idx file of uint8 values.

    It contains the bytes 0, 0, 8 (for uint8) and the number of dimensions, then the length of each dimension in four
    bytes, then the values.
    """
    opener: Callable[[Path, str], IO[bytes]] = gzip.open if path.suffix == ".gz" else open  # type: ignore[assignment]
    length = 4 + 4 * dimensions
    try:
        with opener(path, "rb") as file:
            header = file.read(length)
            if header[:4] != bytes([0, 0, 8, dimensions]) or len(header) < length:
                raise ValueError(f"it has no header of a {dimensions}-dimensional uint8 array")
            shape = tuple(int(size) for size in np.frombuffer(header[4:], dtype=">u4"))
            _check_inflated(math.prod(shape), path)
            values = np.frombuffer(file.read(math.prod(shape) + 1), dtype=np.uint8)
    except Exception as error:  # a damaged file can raise any exception when it is decompressed
        raise ValueError(f"{path} is not a complete idx file ({reason_of(error)}): download it again") from error
    if values.size != math.prod(shape):
        raise ValueError(
            f"{path} does not contain {' x '.join(map(str, shape))} values as stated in its header: download it again"
        )
    return values.reshape(shape)


def _check_inflated(size: int, path: Path) -> None:
    """Raise ValueError if an array that a compressed file describes has far more bytes than the file."""
    if size > MOST_INFLATED and size > MOST_RATIO * path.stat().st_size:
        raise ValueError(f"its arrays would have {size:,} bytes, {MOST_RATIO} times the size of the file or more")


def _cifar_batch(path: Path) -> ArrayPart:
    try:
        with open(path, "rb") as file:
            plain = read_array_pickle(file.read(MOST_PICKLE_BYTES + 1))
    except pickle.UnpicklingError as error:
        raise ValueError(
            f"{path} is not a batch of CIFAR-10 ({reason_of(error)}): unpack cifar-10-python.tar.gz again"
        ) from error
    except Exception as error:  # a truncated pickle can raise any exception
        raise ValueError(
            f"{path} is not a complete pickle ({reason_of(error)}): unpack cifar-10-python.tar.gz again"
        ) from error
    data, labels = plain.get("data"), plain.get("labels")
    if not isinstance(data, np.ndarray) or data.shape[1:] != (3072,) or not isinstance(labels, list):
        raise ValueError(
            f"{path} is not a batch of CIFAR-10 (it lacks labels, or an array data, uint8 of shape [N, 3072]): "
            f"unpack cifar-10-python.tar.gz again"
        )
    images = np.ascontiguousarray(data.reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1))
    if not all(type(label) is int for label in labels):
        raise ValueError(f"the labels in {path} are not whole numbers: unpack cifar-10-python.tar.gz again")
    return ArrayPart(images, class_numbers(labels, path), [path])
