"""The likelihoods p(x | z): distributions of the pixels, given the outputs of the decoder's last layer.

Both likelihoods treat pixels as independent given z. So `log_prob` returns one number per pixel, [B, H, W], which can
be summed over any subset of pixels. Parameters are the decoder's outputs, [B, P, H, W] for P parameters per pixel.
Images are [B, C, H, W] in [-1, 1].
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

    A component of the mixture has one weight, and a logistic distribution for each channel. The mean of green depends
    linearly on red, and the mean of blue depends on red and green. `bins` sets the pixel value of each grey level and
    the interval of values that belongs to it (its bin):

    - "public": as in the training of the public checkpoints. With 5 bits, the levels have the pixel values of the 8-bit
      levels 0, 8, ..., 248, but a bin is 2/31 wide. So neighbouring bins overlap by 2.8 % of their width, the highest
      bin is not open-ended, and probabilities do not sum to one. If a component gives a bin a probability of at most
      1e-5, this probability is replaced by the density at the bin's centre times the bin's width.
    - "exact": the levels are evenly spaced over [-1, 1] and the bins do not overlap. Probabilities sum to one.
    """

    kind: ClassVar[str] = "logistic_mixture"
    largest_centre: ClassVar[float] = 2.0
    """The largest result of `distance` that a trained model usually gives. The bins of black and white are open-ended,
    so training does not penalise centres outside [-1, 1]."""
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
        """Number of parameters of a pixel. For grey images, a component has 3: weight, mean, log-scale.

        For RGB, a component has 10: one weight, and for each of 3 channels a mean, a log-scale and a coefficient.
        """
        return self.components * (10 if self.channels == 3 else 3)

    @property
    def levels(self) -> int:
        return 1 << self.bits

    @property
    def half_bin(self) -> float:
        return 1 / (self.levels - 1)

    @property
    def _spacing(self) -> float:
        """Distance between the pixel values of neighbouring grey levels, where pixels are in [-1, 1]."""
        return 2 * self.half_bin if self.bins == "exact" else 2 ** (8 - self.bits) / 127.5

    def level_values(self, dtype: torch.dtype = torch.float32) -> Tensor:
        """Return the pixel values, in [-1, 1], of the grey levels 0, 1, ..., 2**bits - 1."""
        return torch.arange(self.levels, dtype=dtype) * self._spacing - 1

    def quantise(self, x: Tensor) -> Tensor:
        """Convert images with 256 grey levels to the 2**bits levels of this likelihood, rounding down.

        Input and output are pixel values in [-1, 1]. `log_prob` calls this on its images.
        """
        level = torch.div(to_levels(x).round(), 2 ** (8 - self.bits), rounding_mode="floor")
        return level * self._spacing - 1

    def log_prob(self, parameters: Tensor, x: Tensor) -> Tensor:
        """Return the joint log-probability of all channels of each pixel, in nats: [B, H, W]."""
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
        """Return the log-probability of the bin around x under each of the K components, [B, C, K, H, W]."""
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
        """Draw images [B, C, H, W].

        With exact bins or with 8 bits, they have exactly the probabilities that `log_prob` returns.
        """
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
        """Return the mean images [B, C, H, W], for display.

        A logistic distribution with centre m and scale s, clipped to [a, b], has the mean
        b - s (softplus((b - m) / s) - softplus((a - m) / s)). Green and blue depend on clipped channels, so their means
        have no closed form. Green is averaged over a few quantiles of red, and blue over quantiles of red and green.
        """
        log_weights, means, log_scales, coefficients = self._split(parameters)
        scales = log_scales.clamp_max(_MAX_MEAN_LOG_SCALE).exp()
        low, high = -1.0, float(self.level_values()[-1])

        def cut_mean(channel: int, centre: Tensor) -> Tensor:
            s = scales[:, channel]
            # A centre more than 50 scales outside [low, high] has low or high as its mean; the difference would cancel.
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

    def distance(self, parameters: Tensor) -> Tensor:
        """Return |centre| of the distribution of each pixel value, before it is clipped to [-1, 1]: [B, C, H, W]."""
        log_weights, means, _, _ = self._split(parameters)  # coefficients would change a centre by at most 2
        return (log_weights.exp().unsqueeze(1) * means).sum(dim=2).abs()

    def _as_image(self, values: Tensor) -> Tensor:
        """Turn the values of levels into pixels of an image. This changes only public 5-bit levels.

        Such a level stands for 8 grey levels and has the value of the lowest one. It is shifted to the middle of the 8.
        """
        floored = self.bins == "public" and self.bits == 5
        return values + 3.5 / 127.5 if floored else values

    def _nearest_level(self, x: Tensor) -> Tensor:
        return ((x + 1) / self._spacing).round().clamp(0, self.levels - 1) * self._spacing - 1

    def _split(self, parameters: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Split the parameters of K components by kind, and transform them to their ranges.

        Returns log-weights [B, K, H, W], then means, log-scales and (for RGB) coefficients, each [B, C, K, H, W].
        """
        parameters = _checked(parameters, self.parameters_per_pixel)
        batch, _, height, width = parameters.shape
        k = self.components
        per_channel = parameters[:, k:].reshape(batch, self.channels, -1, k, height, width)
        coefficients = per_channel[:, :, 2].tanh() if self.channels == 3 else per_channel[:, :, :0]
        log_scales = per_channel[:, :, 1].clamp_min(_MIN_LOG_SCALE)
        return parameters[:, :k].log_softmax(dim=1), per_channel[:, :, 0], log_scales, coefficients


@dataclass(frozen=True, kw_only=True)
class GaussianPixels:
    """A normal distribution for each channel of a pixel, which does not model detail below a noise floor s.

    A pixel value x is treated as the distribution N(x, s^2), and `log_prob` is -KL(N(x, s^2) || N(mean, std^2)). So the
    decoder gains nothing from a std below s. The result measures only the information above the noise floor: compare it
    only with results for the same noise floor.
    """

    kind: ClassVar[str] = "gaussian"
    largest_centre: ClassVar[float] = 1.25
    """The largest result of `distance` that a trained model usually gives."""
    bits: ClassVar[int] = 8
    """Number of bits of a grey level in `log_mass`."""
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
        """Return -KL(N(x, floor^2) || N(mean, std^2)) of each pixel, summed over channels, in nats: [B, H, W]."""
        seen = Gaussian(x, torch.full_like(x, math.log(self.noise_floor)))
        return -seen.kl_to(self.gaussian(parameters)).sum(dim=1)

    def log_mass(self, parameters: Tensor, x: Tensor) -> Tensor:
        """Return the log-probability of each pixel's 8-bit grey levels, summed over channels, in nats: [B, H, W].

        The normal distribution is divided into 256 bins, of which the first and the last are open-ended. So the result
        can be compared with `log_prob` of `LogisticMixture`. It is computed in float64, as probabilities can be tiny.
        """
        mean, log_std = self.gaussian(parameters)
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
        gaussian = self.gaussian(parameters)
        normal = as_noise(noise).normal(PIXEL_VALUE_STREAM, gaussian.mean.shape, parameters.device)
        return gaussian.sample(normal).clamp(-1, 1)

    def mean(self, parameters: Tensor) -> Tensor:
        return self.gaussian(parameters).mean.clamp(-1, 1)

    def distance(self, parameters: Tensor) -> Tensor:
        """Return |mean| of each pixel value, before it is clipped to [-1, 1]: [B, C, H, W]."""
        return self.gaussian(parameters).mean.abs()

    def gaussian(self, parameters: Tensor) -> Gaussian:
        """Return the normal distribution of each pixel value, [B, C, H, W]. No std is below the noise floor."""
        mean, raw = _checked(parameters, self.parameters_per_pixel).chunk(2, dim=1)
        floor = math.log(self.noise_floor)
        return Gaussian(mean, floor + F.softplus(raw - floor))  # a smooth maximum of raw and the floor


Likelihood: TypeAlias = LogisticMixture | GaussianPixels


def _checked(parameters: Tensor, expected: int) -> Tensor:
    """Convert half-precision parameters to float32; raise ValueError if the number of parameters per pixel is wrong."""
    if parameters.shape[1] != expected:
        raise ValueError(f"{parameters.shape[1]} parameters per pixel were given, but this likelihood needs {expected}")
    return full_precision(parameters)
