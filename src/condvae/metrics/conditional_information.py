"""The information I* between target x~ and observation y that the latents z leave out, in nats.

The paper's theorem on joint training (theorem:joint-training) assumes that I*(x~; y | z) is 0, where z comes from
q(z | x). If it is not, I* bounds what a partial encoder can lose because its artifact is frozen.

With `GaussianPixels`, the model describes images x' = x + noise, where the noise has the std of the noise floor s. So
x~ is x', or some pixels of it, and information is measured above the noise floor: compare only results for the same s.
Here y = A x, where every pixel value is in at most one of the sums that y consists of.
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from condvae.gaussian import Gaussian
from condvae.likelihood import GaussianPixels
from condvae.noise import NoiseSource
from condvae.observe.process import LinearProcess, Process
from condvae.vdvae.model import VDVAE


class ObservedInformation(NamedTuple):
    """Two estimates of I* for each image, where x~ is the whole image.

    If the model is calibrated, the first is at most the second on average. They are equal on average if all pixel
    values in a sum have the same variance.
    """

    cross_entropy_nats: Tensor
    """[B]: -log p(y | z) above the noise floor. Its mean is an upper bound on I(A x'; y | z), whatever the model's
    errors. A x' can be less informative about y than x' is, so this is no upper bound on I(x'; y | z)."""
    calibrated_nats: Tensor
    """[B]: I(x'; y | z), if the pixels given z are independent and have the means and variances of the model."""


@torch.no_grad()
def observed_information(vae: VDVAE, x: Tensor, process: Process, *, noise: NoiseSource) -> ObservedInformation:
    """Return the information between each image and its y, given one sample z from q(z | x).

    x: images [B, C, H, W] in [-1, 1]. process: `Grey` or `LowResolution`.
    """
    if not isinstance(process, LinearProcess):
        raise ValueError(
            f"the process is {process.name}, expected grey or low-resolution: "
            "use label_entropy_nats for labels; for known pixels and hidden x~, the information is 0"
        )
    if not isinstance(vae.likelihood, GaussianPixels):
        raise ValueError(
            f"the model's likelihood is {vae.likelihood.kind}, expected {GaussianPixels.kind}: give another model"
        )
    vae.check(x)
    floor = vae.likelihood.noise_floor
    descent = vae.descend(vae.posterior(x), batch=len(x), noise=noise)
    pixels = vae.likelihood.gaussian(vae.decoder.pixel_parameters(descent.state).double())
    variance = (2 * pixels.log_std).exp()

    def variance_of_y(values: Tensor) -> Tensor:
        return process.weighted_sums(values, power=2)

    # -log p(y | z) above the floor is KL(N(A x, s^2 A A^T) || N(A mean, A diag(std^2) A^T)), with diagonal covariances.
    seen = _gaussian(process.weighted_sums(x.double()), variance_of_y(torch.full_like(variance, floor**2)))
    predicted = _gaussian(process.weighted_sums(pixels.mean), variance_of_y(variance))
    return ObservedInformation(
        cross_entropy_nats=seen.total_kl_to(predicted),
        calibrated_nats=calibrated_nats((variance - floor**2).clamp_min(0), floor, variance_of_y),
    )


def calibrated_nats(
    variance: Tensor, noise_floor: float, variance_of_y: Callable[[Tensor], Tensor], *, target: Tensor | None = None
) -> Tensor:
    """Return I(x~; y | z) of each image, [B], if pixels given z are independent normals: x ~ N(mean, variance).

    variance: [B, C, H, W], of x without the noise of the floor: std^2 - noise_floor^2.
    variance_of_y: makes variances of y from those of pixels: sums with the squared weights of A. For known pixels, it
    sets the variances of hidden pixels to 0.
    target: bool, broadcast to the shape of `variance`: True for the dimensions of x~; None means all.
    """
    variance = variance.double()
    left = variance / (1 + variance / noise_floor**2)  # the variance of x given x'
    if target is not None:
        left = torch.where(target, left, variance)
    before, after = variance_of_y(variance), variance_of_y(left)
    nats = torch.where(before == 0, 0.0, (before / after).log() / 2)  # a sum without variance gives no information
    return nats.flatten(1).sum(dim=1)


def label_entropy_nats(labels: Tensor) -> float:
    """Return the entropy of the labels of a data set: an upper bound on I(x~; y | z) if y is the label.

    labels: classes, [N], or 1 for each finding that an image has and 0 for the others, [N, findings]. The result for
    findings is the sum of their entropies, which bounds the entropy of all findings together.
    """
    if labels.ndim not in (1, 2) or len(labels) == 0:
        raise ValueError(f"labels have shape {tuple(labels.shape)}, expected [N] or [N, findings] with N at least 1")
    if labels.ndim == 1:
        shares = labels.unique(return_counts=True)[1].double() / len(labels)
    else:
        if not ((labels == 0) | (labels == 1)).all():
            raise ValueError("findings have values other than 0 and 1, expected 1 if a finding is present, else 0")
        present = labels.double().mean(dim=0)
        shares = torch.stack((present, 1 - present))
    return float(torch.special.entr(shares).sum())


def _gaussian(mean: Tensor, variance: Tensor) -> Gaussian:
    return Gaussian(mean, variance.log() / 2)
