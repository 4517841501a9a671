"""FID: the Frechet distance between normal distributions fitted to two sets of features (Heusel et al. 2017).

    F = |m1 - m2|^2 + tr S1 + tr S2 - 2 tr (S1 S2)^(1/2)

m1 and S1 are the mean and covariance of the first set, m2 and S2 of the second. With S1 = B B', the last trace equals
the trace of (B' S2 B)^(1/2), the square root of a symmetric matrix. Computing it takes one `eigh` for B and one for the
square root. Columns of B with zero eigenvalues are dropped, so that with fewer images than features the matrix is only
as large as the rank of S1.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import torch
from torch import Tensor

from condvae.metrics.estimate import Estimate

ROWS_AT_ONCE = 8192
"""How many feature vectors are converted to float64 at once, to bound the memory."""


class Root(NamedTuple):
    """A square root of a covariance matrix, such that the covariance is factor @ factor.T."""

    factor: Tensor
    """The square root, [D, rank]."""
    inverse: Tensor
    """[rank, D]: the pseudo-inverse of factor, which whitens features."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Moments:
    """Mean and covariance of a set of features in float64; features can be added and sets merged, in any order.

    The root of the covariance is cached: to compare one real set with many fake ones, reuse the same object.
    """

    count: int
    mean: Tensor
    """The mean of the features, [D]."""
    scatter: Tensor
    """The sum of outer products of deviations from the mean, [D, D]."""

    @staticmethod
    def empty(features: int, *, device: torch.device | str = "cpu") -> "Moments":
        def zeros(*shape: int) -> Tensor:
            return torch.zeros(*shape, dtype=torch.float64, device=device)

        return Moments(count=0, mean=zeros(features), scatter=zeros(features, features))

    @staticmethod
    def of(features: Tensor) -> "Moments":
        """Return the moments of features [N, D], on their device."""
        check_features(features)
        return Moments.empty(features.shape[1], device=features.device).add(features)

    def add(self, features: Tensor) -> "Moments":
        """Return the moments after adding more features [N, D]."""
        check_features(features)
        together = self
        for rows in features.split(ROWS_AT_ONCE):
            wide = rows.to(self.mean)
            mean = wide.mean(dim=0)
            deviations = wide - mean
            together = together.merge(Moments(count=len(wide), mean=mean, scatter=deviations.T @ deviations))
        return together

    def merge(self, other: "Moments") -> "Moments":
        """Merge the moments of two sets into one (Chan et al. 1979)."""
        if self.mean.shape != other.mean.shape:
            raise ValueError(
                f"the sets have {len(self.mean)} and {len(other.mean)} features per image, expected the same number"
            )
        if not self.count:
            return other
        count = self.count + other.count
        apart = other.mean.to(self.mean) - self.mean
        return Moments(
            count=count,
            mean=self.mean + apart * (other.count / count),
            scatter=self.scatter
            + other.scatter.to(self.scatter)
            + torch.outer(apart, apart) * (self.count * other.count / count),
        )

    @property
    def covariance(self) -> Tensor:
        """The unbiased covariance, [D, D]."""
        if self.count < 2:
            raise ValueError(f"FID needs at least two images in each set, but one set has {self.count}: give more")
        return self.scatter / (self.count - 1)

    @cached_property
    def root(self) -> Root:
        covariance, dims = self.covariance, len(self.mean)
        if self.count > dims // 4:
            values, vectors = torch.linalg.eigh(covariance)
        else:  # The rank is at most count - 1. So the products with count - 1 random vectors span the range.
            dice = torch.Generator().manual_seed(0)
            probes = torch.randn(dims, self.count - 1, generator=dice, dtype=covariance.dtype).to(covariance)
            basis = torch.linalg.qr(covariance @ probes).Q
            values, vectors = torch.linalg.eigh(basis.T @ covariance @ basis)
            vectors = basis @ vectors
        # Eigenvalues that are zero up to rounding are dropped, by the rule of NumPy's matrix_rank.
        there = values > values[-1].clamp_min(0) * dims * torch.finfo(values.dtype).eps
        stds, vectors = values[there].sqrt(), vectors[:, there]
        return Root(vectors * stds, (vectors / stds).T)


class Transport(NamedTuple):
    """The optimal transport between the normal distributions of two sets, both moved to have mean zero."""

    distance: float
    """The Frechet distance of the two distributions, tr S1 + tr S2 - 2 tr (S1 S2)^(1/2)."""
    forwards: Tensor
    """[D, rank]: forwards @ forwards.T is T12, which maps the real distribution to the fake one."""
    backwards: Tensor
    """[D, rank]: backwards @ backwards.T is T21, which maps the fake distribution to the real one."""

    def of_real(self, deviations: Tensor) -> Tensor:
        """Return the derivative of the distance with respect to the weight of each real image, up to a constant, [N].

        It is u'(1 - T12) u for the image's deviation u from the mean; deviations: [N, D].
        """
        return deviations.square().sum(dim=1) - (deviations @ self.forwards).square().sum(dim=1)

    def of_fake(self, deviations: Tensor) -> Tensor:
        """Return the same for each fake image, with T21."""
        return deviations.square().sum(dim=1) - (deviations @ self.backwards).square().sum(dim=1)


