"""A diffusion model of hidden pixels, given the known ones: the opponent that a user of today would choose.

The network sees hidden pixels with noise, known pixels without, and which is which. So it is trained on the conditional
task itself, in the framework of Karras et al. 2022 (EDM), and needs no guidance. For an exact observation, "hidden
pixels noisy, known pixels as observed" is also the centre of the exact posterior score: the mean of noisy state and
observation, weighted by their precisions, is the observation where a pixel is known, and the state elsewhere.
"""

from typing import ClassVar

import torch
from torch import Tensor

from condvae.completers.diffusion.denoising_network import DiffusionConfig, Unet
from condvae.completers.diffusion.ode_solvers import SOLVERS, noise_levels
from condvae.completers.learned_completer import Code, LearnedCompleter
from condvae.completers.learned_names import LEARNED_TITLES
from condvae.noise import Noise

START_STREAM = 0
"""The stream of random numbers for the noise at which sampling starts. Everything after it is deterministic."""


class Diffusion(LearnedCompleter):
    """The diffusion completer: noise in hidden pixels becomes an image by solving the probability-flow ODE."""

    kind: ClassVar[str] = "diffusion"
    title: ClassVar[str] = LEARNED_TITLES["diffusion"]
    varies: ClassVar[bool] = True
    pixels_at_once: ClassVar[int] = 2**21  # many small kernels in each step
    config: DiffusionConfig

    def __init__(self, config: DiffusionConfig) -> None:
        super().__init__(config)
        self.network = Unet(config)

    def encode(self, pixels: Tensor, known: Tensor) -> Code:
        """Return the observation itself: the network has no part that depends on it alone."""
        return pixels, known

    def decode(self, code: Code, noise: Noise) -> Tensor:
        pixels, known = code
        config = self.config
        levels = noise_levels(config.sampling_steps, least=config.least_noise, most=config.most_noise)
        start = levels[0] * noise.normal(START_STREAM, pixels.shape, pixels.device)

        def denoise(x: Tensor, level: float) -> Tensor:
            return self.denoised(x, pixels, known, x.new_full((len(x),), level))

        return SOLVERS[config.solver](denoise, start, levels)

    def denoised(self, x: Tensor, pixels: Tensor, known: Tensor, levels: Tensor) -> Tensor:
        """Return D(x; sigma), the estimate of the clean image, float32 [B, C, H, W].

        x: images whose hidden pixels have noise; the other pixels are not read. pixels: [B, C, H, W], read where known.
        levels: sigma, [B]. D = c_skip x + c_out F(c_in x; log(sigma) / 4), with the factors of EDM's table 1.
        """
        c_skip, c_out, c_in = (factor[:, None, None, None] for factor in preconditioning(levels, self.config.data_std))
        seen = torch.where(known, pixels, c_in * x)
        made = self.network(seen, known, levels.log() / 4).float()
        return torch.where(known, pixels, c_skip * x + c_out * made)


def preconditioning(levels: Tensor, data_std: float) -> tuple[Tensor, Tensor, Tensor]:
    """Return c_skip, c_out and c_in of EDM's table 1 for noise levels [B].

    With them, the network's input and its target have variance 1 at every noise level, for data of variance data_std^2.
    """
    total = levels.square() + data_std**2
    return data_std**2 / total, levels * data_std * total.rsqrt(), total.rsqrt()
