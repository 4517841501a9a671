"""The loss that trains the diffusion completer: the squared error of denoised hidden pixels."""

import torch
from torch import Tensor

from condvae.completers.diffusion.diffusion_completer import Diffusion
from condvae.completers.learned_completer import CompleterLoss, Losses
from condvae.noise import Noise

_LEVEL_STREAM, _NOISE_STREAM = 0, 1


class DiffusionLoss(CompleterLoss):
    """EDM's loss over hidden pixels: the squared error of D(x; sigma), with the weight 1 / c_out^2 of its table 1.

    Every hidden pixel of the batch counts the same. The weight makes the loss of an untrained network 1 at every noise
    level, if the variance of the data is as assumed.
    """

    completer: Diffusion
    figures = ("squared_error",)

    def __init__(self, completer: Diffusion) -> None:
        super().__init__()
        self.completer = completer

    def forward(self, x: Tensor, known: Tensor, noise: Noise) -> Losses:
        config = self.completer.config
        draws = noise.normal(_LEVEL_STREAM, (len(x),), x.device)
        levels = (config.noise_log_mean + config.noise_log_std * draws).exp()
        noisy = x + levels[:, None, None, None] * noise.normal(_NOISE_STREAM, x.shape, x.device)
        clean = self.completer.denoised(noisy, x, known, levels)
        with torch.autocast(x.device.type, enabled=False):
            errors = (clean - x).square()  # 0 where known
            weights = loss_weights(levels, config.data_std)[:, None, None, None]
            count = (~known).sum().clamp_min(1) * config.channels
            total = (weights * errors).sum() / count
            return Losses(total, {"squared_error": errors.detach().sum() / count})


def loss_weights(levels: Tensor, data_std: float) -> Tensor:
    """Return 1 / c_out^2 = (sigma^2 + data_std^2) / (sigma data_std)^2 for noise levels [B]."""
    return (levels.square() + data_std**2) / (levels * data_std).square()
