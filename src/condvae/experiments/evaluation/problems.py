"""The test images and holes of an evaluation, which are the same for every method."""

import functools
import hashlib
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from condvae.data import Dataset, ImageSet
from condvae.data.digests import digest_of_set, pixels_of
from condvae.data.image_set import Indices
from condvae.data.order import spread
from condvae.experiments.evaluation.plan import REFERENCES, EvaluationSettings
from condvae.observe.hole_bins import HOLE_BINS, HOLES_REVISION, known_in_bin
from condvae.runtime.fingerprints import fingerprint
from condvae.runtime.progress import track
from condvae.runtime.seeds import Seeds
from condvae.sampling.cpu_workers import on_workers


@dataclass(frozen=True, kw_only=True, eq=False)
class Problems:
    """N test images, spread evenly over the test set, and their holes in the five bins."""

    test: ImageSet
    rows: Indices
    """[N]: positions of the N images in the test set."""
    deep: Indices
    """[M]: positions, among the N images, of the M deep images, which are completed many times."""
    bits: Indices
    """Positions in the test set of the images that are used for the bits per dimension of the VAE alone."""
    references: Indices
    """[M, R]: positions in the test set of R reference images for each deep image, drawn at random from the others."""
    seed: int

    @classmethod
    def choose(cls, data: Dataset, settings: EvaluationSettings) -> "Problems":
        test = data.test
        if len(test) < 2:
            raise ValueError(
                f"{_count(len(test))}, but two are needed: give data with more test images, such as a folder test/"
            )
        rows = spread(len(test), settings.images)
        deep = spread(len(rows), settings.deep)
        dice = np.random.Generator(np.random.Philox(Seeds(settings.seed, "reference images")(0)))
        # Draw uniformly among the other images: positions from the image's own on are shifted by one.
        others = dice.integers(len(test) - 1, size=(len(deep), REFERENCES))
        return cls(
            test=test,
            rows=rows,
            deep=deep,
            bits=spread(len(test), settings.bits),
            references=(others + (others >= rows[deep][:, None])).astype(np.int64),
            seed=settings.seed,
        )

    def __len__(self) -> int:
        return len(self.rows)

    def truth(self, positions: Indices, device: torch.device) -> Tensor:
        """Return the test images at these positions among the N images, uint8 [B, C, H, W]."""
        return self.test.take(self.rows[positions]).images.to(device)

    def known(self, hole: int, positions: Indices, device: torch.device) -> Tensor:
        """Return the masks of known pixels of the images at these positions, for one bin, bool [B, 1, H, W]."""
        return self.holes(hole)[torch.from_numpy(positions)].to(device)

    def reference_images(self, numbers: Indices, device: torch.device) -> Tensor:
        """Return the R reference images of each of B deep images, given their positions in `deep`, [B, R, C, H, W]."""
        chosen = self.references[numbers]
        images = self.test.take(chosen.reshape(-1)).images.to(device)
        return images.view(*chosen.shape, *images.shape[1:])

    def holes(self, hole: int) -> Tensor:
        """Return the masks of known pixels of all N images for one bin, bool [N, 1, H, W].

        The holes of all bins are drawn when they are first needed, which may take long.
        """
        return draw_holes(len(self), self.test.size, self.seed)[hole]

    @functools.cached_property
    def names(self) -> list[str]:
        """The file names of the N images without extension: their positions in the test set."""
        width = max(5, len(str(len(self.test) - 1)))
        return [f"{row:0{width}}" for row in self.rows]

    @functools.cached_property
    def identity(self) -> str:
        """A digest of the N images and of everything that determines their holes. It does not draw the holes."""
        return fingerprint(
            {
                "pixels": hashlib.sha256(pixels_of(self.test, self.rows)).hexdigest(),
                "names": self.names,
                "holes": [HOLES_REVISION, self.seed, self.test.size, len(self), *map(str, HOLE_BINS)],
            }
        )

    @functools.cached_property
    def deep_identity(self) -> str:
        """A digest of the choice of deep images and of their reference images."""
        digest = hashlib.sha256(self.deep.tobytes())
        digest.update(pixels_of(self.test, self.references.reshape(-1)))
        return digest.hexdigest()[:24]

    @functools.cached_property
    def bits_identity(self) -> str:
        """A digest of the images that are used for the bits per dimension of the VAE alone."""
        return digest_of_set(self.test.subset(self.bits))


@functools.lru_cache(maxsize=1)
def draw_holes(n: int, size: int, seed: int) -> tuple[Tensor, ...]:
    """Draw the holes of each bin. The last result is kept, for further `Problems` of the same process.

    Bins are drawn at the same time, each in one thread: if torch used all threads for each operation, several processes
    on one machine would slow each other down.
    """
    draw = functools.partial(known_in_bin, n=n, size=size, seed=seed)
    found: list[Tensor] = []
    told = track(f"drawing {n:,} holes in each bin", total=len(HOLE_BINS), unit="bin")
    with told as job, on_workers(len(HOLE_BINS)) as each:
        for known in each(draw, HOLE_BINS):
            found.append(known)
            job.update()
    return tuple(found)


def _count(n: int) -> str:
    return "the data has no test images" if not n else "the data has only one test image"
