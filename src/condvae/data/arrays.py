"""Read data sets that are stored as arrays (.npz, .npy), and convert arrays of images to `ParsedData`."""

import math
import re
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from condvae.data.image_cache import ReadOptions, store
from condvae.data.image_set import ImageSet, Labels, class_numbers
from condvae.data.layout_names import Layout
from condvae.data.splits import ParsedData
from condvae.images.archive import stat_identity
from condvae.images.decode import fit
from condvae.runtime.checks import first_few
from condvae.runtime.messages import listed, reason_of
from condvae.runtime.pixels import PixelArray
from condvae.runtime.zip_members import opened_member, opened_zip

_CHUNK = 2**22
"""Number of bytes that are decompressed at a time."""
_HELD_NAMES = {"validation": ("validation", "valid", "val"), "test": ("test",)}


class ArrayPart(NamedTuple):
    """An array of images with its labels, and the files that both were read from."""

    images: NDArray[Any]
    labels: Labels | None
    paths: Sequence[Path]


def read_npz_folder(folder: Path, reading: ReadOptions) -> ParsedData:
    """Read the files `train-*.npz` in a folder, and `test.npz` and `validation.npz` if they exist.

    Each file contains an array `images`, uint8 [N, H, W, C], and optionally an array `labels`.
    """
    parts: dict[str, list[Path]] = {"train": [], "validation": [], "test": []}
    for path in sorted(folder.glob("*.npz"), key=_natural):
        word = re.split(r"[^a-z]", path.stem.lower(), maxsplit=1)[0]
        for split, words in {"train": ("train",), **_HELD_NAMES}.items():
            if word in words:
                parts[split].append(path)
    if not parts["train"]:
        raise ValueError(f"{folder} contains .npz files but no train.npz: name the file of training images train.npz")
    train, validation, test = (
        joined_parts([_npz(path) for path in paths]) if paths else None for paths in parts.values()
    )
    assert train is not None
    return parsed_arrays("npz", folder, reading, train, validation=validation, test=test)


def read_npz(path: Path, reading: ReadOptions) -> ParsedData:
    """Read one .npz file that contains an array `images` and optionally an array `labels`."""
    return parsed_arrays("npz", path, reading, _npz(path))


def read_npy(path: Path, reading: ReadOptions) -> ParsedData:
    """Memory-map one .npy file of images.

    If the name of the file contains "train", a file whose name has "valid" or "test" in this place becomes the
    validation or test set. A validation file without a test file becomes the test set.
    """
    held: dict[str, ArrayPart] = {}
    if "train" in path.stem:
        before, after = path.stem.rsplit("train", 1)
        for split, words in _HELD_NAMES.items():
            candidates = [path.with_name(f"{before}{word}{after}{path.suffix}") for word in words]
            existing = [candidate for candidate in candidates if candidate.is_file()]
            if existing:
                held[split] = _npy(existing[0])
    if "test" not in held and "validation" in held:  # models of ImageNet are usually tested on its validation images
        held["test"] = held.pop("validation")
    return parsed_arrays("npy", path, reading, _npy(path), validation=held.get("validation"), test=held.get("test"))


def parsed_arrays(
    kind: Layout,
    path: Path,
    reading: ReadOptions,
    train: ArrayPart,
    *,
    validation: ArrayPart | None = None,
    test: ArrayPart | None = None,
    flips: bool = True,
    names: tuple[str, ...] | None = None,
) -> ParsedData:
    """Convert the arrays of all splits to the requested size and channels, and check that they have the same shape.

    Labels are dropped unless every split has them.
    """
    parts = [part for part in (train, validation, test) if part is not None]
    sets = {id(part): _image_set(part, path, reading) for part in parts}
    if len({(one.size, one.channels) for one in sets.values()}) > 1:
        shapes = listed(f"{one.size} x {one.size} x {one.channels}" for one in sets.values())
        raise ValueError(
            f"the training, validation and test images of {path} have different shapes ({shapes}): "
            "give --size to resize them, or use images that are all grey or all in colour"
        )
    if any(one.labels is None for one in sets.values()):
        sets = {key: ImageSet(images=one.images, rows=one.rows) for key, one in sets.items()}
    return ParsedData(
        kinds=(kind,),
        name=str(path),
        identity=stat_identity([file for part in parts for file in part.paths]),
        train=sets[id(train)],
        validation=None if validation is None else sets[id(validation)],
        test=None if test is None else sets[id(test)],
        label_names=names,
        flips=flips,
    )


def _image_set(part: ArrayPart, path: Path, reading: ReadOptions) -> ImageSet:
    """Convert an array to [N, H, W, C] with the requested size and channels, without copying if it has them already."""
    source = part.paths[0].name if len(part.paths) == 1 else str(path)
    images = _channels_last(part.images, source)
    n, height, width, channels = images.shape
    if n == 0:
        raise ValueError(f"{source} contains no images: give an array with at least one image")
    if 0 in (height, width):
        raise ValueError(f"{source} contains images of {width} x {height} pixels, expected at least 1 x 1")
    if height != width and reading.size is None:
        raise ValueError(
            f"{source} contains images of {width} x {height} pixels, expected square images: "
            "give --size with the network's image size, such as --size 64, to crop and resize them"
        )
    wanted = (reading.channels or channels, reading.size or height)
    if wanted != (channels, height) or height != width:
        images = _refitted(images, *wanted, source=source, part=part, reading=reading)
    labels = part.labels
    if labels is not None and len(labels) != n:
        raise ValueError(f"{source} has {n:,} images and {len(labels):,} labels, expected one label per image")
    return ImageSet(images=images, labels=labels, rows=np.arange(n, dtype=np.int64))


