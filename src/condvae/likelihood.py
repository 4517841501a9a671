"""p(x | z): the distribution of the pixels, given the outputs of the decoder's last layer.

Both likelihoods treat pixels as independent given z, so `log_prob` is per pixel, [B, H, W], and can be summed over any
subset of pixels. The parameters are the decoder's outputs [B, P, H, W]; images are [B, C, H, W] in [-1, 1].
"""

import math
from dataclasses import dataclass
from typing import ClassVar, Literal, TypeAlias

import torch
import torch.nn.functional as F
from torch import Tensor

from condvae.gaussian import Gaussian, full_precision
from condvae.noise import PIXEL_COMPONENT_STREAM, PIXEL_VALUE_STREAM, NoiseSource, as_noise
from condvae.runtime.checks import check_choice, check_whole
from condvae.runtime.pixels import to_levels

_MIN_LOG_SCALE = -7.0
_SMALL_MASS = 1e-5
_MEAN_QUANTILES = 6
_MAX_MEAN_LOG_SCALE = 6.0  # pixels span [-1, 1], so a larger scale changes only the rounding


@dataclass(frozen=True, kw_only=True)
class LogisticMixture:
    """Discretised mixture of logistics (Salimans et al. 2017, PixelCNN++): a probability for each grey level.

    A component has one weight and a logistic distribution per channel. The mean of green depends linearly on red, and
    that of blue on red and green. `bins` sets the pixel value of each grey level, and the interval (bin) around it:

    - "public": as in the training of the public checkpoints. 5-bit levels keep their 8-bit values 0, 8, ..., 248, but
      a bin is 2/31 wide. So neighbouring bins overlap by 2.8 % of their width and the highest bin is not open-ended:
      probabilities do not sum to one. A bin whose mass is at most 1e-5 uses the density at its centre instead.
    - "exact": the levels are evenly spaced over [-1, 1] and the bins do not overlap. Probabilities sum to one.
    """

    kind: ClassVar[str] = "logistic_mixture"
    channels: int = 3
    components: int = 10
    bits: int = 8
    bins: Literal["public", "exact"] = "public"

    def __post_init__(self) -> None:
        check_choice(self.channels, "the number of image channels", (1, 3))
        check_choice(self.bits, "the likelihood's number of bits", (5, 8))
        check_choice(self.bins, "the likelihood's kind of bins", ("public", "exact"))
        check_whole(self.components, "the likelihood's number of components", least=1)

    @property
    def parameters_per_pixel(self) -> int:
        """10 per component for RGB (weight; 3 x mean, log-scale, coefficient), 3 for grey (weight, mean, log-scale)."""
        return self.components * (10 if self.channels == 3 else 3)

    @property
    def levels(self) -> int:
        return 1 << self.bits

    @property
    def half_bin(self) -> float:
        return 1 / (self.levels - 1)

    @property
    def _spacing(self) -> float:
        """Distance between neighbouring levels, on the scale of [-1, 1]."""
        return 2 * self.half_bin if self.bins == "exact" else 2 ** (8 - self.bits) / 127.5

    def level_values(self, dtype: torch.dtype = torch.float32) -> Tensor:
        """The pixel values in [-1, 1] of the levels 0, 1, ..., 2**bits - 1."""
        return torch.arange(self.levels, dtype=dtype) * self._spacing - 1

    def quantise(self, x: Tensor) -> Tensor:
        """Round 8-bit images in [-1, 1] down to this likelihood's levels, which `log_prob` scores."""
        level = torch.div(to_levels(x).round(), 2 ** (8 - self.bits), rounding_mode="floor")
        return level * self._spacing - 1

    def log_prob(self, parameters: Tensor, x: Tensor) -> Tensor:
        """Joint log-probability of all channels of each pixel, in nats: [B, H, W]."""
        log_weights, means, log_scales, coefficients = self._split(parameters)
        x = self.quantise(x).unsqueeze(2)  # [B, C, 1, H, W], to broadcast over components
        if self.channels == 3:
            red, green = x[:, 0], x[:, 1]
            means = torch.stack(
                (
                    means[:, 0],
                    means[:, 1] + coefficients[:, 0] * red,
                    means[:, 2] + coefficients[:, 1] * red + coefficients[:, 2] * green,
                ),
                dim=1,
            )
        return torch.logsumexp(log_weights + self._log_mass(x, means, log_scales).sum(dim=1), dim=1)

    def _log_mass(self, x: Tensor, means: Tensor, log_scales: Tensor) -> Tensor:
        """Log of the probability mass of each logistic in the bin around x, [B, C, K, H, W]."""
        inverse_scale = (-log_scales).exp()
        upper = (x + self.half_bin - means) * inverse_scale
        lower = (x - self.half_bin - means) * inverse_scale
        # sigmoid(u) - sigmoid(l) = sigmoid(u) sigmoid(-l) (1 - exp(l - u)): no cancellation, however small the mass.
        width = (2 * self.half_bin * inverse_scale).clamp_min(torch.finfo(x.dtype).tiny)
        log_mass = F.logsigmoid(upper) + F.logsigmoid(-lower) + (-torch.expm1(-width)).log()
        if self.bins == "public":
            middle = (x - means) * inverse_scale
            log_density = middle - log_scales - 2 * F.softplus(middle)
            log_mass = torch.where(
                log_mass > math.log(_SMALL_MASS), log_mass, log_density - math.log((self.levels - 1) / 2)
            )
        # The first and the last bin are open-ended.
        log_mass = torch.where(x < -0.999, F.logsigmoid(upper), log_mass)
        return torch.where(x > 0.999, F.logsigmoid(-lower), log_mass)

    def sample(self, parameters: Tensor, noise: NoiseSource) -> Tensor:
        """Draw an image [B, C, H, W]. With exact bins or 8 bits, its distribution is exactly that of `log_prob`."""
        noise = as_noise(noise)
        log_weights, means, log_scales, coefficients = self._split(parameters)
        # Gumbel-max trick: argmax of log-weight - log(-log u) selects each component with its probability.
        u = noise.uniform(PIXEL_COMPONENT_STREAM, log_weights.shape, parameters.device)
        tiny = torch.finfo(u.dtype).tiny
        gumbel = -(-(u.clamp_min(tiny).log())).clamp_min(tiny).log()
        component = (log_weights + gumbel).argmax(dim=1)[:, None, None]  # [B, 1, 1, H, W]

        def of_component(values: Tensor) -> Tensor:
            return values.gather(2, component.expand(-1, values.shape[1], -1, -1, -1)).squeeze(2)

        mean, log_scale = of_component(means), of_component(log_scales)
        u = noise.uniform(PIXEL_VALUE_STREAM, mean.shape, parameters.device)
        deviation = log_scale.exp() * torch.logit(u, eps=1e-7)
        # Each channel is rounded to a level before the next channel depends on it, as in log_prob.
        first = self._nearest_level(mean[:, 0] + deviation[:, 0])
        if self.channels == 1:
            return self._as_image(first.unsqueeze(1))
        slope = of_component(coefficients)
        second = self._nearest_level(mean[:, 1] + slope[:, 0] * first + deviation[:, 1])
        third = self._nearest_level(mean[:, 2] + slope[:, 1] * first + slope[:, 2] * second + deviation[:, 2])
        return self._as_image(torch.stack((first, second, third), dim=1))

    def mean(self, parameters: Tensor) -> Tensor:
        """The mean image [B, C, H, W], for display.

        A logistic clipped to [a, b] has the mean b - s (softplus((b - m) / s) - softplus((a - m) / s)). Green and blue
        depend on clipped channels, so their means have no closed form. Each is averaged over a few quantiles of the
        channels it depends on.
        """
        log_weights, means, log_scales, coefficients = self._split(parameters)
        scales = log_scales.clamp_max(_MAX_MEAN_LOG_SCALE).exp()
        low, high = -1.0, float(self.level_values()[-1])

        def cut_mean(channel: int, centre: Tensor) -> Tensor:
            s = scales[:, channel]
            # More than 50 scales outside, the mean is an end of the range, and the difference below would cancel.
            centre = torch.minimum(torch.maximum(centre, low - 50 * s), high + 50 * s)
            return high - s * (F.softplus((high - centre) / s) - F.softplus((low - centre) / s))

        by_component = torch.zeros_like(means)
        by_component[:, 0] = cut_mean(0, means[:, 0])
        if self.channels == 3:
            n = _MEAN_QUANTILES
            quantiles = [math.log((i + 0.5) / (n - i - 0.5)) for i in range(n)]  # quantiles of the standard logistic
            for q in quantiles:
                red = (means[:, 0] + q * scales[:, 0]).clamp(low, high)
                centre = means[:, 1] + coefficients[:, 0] * red
                by_component[:, 1] += cut_mean(1, centre) / n
                for p in quantiles:
                    green = (centre + p * scales[:, 1]).clamp(low, high)
                    blue_centre = means[:, 2] + coefficients[:, 1] * red + coefficients[:, 2] * green
                    by_component[:, 2] += cut_mean(2, blue_centre) / n**2
        return self._as_image((log_weights.exp().unsqueeze(1) * by_component).sum(dim=2).clamp(low, high))

    def _as_image(self, values: Tensor) -> Tensor:
        """Convert levels to pixel values; shift a public 5-bit level, the lowest of 8 grey levels, to their middle."""
        floored = self.bins == "public" and self.bits == 5
        return values + 3.5 / 127.5 if floored else values

    def _nearest_level(self, x: Tensor) -> Tensor:
        return ((x + 1) / self._spacing).round().clamp(0, self.levels - 1) * self._spacing - 1

    def _split(self, parameters: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Return log-weights [B, K, H, W], and means, log-scales and (for RGB) coefficients [B, C, K, H, W]."""
        parameters = _checked(parameters, self.parameters_per_pixel)
        batch, _, height, width = parameters.shape
        k = self.components
        per_channel = parameters[:, k:].reshape(batch, self.channels, -1, k, height, width)
        coefficients = per_channel[:, :, 2].tanh() if self.channels == 3 else per_channel[:, :, :0]
        log_scales = per_channel[:, :, 1].clamp_min(_MIN_LOG_SCALE)
        return parameters[:, :k].log_softmax(dim=1), per_channel[:, :, 0], log_scales, coefficients


@dataclass(frozen=True, kw_only=True)
class GaussianPixels:
    """A normal distribution per channel that does not model detail below a noise floor s.

    Each pixel is treated as N(x, s^2), and `log_prob` is -KL(N(x, s^2) || N(mean, std^2)), so a std below s gains
    nothing. The result measures information above the noise floor: compare it only with values for the same floor.
    """

    kind: ClassVar[str] = "gaussian"
    bits: ClassVar[int] = 8
    """Number of bits of the grey levels that `log_mass` scores."""
    channels: int = 3
    noise_floor: float = 0.03

    def __post_init__(self) -> None:
        check_choice(self.channels, "the number of image channels", (1, 3))
        if not 0 < self.noise_floor < 1:
            raise ValueError(
                f"the noise floor is {self.noise_floor}, expected a number between 0 and 1 (pixels are in [-1, 1])"
            )

    @property
    def parameters_per_pixel(self) -> int:
        return 2 * self.channels

    def log_prob(self, parameters: Tensor, x: Tensor) -> Tensor:
        """-KL(N(x, floor^2) || N(mean, std^2)) of each pixel, summed over channels, in nats: [B, H, W]."""
        seen = Gaussian(x, torch.full_like(x, math.log(self.noise_floor)))
        return -seen.kl_to(self._gaussian(parameters)).sum(dim=1)

    def log_mass(self, parameters: Tensor, x: Tensor) -> Tensor:
        """Log-probability of each pixel's 8-bit grey levels, summed over channels, in nats: [B, H, W].

        The normal distribution is divided into 256 bins, of which the first and the last are open-ended, so the result
        can be compared with that of other likelihoods. It is computed in float64 to keep very small masses.
        """
        mean, log_std = self._gaussian(parameters)
        level = to_levels(x.double()).round()
        lower, upper = (
            ((level + side) / 127.5 - 1 - mean.double()) * (-log_std.double()).exp() for side in (-0.5, 0.5)
        )
        # Phi(b) - Phi(a) = Phi(-a) - Phi(-b): use the side where both terms are small, to avoid cancellation.
        flip = lower > 0
        a, b = torch.where(flip, -upper, lower), torch.where(flip, -lower, upper)
        log_b = torch.special.log_ndtr(b)
        ratio = (torch.special.log_ndtr(a) - log_b).clamp_max(-torch.finfo(torch.float64).tiny)
        log_mass = log_b + (-torch.expm1(ratio)).log()
        log_mass = torch.where(level <= 0, torch.special.log_ndtr(upper), log_mass)
        log_mass = torch.where(level >= 255, torch.special.log_ndtr(-lower), log_mass)
        return log_mass.sum(dim=1).to(x.dtype)

    def sample(self, parameters: Tensor, noise: NoiseSource) -> Tensor:
        gaussian = self._gaussian(parameters)
        normal = as_noise(noise).normal(PIXEL_VALUE_STREAM, gaussian.mean.shape, parameters.device)
        return gaussian.sample(normal).clamp(-1, 1)

    def mean(self, parameters: Tensor) -> Tensor:
        return self._gaussian(parameters).mean.clamp(-1, 1)

    def _gaussian(self, parameters: Tensor) -> Gaussian:
        mean, raw = _checked(parameters, self.parameters_per_pixel).chunk(2, dim=1)
        floor = math.log(self.noise_floor)
        return Gaussian(mean, floor + F.softplus(raw - floor))  # a smooth maximum of raw and the floor


Likelihood: TypeAlias = LogisticMixture | GaussianPixels


def _checked(parameters: Tensor, expected: int) -> Tensor:
    """Return the parameters in full precision, or raise ValueError if their number per pixel is wrong."""
    if parameters.shape[1] != expected:
        raise ValueError(f"{parameters.shape[1]} parameters per pixel were given, but this likelihood has {expected}")
    return full_precision(parameters)
