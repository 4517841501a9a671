"""What every method is asked: the same test images behind the same holes."""

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
"""Seconds after which one is told what is waited for."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Problems:
    """Test images, chosen evenly, and their holes in the five bins."""

    test: ImageSet
    rows: Indices
    """[N] positions in the test set."""
    deep: Indices
    """[M] positions among the N: images that are completed many times."""
    bits: Indices
    """Indices in the test set for the VAE alone."""
    references: Indices
    """[M, R] positions in the test set: other images, chosen at random."""
    seed: int
    _drawn: dict[int, Tensor] = field(default_factory=dict, repr=False)

    @classmethod
    def choose(cls, data: Dataset, settings: EvaluationSettings) -> "Problems":
        test = data.test
        if len(test) < 2:
            raise ValueError(f"{_count(len(test))}, expected two at least: give data with more, or with a folder test/")
        rows = spread(len(test), settings.images)
        deep = spread(len(rows), settings.deep)
        dice = np.random.Generator(np.random.Philox(Seeds(settings.seed, "reference images")(0)))
        # Any other image, each as likely: those from its own position on are one further.
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
        """[B, C, H, W] uint8 at these positions among the N."""
        return self.test.take(self.rows[positions]).images.to(device)

    def known(self, hole: int, positions: Indices, device: torch.device) -> Tensor:
        """[B, 1, H, W] bool: what is seen of them in that bin."""
        return self.holes(hole)[torch.from_numpy(positions)].to(device)

    def others(self, numbers: Indices, device: torch.device) -> Tensor:
        """[B, R, C, H, W] uint8: reference images of these of the M deep images."""
        chosen = self.references[numbers]
        images = self.test.take(chosen.reshape(-1)).images.to(device)
        return images.view(*chosen.shape, *images.shape[1:])

    def holes(self, hole: int, say: Say = silent) -> Tensor:
        """[N, 1, H, W] bool: what is seen of all images in a bin. Drawn when first asked for: it may take a while."""
        if hole not in self._drawn:
            told = f"drawing {len(self):,} holes of {HOLE_BINS[hole]} ..."
            patience = threading.Timer(_PATIENCE, say, [told])
            patience.start()
            try:
                self._drawn[hole] = known_in_bin(HOLE_BINS[hole], len(self), self.test.size, seed=self.seed)
            finally:
                patience.cancel()
        return self._drawn[hole]

    @functools.cached_property
    def names(self) -> list[str]:
        """What files of the N images are called: their positions in the test set."""
        width = max(5, len(str(len(self.test) - 1)))
        return [f"{row:0{width}}" for row in self.rows]

    @functools.cached_property
    def identity(self) -> str:
        """Of the N images, by a digest, and their holes, by all that decides them: none has to be drawn for it."""
        return fingerprint(
            {
                "pixels": hashlib.sha256(pixels_of(self.test, self.rows)).hexdigest(),
                "names": self.names,
                "holes": [HOLES_REVISION, self.seed, self.test.size, len(self), *map(str, HOLE_BINS)],
            }
        )

    @functools.cached_property
    def deep_identity(self) -> str:
        """A digest of which images are completed many times, and of their references."""
        digest = hashlib.sha256(self.deep.tobytes())
        digest.update(pixels_of(self.test, self.references.reshape(-1)))
        return digest.hexdigest()[:24]

    @functools.cached_property
    def bits_identity(self) -> str:
        """A digest of the images for the VAE alone."""
        return digest_of_set(self.test.subset(self.bits))


def _count(n: int) -> str:
    return "there are no test images" if not n else "there is one test image"