def _refitted(
    images: PixelArray, channels: int, size: int, *, source: str, part: ArrayPart, reading: ReadOptions
) -> PixelArray:
    def one(i: int) -> PixelArray:
        picture = images[i, :, :, 0] if images.shape[3] == 1 else images[i]
        return fit(Image.fromarray(np.ascontiguousarray(picture)), channels=channels, size=size)

    key = reading.key(stat_identity(part.paths), "array")
    shape = (len(images), size, size, channels)
    result = store(shape, one, key=key, name=source, reading=reading.for_side(images.shape[1]))
    if result.broken:
        raise ValueError(f"the images in {source} cannot be resized: {next(iter(result.broken.values()))}")
    return result.images


def _channels_last(images: NDArray[Any], source: str) -> PixelArray:
    """Return images [N, H, W, C], [N, C, H, W] or [N, H, W] as [N, H, W, C], without copying."""
    shapes = "[N, height, width, 3], [N, 3, height, width] or [N, height, width]"
    if images.dtype != np.uint8:
        raise ValueError(f"{source} contains {images.dtype} values, expected uint8: store grey levels from 0 to 255")
    if images.ndim == 3:
        return images[..., None]
    if images.ndim == 4 and images.shape[3] in (1, 3):
        return images
    if images.ndim == 4 and images.shape[1] in (1, 3):
        return images.transpose(0, 2, 3, 1)
    raise ValueError(f"{source} has the shape {list(images.shape)}, expected images of shape {shapes}")


def joined_parts(parts: Sequence[ArrayPart]) -> ArrayPart:
    if len(parts) == 1:
        return parts[0]
    shapes = {part.images.shape[1:]: part.paths[0].name for part in parts}
    if len(shapes) > 1:
        odd = listed(f"{list(shape)} in {name}" for shape, name in shapes.items())
        raise ValueError(
            f"the training files contain images of different shapes ({odd}), expected the same shape in all files"
        )
    labels = [part.labels for part in parts if part.labels is not None]
    return ArrayPart(
        np.concatenate([part.images for part in parts]),
        np.concatenate(labels) if len(labels) == len(parts) else None,
        [path for part in parts for path in part.paths],
    )


def checked_labels(values: NDArray[Any], path: Path) -> Labels:
    """Return labels as [N] int64 (class numbers) or [N, K] uint8 (zeros and ones); otherwise raise ValueError."""
    if values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]
    if values.ndim == 1 and values.dtype.kind in "iu":
        return class_numbers(values, path)
    if values.ndim == 2 and values.dtype.kind in "iub" and values.size and values.min() >= 0 and values.max() <= 1:
        return values.astype(np.uint8)
    raise ValueError(
        f"the labels in {path} are {values.dtype} values of shape {list(values.shape)}, expected one whole number per "
        f"image, [N], or K zeros and ones per image, [N, K]"
    )


def _npz(path: Path) -> ArrayPart:
    try:
        with opened_zip(path) as archive:
            names = [name.removesuffix(".npy") for name in archive.namelist()]
            held = {name: _member_array(archive, f"{name}.npy") for name in ("images", "labels") if name in names}
    except Exception as error:  # a damaged header of an array can raise any exception
        raise ValueError(f"{path} is not a complete .npz file ({reason_of(error)}): copy or write it again") from error
    if "images" not in held:
        raise ValueError(
            f"{path} has no array called images (it contains {first_few(names) or 'nothing'}): store the images under "
            "this name"
        )
    return ArrayPart(held["images"], checked_labels(held["labels"], path) if "labels" in held else None, [path])


def _member_array(archive: zipfile.ZipFile, name: str) -> NDArray[Any]:
    """Read an array of numbers from a .npz file. NumPy would trust its header and allocate any memory."""
    header_readers = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
    with opened_member(archive, name) as file:
        version = np.lib.format.read_magic(file)
        if version not in header_readers:
            raise ValueError(f"the array {name} has an unknown format")
        shape, columns_first, dtype = header_readers[version](file)
        count, stored = math.prod(shape), archive.getinfo(name).file_size - file.tell()
        if dtype.kind not in "biuf" or min(shape, default=0) < 0 or count * dtype.itemsize != stored:
            raise ValueError(f"the array {name} has {stored:,} bytes, which do not match its header")
        array = np.empty(count, dtype=dtype)
        into, done = array.view(np.uint8).reshape(-1), 0
        while done < stored:
            if not (chunk := file.read(min(_CHUNK, stored - done))):
                raise ValueError(f"the array {name} is truncated")
            into[done : done + len(chunk)] = np.frombuffer(chunk, np.uint8)
            done += len(chunk)
        file.read(1)  # compare the checksum of the zip file, which is at the end
    return array.reshape(shape, order="F" if columns_first else "C")


def _npy(path: Path) -> ArrayPart:
    try:
        array = np.load(path, mmap_mode="r", allow_pickle=False)
        if not isinstance(array, np.ndarray):
            raise ValueError("it contains several arrays, as a .npz file does")
    except Exception as error:  # a damaged header can raise any exception
        raise ValueError(
            f"{path} is not a complete .npy file of numbers ({reason_of(error)}): copy or write it again"
        ) from error
    return ArrayPart(array, None, [path])


def _natural(path: Path) -> list[tuple[int, str]]:
    """Return a sort key that compares numbers in file names by value, so that train-2 comes before train-10."""
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", path.name)]
