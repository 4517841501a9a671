"""Compare two folders or zip files of images: one with real images, the other with completions or samples."""

import itertools
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from condvae.images.archive import Files, common_top, opened
from condvae.images.decode import decode
from condvae.images.recorded_files import PICTURE_SUFFIXES
from condvae.metrics.discrimination import ids
from condvae.metrics.estimate import Estimate
from condvae.metrics.feature_networks import FeatureNetworks
from condvae.metrics.frechet import fid
from condvae.metrics.kernel_distance import kid
from condvae.metrics.metric_names import METRICS, FolderMetric
from condvae.metrics.pixel_errors import psnr, ssim
from condvae.runtime.checks import check_choice, first_few
from condvae.runtime.messages import reason_of
from condvae.runtime.progress import track

OF_SETS: tuple[FolderMetric, ...] = ("fid", "kid")
"""Metrics that compare two whole sets, for which images need not be paired."""
OF_INCEPTION: tuple[FolderMetric, ...] = ("fid", "kid", "ids")
_FEWEST = {"fid": 2, "kid": 4}
_IMAGES_AT_ONCE = 64


class Comparison(NamedTuple):
    """The result of a comparison: the number of images in each set, and the metrics."""

    real_images: int
    fake_images: int
    values: dict[str, Estimate]
    """The requested metrics by name: fid, kid, p_ids, u_ids, lpips, psnr or ssim."""


def compare(
    real: Path, fake: Path, networks: FeatureNetworks, *, metrics: Sequence[FolderMetric] = METRICS, paired: bool = True
) -> Comparison:
    """Compute metrics between two folders or zip files.

    paired: compare images of the same name with each other, ignoring the file extension. Both sets must then contain
    the same names, otherwise a ValueError is raised. If False, only FID and KID are possible.
    """
    if (networks.inception is None and set(metrics) & set(OF_INCEPTION)) or (
        networks.lpips is None and "lpips" in metrics
    ):
        raise ValueError("a requested metric has no network: give Inception for fid, kid and ids, or LPIPS for lpips")
    found = _Collected(metrics, networks)
    with _files(real) as reals, _files(fake) as fakes:
        names = _names(reals, fakes, metrics, paired=paired)
        if paired:
            for a, b in _batches((reals, fakes), list(zip(*names, strict=True))):
                found.add_pairs(a, b)
        else:
            for files, chosen, features in ((reals, names[0], found.real), (fakes, names[1], found.fake)):
                for (images,) in _batches((files,), [(name,) for name in chosen]):
                    features.append(found.features(images))
    return Comparison(len(names[0]), len(names[1]), found.values(paired=paired))


def check_folders(real: Path, fake: Path, *, metrics: Sequence[FolderMetric] = METRICS, paired: bool = True) -> None:
    """Raise the ValueError that `compare` would raise because of file names. This needs no networks."""
    with _files(real) as reals, _files(fake) as fakes:
        _names(reals, fakes, metrics, paired=paired)


class _Collected:
    """Collects Inception features of images and distances between pairs, batch by batch."""

    def __init__(self, metrics: Sequence[FolderMetric], networks: FeatureNetworks) -> None:
        self.metrics, self.networks = metrics, networks
        self.real: list[Tensor] = []
        self.fake: list[Tensor] = []
        self.distances: dict[str, list[Tensor]] = {name: [] for name in METRICS if name in metrics}

    def features(self, images: Tensor) -> Tensor:
        assert self.networks.inception is not None
        return self.networks.inception.features(images)

    def add_pairs(self, real: Tensor, fake: Tensor) -> None:
        for metric, distances in self.distances.items():
            if metric == "lpips":
                assert self.networks.lpips is not None
                distances.append(self.networks.lpips(real, fake).cpu())
            elif metric == "psnr":
                distances.append(psnr(real, fake))
            elif metric == "ssim":
                distances.append(ssim(real, fake))
        if set(self.metrics) & set(OF_INCEPTION):
            self.real.append(self.features(real))
            self.fake.append(self.features(fake))

    def values(self, *, paired: bool) -> dict[str, Estimate]:
        values: dict[str, Estimate] = {}
        for metric, distances in self.distances.items():
            if metric == "fid":
                values["fid"] = fid(torch.cat(self.real), torch.cat(self.fake), paired=paired)
            elif metric == "kid":
                values["kid"] = kid(torch.cat(self.real), torch.cat(self.fake))
            elif metric == "ids":
                found = ids(torch.cat(self.real), torch.cat(self.fake))
                values |= {"p_ids": found.p_ids, "u_ids": found.u_ids}
            else:
                values[metric] = Estimate.of(torch.cat(distances))
        return values


