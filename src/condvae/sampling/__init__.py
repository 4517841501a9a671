"""Draw images: `Sampler` draws completions of observations; other functions draw samples of the VAE alone."""

from condvae import kernels  # noqa: F401 (the import attaches GPU kernels to noise and holes)
from condvae.sampling.plain import Samples, reconstruct, sample_conditional, sample_prior, seeds_from
from condvae.sampling.sampler import Sampler
from condvae.sampling.unconditional import draw_samples, groups_down_to, rebuild

__all__ = [
    "Sampler",
    "Samples",
    "draw_samples",
    "groups_down_to",
    "rebuild",
    "reconstruct",
    "sample_conditional",
    "sample_prior",
    "seeds_from",
]
