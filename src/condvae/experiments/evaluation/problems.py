"""The test images and holes of an evaluation, which are the same for every method."""

import functools
import hashlib
import threading
from dataclasses import dataclass, field

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
from condvae.runtime.messages import Say, silent
from condvae.runtime.seeds import Seeds

_PATIENCE = 2.0
"""Seconds after which a message explains the wait."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Problems:
    """Test images, evenly chosen from the test set, and their holes in the five bins."""

    test: ImageSet
    rows: Indices
    """[N]: positions of the chosen images in the test set."""
    deep: Indices
    """[M]: positions among the N images of those that are completed many times."""
    bits: Indices
    """Positions in the test set of the images for the bits per dimension of the VAE alone."""
    references: Indices
    """[M, R]: positions in the test set of reference images, random images other than the image itself."""
    seed: int
    _drawn: dict[int, Tensor] = field(default_factory=dict, repr=False)

    @classmethod
    def choose(cls, data: Dataset, settings: EvaluationSettings) -> "Problems":
        test = data.test
        if len(test) < 2:
            raise ValueError(f"{_count(len(test))}, but two are needed: give data with more, or with a folder test/")
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
        """Return the images at these positions among the N, uint8 [B, C, H, W]."""
        return self.test.take(self.rows[positions]).images.to(device)

    def known(self, hole: int, positions: Indices, device: torch.device) -> Tensor:
        """Return where these images are known in one bin, bool [B, 1, H, W]."""
        return self.holes(hole)[torch.from_numpy(positions)].to(device)

    def others(self, numbers: Indices, device: torch.device) -> Tensor:
        """Return the reference images of these deep images, uint8 [B, R, C, H, W]."""
        chosen = self.references[numbers]
        images = self.test.take(chosen.reshape(-1)).images.to(device)
        return images.view(*chosen.shape, *images.shape[1:])

    def holes(self, hole: int, say: Say = silent) -> Tensor:
        """Return where all images are known in one bin, bool [N, 1, H, W]; drawn on first use, which may take long."""
        if hole not in self._drawn:
            told = f"drawing {len(self):,} holes with a hidden share of {HOLE_BINS[hole]} ..."
            patience = threading.Timer(_PATIENCE, say, [told])
            patience.start()
            try:
                self._drawn[hole] = known_in_bin(HOLE_BINS[hole], len(self), self.test.size, seed=self.seed)
            finally:
                patience.cancel()
        return self._drawn[hole]

    @functools.cached_property
    def names(self) -> list[str]:
        """The file names of the N images without extension: their positions in the test set."""
        width = max(5, len(str(len(self.test) - 1)))
        return [f"{row:0{width}}" for row in self.rows]

    @functools.cached_property
    def identity(self) -> str:
        """A digest of the N images and of everything that determines their holes, without drawing them."""
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
        """A digest of the images for the bits per dimension of the VAE alone."""
        return digest_of_set(self.test.subset(self.bits))


def _count(n: int) -> str:
    return "the data has no test images" if not n else "the data has only one test image"
