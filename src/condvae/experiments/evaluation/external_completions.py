"""Read the completions that another program has written, so that they can be measured like those of a model.

    FOLDER/BIN/NAME/K.png      several completions of an image, with K = 0, 1, ... or K = 1, 2, ...
    FOLDER/BIN/NAME.png        one completion of an image
    FOLDER/BIN/NAME.npy        one or several completions of an image, uint8 [H, W, C] or [K, H, W, C]

Files can be .png, .webp or .npy. BIN and NAME identify the image and its hole, as `condvae evaluate --inputs-to` writes
them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor

from condvae.experiments.evaluation.methods import Method
from condvae.experiments.evaluation.problems import Problems
from condvae.images.image_files import open_image
from condvae.metrics import HOLE_BINS
from condvae.observe import Observation
from condvae.runtime.checks import first_few
from condvae.runtime.fingerprints import fingerprint
from condvae.runtime.messages import reason_of

ENDINGS = (".png", ".webp", ".npy")
_EIGHT_BITS = frozenset({"1", "L", "LA", "P", "PA", "RGB", "RGBA"})
KNOWN_TOLERANCE = 8
"""Known pixels may be wrong by up to this many grey levels, since programs round and files can be lossy.

Such pixels are restored, and the report states in how many completions. If an error is larger, the completion is
rejected, since it is probably of another image or hole.
"""


@dataclass(frozen=True, kw_only=True, eq=False)
class ExternalCompletions:
    """Completions read from files. Names, counts and sizes are checked before anything is computed."""

    name: str
    varies: bool
    problems: Problems
    bins: Sequence[Mapping[str, tuple[Path, ...]]]

    @classmethod
    def open(cls, name: str, folder: Path, problems: Problems, *, k: int, deep: bool = True) -> Method:
        """Check the files of another program, and return its completions as a method of the comparison.

        k: how many completions each deep image must have, or exactly one if the program always gives the same.
        deep: whether to check this.
        """
        if not folder.is_dir():
            raise ValueError(f"{folder} is not a folder of completions: give an existing folder")
        expected = [str(hole) for hole in HOLE_BINS]
        if unexpected := sorted(p.name for p in folder.iterdir() if p.is_dir() and p.name not in expected):
            raise ValueError(
                f"{folder} contains other folders, {first_few(unexpected)}: expected only {', '.join(expected)}"
            )
        bins = [_completions_by_name(folder / hole) for hole in expected]
        wanted = {problems.names[i] for i in problems.deep}
        counts: set[int] = set()
        for hole, ready in zip(expected, bins, strict=True):
            if missing := sorted(set(problems.names) - set(ready)):
                raise ValueError(f"{folder / hole} has no completions of {first_few(missing)}: add them")
            if surplus := sorted(set(ready) - set(problems.names)):
                raise ValueError(f"{folder / hole} has completions of other images, {first_few(surplus)}: remove them")
            found = {image: _count(ready[image], problems, k if deep and image in wanted else 1) for image in ready}
            counts |= {found[image] for image in wanted}
            few = sorted(image for image in wanted if 1 < found[image] < k)
            if deep and few:
                raise ValueError(
                    f"{folder / hole} has fewer than {k} completions of {first_few(few)}: add more, or use a smaller -n"
                )
        if deep and 1 in counts and len(counts) > 1:
            raise ValueError(
                f"{folder} has one completion of some images and several of others: give {k} of each, or one of each"
            )
        files = [_state(path) for ready in bins for image in sorted(ready) for path in ready[image]]
        completer = cls(name=name, varies=counts != {1}, problems=problems, bins=bins)
        return Method(
            completer=completer,
            identity=fingerprint({"files": files}),
            in_bin=lambda hole: _Bin(completer, hole),
            known_tolerance=KNOWN_TOLERANCE,
        )

    def complete(self, observation: Observation, k: int, seed: int) -> Tensor:
        raise ValueError(
            f"the completions of {self.name} are files of single bins: use Method.in_bin to get those of a bin"
        )


@dataclass(frozen=True, eq=False)
class _Bin:
    """A completer that returns the completions of one bin, which it reads from files."""

    folder: ExternalCompletions
    hole: int

    @property
    def name(self) -> str:
        return self.folder.name

    @property
    def varies(self) -> bool:
        return self.folder.varies

    def complete(self, observation: Observation, k: int, seed: int, *, places: Sequence[int] = ()) -> Tensor:
        """Return the first k completions of each image unchanged; the caller checks their known pixels."""
        assert len(places) == len(observation)
        problems, ready = self.folder.problems, self.folder.bins[self.hole]
        made = [torch.from_numpy(_images(ready[problems.names[place]], k, problems)) for place in places]
        return torch.stack(made).permute(0, 1, 4, 2, 3).to(observation.y.device)


def _completions_by_name(folder: Path) -> dict[str, tuple[Path, ...]]:
    """Map each image name in the folder of one bin to the files of its completions, in order."""
    if not folder.is_dir():
        raise ValueError(f"{folder} does not exist: give one subfolder of completions for every bin")
    found: dict[str, tuple[Path, ...]] = {}
    twice = []
    for path in sorted(folder.iterdir()):
        if path.name.startswith("."):
            continue
        if not path.is_dir() and not (path.is_file() and path.suffix.lower() in ENDINGS):
            raise ValueError(f"{path} is not a completion: expected {', '.join(ENDINGS)} files or folders of them")
        name = path.name if path.is_dir() else path.stem
        if name in found:
            twice.append(name)
        found[name] = _numbered(path) if path.is_dir() else (path,)
    if twice:
        raise ValueError(f"{folder} has two files or folders named {first_few(twice)}: keep one of each name")
    return found


def _numbered(folder: Path) -> tuple[Path, ...]:
    """Return the numbered files of a folder in order; numbers must start at 0 or 1 and have no gaps."""
    by_number: dict[int, Path] = {}
    for path in sorted(folder.iterdir()):
        if path.name.startswith("."):
            continue
        numbered = path.stem.isascii() and path.stem.isdecimal()
        if not (numbered and path.suffix.lower() in ENDINGS and path.is_file()):
            raise ValueError(f"{path} is not a completion: expected files named by numbers, such as 0.png")
        if int(path.stem) in by_number:
            raise ValueError(f"{folder} has completion {int(path.stem)} twice: remove one")
        by_number[int(path.stem)] = path
    numbers = sorted(by_number)
    if not numbers or numbers[0] > 1 or numbers != list(range(numbers[0], numbers[0] + len(numbers))):
        raise ValueError(f"{folder} is empty or its numbers have gaps: number completions 0, 1, 2, ... or 1, 2, 3, ...")
    return tuple(by_number[number] for number in numbers)


def _count(files: Sequence[Path], problems: Problems, k: int) -> int:
    """Return the number of completions in these files. Check the size and type of the first k, which are used."""
    size = problems.test.size
    for path in files[:k]:
        if path.suffix.lower() == ".npy":
            array = _array(path, mapped=True)
            if len(files) == 1 and array.ndim == 4:
                if array.shape[1:] != (size, size, problems.test.channels) or array.dtype != np.uint8 or not len(array):
                    raise ValueError(
                        f"{path} contains a {array.dtype} array of shape {list(array.shape)}, "
                        f"expected uint8 [K, {size}, {size}, {problems.test.channels}]"
                    )
                return len(array)
            _check(path, array, problems)
            continue
        with _opened(path) as picture:
            if picture.size != (size, size):
                raise ValueError(f"{path} is {picture.size[0]} x {picture.size[1]} pixels, expected {size} x {size}")
            if picture.mode not in _EIGHT_BITS:
                raise ValueError(f"{path} has pixels of mode {picture.mode}, expected 8-bit grey or RGB")
    return len(files)


def _images(files: Sequence[Path], k: int, problems: Problems) -> NDArray[np.uint8]:
    """Read the first k completions of an image, uint8 [k, H, W, C]."""
    if len(files) == 1 and files[0].suffix.lower() == ".npy" and _array(files[0], mapped=True).ndim == 4:
        many = _array(files[0])[:k]
        _check(files[0], many[0], problems)
        return np.ascontiguousarray(many)
    grey = problems.test.channels == 1
    images = []
    for path in files[:k]:
        if path.suffix.lower() == ".npy":
            image = _array(path)
        else:
            with _opened(path) as picture:
                try:
                    image = np.asarray(picture.convert("L" if grey else "RGB"))
                    opacity = np.asarray(picture.convert("RGBA"))[:, :, 3]
                except Exception as error:  # decoders raise many kinds of exceptions for broken files
                    raise ValueError(f"{path} cannot be read as an image ({error}): create it again") from error
            if opacity.min() < 255:
                raise ValueError(f"{path} has transparent pixels, but a completion has no holes: save it without alpha")
            image = image[:, :, None] if grey else image
        _check(path, image, problems)
        images.append(image)
    return np.stack(images)


def _check(path: Path, image: NDArray[Any], problems: Problems) -> None:
    expected = (problems.test.size, problems.test.size, problems.test.channels)
    if image.shape != expected or image.dtype != np.uint8:
        raise ValueError(
            f"{path} contains a {image.dtype} array of shape {list(image.shape)}, expected uint8 {list(expected)}"
        )


def _array(path: Path, *, mapped: bool = False) -> NDArray[Any]:
    try:
        array: NDArray[Any] = np.load(path, mmap_mode="r" if mapped else None, allow_pickle=False)
    except Exception as error:  # a damaged header can raise any exception
        raise ValueError(f"{path} cannot be read as an array ({reason_of(error)}): create it again") from error
    if not isinstance(array, np.ndarray):  # an .npz file with this extension
        raise ValueError(f"{path} contains several arrays: write one array with np.save")
    return array


def _opened(path: Path) -> Image.Image:
    try:
        return open_image(path)
    except (OSError, ValueError) as error:
        raise ValueError(f"{path} cannot be read as an image ({reason_of(error)}): create it again") from error


def _state(path: Path) -> tuple[str, int, int]:
    """Return a file's path, size and modification time, which identify it. Reading all bytes could take long."""
    stat = path.stat()
    return "/".join(path.parts[-3:]), stat.st_size, stat.st_mtime_ns