def transport(real: Moments, fake: Moments) -> Transport:
    """Return the optimal transport between two sets of features, without the distance of their means."""
    values, vectors = torch.linalg.eigh(_inner(real, fake))
    values = values.clamp_min(0)
    # T12 = B^-T (B'S2B)^(1/2) B^-1 and T21 = T12^-1.
    largest = values[-1] if len(values) else values.sum()
    there = values > largest * len(values) * torch.finfo(values.dtype).eps
    quarter = values.sqrt().sqrt()
    return Transport(
        distance=_spread(real, fake, values.sqrt().sum()),
        forwards=real.root.inverse.T @ (vectors * quarter),
        backwards=real.root.factor @ (vectors[:, there] / quarter[there]),
    )


def frechet_distance(real: Moments, fake: Moments) -> float:
    """Return the Frechet distance F between two sets of features; it is never negative."""
    inner = _inner(real, fake)
    overlap = torch.linalg.eigvalsh(inner).clamp_min(0).sqrt().sum() if len(inner) else inner.sum()
    apart = real.mean - fake.mean.to(real.mean)
    return max(0.0, float(apart.square().sum()) + _spread(real, fake, overlap))


def fid(real: Tensor, fake: Tensor, *, paired: bool, real_moments: Moments | None = None) -> Estimate:
    """Compute the FID of features [N, D] and [M, D], with its standard error by the delta method.

    paired: row i of both sets is an image and its completion. Their contributions to F are then correlated, and the
    standard error accounts for that. It does not include the bias of FID, which is too high for few images, so compare
    only FIDs of the same number of images.
    real_moments: `Moments.of(real)`, if it is known already. This saves time if one real set is compared with several.
    """
    check_features(real)
    check_features(fake, real.shape[1])
    if paired and len(real) != len(fake):
        raise ValueError(
            f"there are {len(real)} real but {len(fake)} fake images: give one fake image for each real one"
        )
    one = Moments.of(real) if real_moments is None else real_moments
    if (one.count, len(one.mean)) != tuple(real.shape):
        raise ValueError(
            f"real_moments are of {one.count} images with {len(one.mean)} features, but real has shape "
            f"{tuple(real.shape)}: give the moments of the same set"
        )
    other = Moments.of(fake)
    found = transport(one, other)
    apart = one.mean - other.mean
    of_real = _influence(real, one.mean, found.of_real, apart)
    of_fake = _influence(fake, other.mean, found.of_fake, -apart)
    if paired:
        variance = (of_real + of_fake).var() / len(real)
    else:
        variance = of_real.var() / len(real) + of_fake.var() / len(fake)
    return Estimate(max(0.0, float(apart.square().sum()) + found.distance), math.sqrt(float(variance)))


def check_features(features: Tensor, dims: int | None = None) -> None:
    """Raise a ValueError unless features are finite floats [N, D] with at least one row, and D = dims if given."""
    if not isinstance(features, Tensor) or features.ndim != 2 or not features.is_floating_point() or not len(features):
        kind = f"{features.dtype} {list(features.shape)}" if isinstance(features, Tensor) else type(features).__name__
        raise ValueError(f"features are {kind}, expected floats [N, D] with at least one row")
    if dims is not None and features.shape[1] != dims:
        raise ValueError(f"the sets have {dims} and {features.shape[1]} features per image, expected the same number")
    if not bool(features.isfinite().all()):
        raise ValueError("features contain NaN or infinity: check the images and the network that computed them")


def _inner(real: Moments, fake: Moments) -> Tensor:
    """Return the symmetric matrix B' S2 B, [rank, rank], where S1 = B B' is the covariance of the real features."""
    factor = real.root.factor
    inner = factor.T @ fake.covariance.to(factor) @ factor
    return (inner + inner.T) / 2


def _spread(real: Moments, fake: Moments, overlap: Tensor) -> float:
    """Return tr S1 + tr S2 - 2 overlap, where overlap is tr (S1 S2)^(1/2)."""
    return float(real.covariance.trace() + fake.covariance.trace().to(overlap) - 2 * overlap)


def _influence(features: Tensor, mean: Tensor, of_spread: Callable[[Tensor], Tensor], apart: Tensor) -> Tensor:
    """Return the derivative of F with respect to the weight of each image, up to a constant, [N].

    It is the potential of the optimal transport: u'(1 - T) u + 2 u'(m1 - m2) for the image's deviation u.
    """
    found = []
    for rows in features.split(ROWS_AT_ONCE):
        deviations = rows.to(mean) - mean
        found.append(of_spread(deviations) + 2 * deviations @ apart)
    return torch.cat(found)
