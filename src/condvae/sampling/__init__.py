"""From a model and y to images: one entry point, `Sampler`, with its back ends; and samples of the VAE itself."""

from condvae import kernels  # noqa: F401 (importing it attaches the GPU's fast paths to noise and holes)
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
