"""How good completions are: distances that see as people do, bounds on log-probabilities, and where they are taken."""

from typing import TYPE_CHECKING

from condvae.lazy import finder

if TYPE_CHECKING:
    from condvae.metrics.bounds import BitsPerDim, elbo_bits_per_dim, forward_kl_nats_per_dim
    from condvae.metrics.holes import HOLE_BINS, HoleBin, known_in_bin
    from condvae.metrics.lpips import LPIPS
    from condvae.metrics.samples import Estimate, SampleDistances, sample_distances

_HOMES = {
    "HOLE_BINS": "condvae.metrics.holes",
    "LPIPS": "condvae.metrics.lpips",
    "BitsPerDim": "condvae.metrics.bounds",
    "Estimate": "condvae.metrics.samples",
    "HoleBin": "condvae.metrics.holes",
    "SampleDistances": "condvae.metrics.samples",
    "elbo_bits_per_dim": "condvae.metrics.bounds",
    "forward_kl_nats_per_dim": "condvae.metrics.bounds",
    "known_in_bin": "condvae.metrics.holes",
    "sample_distances": "condvae.metrics.samples",
}

__all__ = [
    "HOLE_BINS",
    "LPIPS",
    "BitsPerDim",
    "Estimate",
    "HoleBin",
    "SampleDistances",
    "elbo_bits_per_dim",
    "forward_kl_nats_per_dim",
    "known_in_bin",
    "sample_distances",
]

__getattr__ = finder(__name__, _HOMES)