def _files(path: Path) -> AbstractContextManager[Files]:
    if not path.exists():
        raise ValueError(f"{path} does not exist: give a folder or a zip file of images")
    if path.is_file() and path.suffix.lower() != ".zip":
        raise ValueError(f"{path} is not a folder or a zip file: give a folder or a zip file of images")
    return opened(path)


def _names(
    real: Files, fake: Files, metrics: Sequence[FolderMetric], *, paired: bool
) -> tuple[Sequence[str], Sequence[str]]:
    """Return the file names of the real and of the fake images. If paired, equal positions in both lists are a pair."""
    if not metrics:
        raise ValueError(f"no metric was requested: give some of {', '.join(METRICS)}")
    for metric in metrics:
        check_choice(metric, "a metric" if paired else "a metric without pairs", METRICS if paired else OF_SETS)
    for files in (real, fake):
        if not files.images():
            kinds = ", ".join(suffix[1:] for suffix in PICTURE_SUFFIXES)
            raise ValueError(
                f"{files.path} contains no images{files.except_own}: expected {kinds} files in it or in its subfolders"
            )
    names = _paired(real, fake) if paired else (real.images(), fake.images())
    for metric in metrics:
        least = _FEWEST.get(metric, 1)
        if min(map(len, names)) < least:
            raise ValueError(
                f"there are {len(names[0])} real and {len(names[1])} fake images, but {metric.upper()} needs at least "
                f"{least} of each: give more images, or choose other --metrics"
            )
    return names


def _paired(real: Files, fake: Files) -> tuple[Sequence[str], Sequence[str]]:
    reals, fakes = _by_plain_name(real), _by_plain_name(fake)
    for path, lacking in ((fake.path, reals.keys() - fakes.keys()), (real.path, fakes.keys() - reals.keys())):
        if lacking:
            raise ValueError(
                f"{path} has no image named {first_few(sorted(lacking))}: give both sets the same names, or use "
                "--unpaired for FID and KID only"
            )
    order = sorted(reals)
    return [reals[name] for name in order], [fakes[name] for name in order]


def _by_plain_name(files: Files) -> dict[str, str]:
    """Map image names without extension and common top folder to file names, so that a.jpg and a.png can be a pair."""
    names = files.images()
    top = len(common_top(names))
    found: dict[str, str] = {}
    for name in names:
        plain = name[top:].rpartition(".")[0]
        if plain in found:
            raise ValueError(f"{files.path} contains both {found[plain]} and {name}: keep one image of each name")
        found[plain] = name
    return found


def _batches(sets: Sequence[Files], rows: Sequence[tuple[str, ...]]) -> Iterator[tuple[Tensor, ...]]:
    """Yield batches of images of the same size, as tuples with one tensor for each set, uint8 [B, 3, H, W].

    rows: tuples of file names that belong together, with one name for each set.
    """
    with track("comparing", total=len(rows), unit="image" if len(sets) == 1 else "pair") as job:
        for start in range(0, len(rows), _IMAGES_AT_ONCE):
            some = [_row(sets, names) for names in rows[start : start + _IMAGES_AT_ONCE]]
            for _, alike in itertools.groupby(some, key=lambda row: row[0].shape):
                yield tuple(torch.stack(images) for images in zip(*alike, strict=True))
            job.update(len(some))


def _row(sets: Sequence[Files], names: tuple[str, ...]) -> tuple[Tensor, ...]:
    images = tuple(_image(files, name) for files, name in zip(sets, names, strict=True))
    if any(image.shape != images[0].shape for image in images):
        sizes = [
            f"{image.shape[2]} x {image.shape[1]} in {files.path}" for files, image in zip(sets, images, strict=True)
        ]
        raise ValueError(f"{names[0]} has two sizes, {' but '.join(sizes)}: give pairs of the same size")
    return images


def _image(files: Files, name: str) -> Tensor:
    try:
        with files.open(name) as file:
            return torch.from_numpy(decode(file, channels=3, size=None).copy()).permute(2, 0, 1)
    except Exception as error:  # decoders raise many kinds of exceptions for broken files
        raise ValueError(
            f"{files.path / name} cannot be read ({reason_of(error)}): copy it or create it again"
        ) from error
