"""AVP-CNN (attentional variational posterior, Harvey et al. 2019): a convolutional network g(v | y) that predicts
variables from the known pixels of an image.
"""

import dataclasses
import math
import operator
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from condvae import kernels
from condvae.design.avp_cnn.efficientnet import Lite0
from condvae.design.avp_cnn.layers import folded
from condvae.design.avp_cnn.residual import Residual
from condvae.observe.observation import check_known, observe_pixels
from condvae.runtime.checks import check_choice, check_whole, strict
from condvae.runtime.messages import shown
from condvae.runtime.pixels import check_images, to_levels

if TYPE_CHECKING:
    from condvae.kernels.fused_classifier import FusedLite0

ClassifierPrecision: TypeAlias = Literal["auto", "exact", "fast"]

_PIXELS_AT_ONCE = {"cuda": 2**25, "cpu": 2**17}
"""The most pixels that the network computes together, by type of device. They fit a CPU's cache or a GPU's memory."""

_MOST_BLOCKS = 1_000
"""Limit on the residual blocks of a plain trunk, so that a file cannot describe one that takes hours to build."""


@dataclass(frozen=True, kw_only=True)
class ClassifierConfig:
    """The configuration of a classifier: its images, its variables and its network."""

    size: int
    """Width and height of the images in pixels."""
    channels: int
    """Number of channels of the images: 1 for grey, 3 for RGB."""
    names: tuple[str, ...]
    """Names of the variables that the classifier predicts."""
    outcomes: int = 2
    """Number of outcomes of each variable. It must be 2 if there are several variables."""
    outcome_names: tuple[str, ...] | None = None
    """Names of the outcomes, in order."""
    mean: float = 127.5
    """The grey level, from 0 to 255, that is mapped to 0 when images are normalised."""
    std: float = 63.75
    """The number of grey levels that are mapped to a difference of 1 when images are normalised."""
    trunk: Literal["lite0", "plain"] = "lite0"
    """The convolutional network: EfficientNet-Lite0 (lite0), or a residual network of 3 x 3 convolutions (plain)."""
    stages: int = 5
    """How many of the seven stages of EfficientNet-Lite0 to use, if the trunk is lite0."""
    widths: tuple[int, ...] = (32, 64, 128)
    """Number of channels of each stage, if the trunk is plain."""
    blocks: int = 2
    """Number of residual blocks per stage, if the trunk is plain."""
    stem_stride: int = 2
    """Stride of the first convolution. 1 keeps the resolution of the image."""
    enlarge: int = 1
    """Factor by which images are enlarged, bilinearly, before the first convolution."""
    head: int = 256
    """Number of channels of a 1 x 1 convolution after the trunk. With 0 there is no such layer."""
    dropout: float = 0.2
    """Fraction of the pooled features that dropout sets to zero in training."""

    def __post_init__(self) -> None:
        for name, least in (("size", 1), ("enlarge", 1), ("head", 0), ("outcomes", 2), ("blocks", 1)):
            check_whole(getattr(self, name), name, least=least)
        check_choice(self.channels, "channels", (1, 3))
        check_choice(self.trunk, "trunk", ("lite0", "plain"))
        if not isinstance(self.widths, tuple) or self.trunk_blocks > _MOST_BLOCKS:
            raise ValueError(
                f"widths is {shown(self.widths)}, expected a list for at most {_MOST_BLOCKS:,} blocks in all"
            )
        if not isinstance(self.names, tuple) or not self.names or not all(isinstance(name, str) for name in self.names):
            raise ValueError(f"names is {shown(self.names)}, expected the names of one or more variables")
        if len(self.names) > 1 and self.outcomes != 2:
            raise ValueError(
                f"{len(self.names)} variables have {self.outcomes} outcomes each, expected 2 outcomes each or only one "
                "variable"
            )
        if self.outcome_names is not None and len(self.outcome_names) != self.outcomes:
            names = len(self.outcome_names)
            raise ValueError(f"there are {self.outcomes} outcomes but {names} outcome names: give one name per outcome")
        if not 0 <= self.dropout < 1:
            raise ValueError(f"dropout is {self.dropout}, expected at least 0 and less than 1")
        if not math.isfinite(self.mean) or not 0 < self.std < math.inf:
            raise ValueError(f"mean is {self.mean} and std is {self.std}, expected finite numbers and a positive std")

    @property
    def trunk_blocks(self) -> int:
        """Number of residual blocks, if the trunk is plain; otherwise 0."""
        return len(self.widths) * self.blocks if self.trunk == "plain" else 0

    @property
    def logits(self) -> int:
        """Number of logits: one per yes-or-no variable, or one per outcome of a single variable."""
        return len(self.names) if self.outcomes == 2 else self.outcomes

    def to_dict(self) -> dict[str, Any]:
        """Convert the configuration to plain data for JSON, which `from_dict` reads."""
        return dataclasses.asdict(self)

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> "ClassifierConfig":
        """Make a configuration from the result of `to_dict`; raise a ValueError that names a wrong or missing key."""
        values = dict(plain)
        for name in ("names", "outcome_names", "widths"):
            if isinstance(values.get(name), list):
                values[name] = tuple(values[name])
        return strict(cls, values, where="classifier config")


class _Weights(NamedTuple):
    """The tensors of a network. marks: the address and the version of each, which change when it is written to."""

    tensors: list[Tensor]
    marks: list[tuple[int, int]]

    @classmethod
    def of(cls, network: nn.Module) -> "_Weights":
        tensors = [*network.parameters(), *network.buffers()]
        # Torch counts the writes to a tensor, unless it was made in inference mode.
        return cls(tensors, [(t.data_ptr(), 0 if t.is_inference() else t._version) for t in tensors])

    def are(self, other: "_Weights") -> bool:
        same = len(self.tensors) == len(other.tensors) and all(map(operator.is_, self.tensors, other.tensors))
        return same and self.marks == other.marks


class AVPCNN(nn.Module):
    """The classifier g(v | y). Use `forward` for training and `log_posterior` for calibrated predictions."""

    def __init__(self, config: ClassifierConfig, *, precision: ClassifierPrecision = "auto") -> None:
        """Make a network with random weights.

        precision: how `log_posterior` computes. "exact" means float32; "fast" and "auto" mean float16 on a GPU and
        float32 on a CPU.
        """
        super().__init__()
        check_choice(precision, "precision", ("auto", "exact", "fast"))
        self.config, self.precision = config, precision
        self.trunk: Lite0 | Residual
        if config.trunk == "lite0":
            self.trunk = Lite0(config.channels + 1, stages=config.stages, stem_stride=config.stem_stride)
        else:
            self.trunk = Residual(
                config.channels + 1, widths=config.widths, blocks=config.blocks, stem_stride=config.stem_stride
            )
        self.head = nn.Conv2d(self.trunk.width, config.head, 1) if config.head else None
        self.last = nn.Linear(2 * (config.head or self.trunk.width), config.logits)
        self.gain: Tensor
        self.offset: Tensor
        self.register_buffer("gain", torch.ones(len(config.names)))
        self.register_buffer("offset", torch.zeros(len(config.names)))
        self.plain = False  # whether to use plain torch even where kernels are available
        self._ready: dict[torch.dtype, AVPCNN] = {}  # folded copies of this network by dtype
        self._fused: FusedLite0 | None = None  # the folded network as fused kernels
        self._folded_from: _Weights | None = None  # the weights that both were made from
        self.register_load_state_dict_post_hook(lambda module, _: module._forget())  # type: ignore[no-untyped-call]

    @property
    def names(self) -> tuple[str, ...]:
        return self.config.names

    @property
    def outcomes(self) -> int:
        return self.config.outcomes

    @property
    def device(self) -> torch.device:
        return self.gain.device

    @property
    def dtype(self) -> torch.dtype:
        """The dtype in which `log_posterior` computes."""
        return torch.float16 if self.precision != "exact" and self.device.type == "cuda" else torch.float32

    def normalise(self, x: Tensor) -> Tensor:
        """Normalise images in [-1, 1] with the mean and std of the configuration."""
        return (to_levels(x) - self.config.mean) / self.config.std

    @torch.no_grad()
    def start_at(self, frequencies: Tensor) -> None:
        """Initialise the last layer so that the network predicts these frequencies for every image.

        frequencies: how often outcome 1 occurs, for each yes-or-no variable, or how often each of the K outcomes of a
        single variable occurs.
        """
        odds = frequencies.logit() if self.outcomes == 2 else frequencies.log()
        self.last.weight.zero_()
        self.last.bias.copy_(odds)

    def forward(self, y: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """Compute the logits [B, logits] before calibration.

        y: [B, channels + 1, H, W], the channels of x * known and then `known`, where x is normalised.
        generator: makes the random draws of dropout. Without a generator there is no dropout.
        """
        if self.config.enlarge > 1:
            y = F.interpolate(y, scale_factor=self.config.enlarge, mode="bilinear")
        features = self.trunk(y)
        if self.head is not None:
            features = F.relu6(self.head(features))
        pooled = torch.cat((features.mean(dim=(2, 3)), features.amax(dim=(2, 3))), dim=1)
        if generator is not None and self.config.dropout:
            kept = 1 - self.config.dropout
            drawn = torch.rand(pooled.shape, device=pooled.device, generator=generator)
            pooled = pooled * (drawn < kept) / kept
        made: Tensor = self.last(pooled)
        return made

    def logits(self, pixels: Tensor, known: Tensor) -> Tensor:
        """Compute calibrated logits [B, logits] float32 in bounded memory. Arguments are those of `log_posterior`."""
        config, home = self.config, pixels.device
        check_images(pixels, channels=config.channels, size=config.size, name="pixels", values=False)
        check_known(known, (len(pixels), 1, config.size, config.size))
        device = self.device
        step = max(1, _PIXELS_AT_ONCE.get(device.type, 2**17) // (config.size * config.enlarge) ** 2)
        chunks = zip(pixels.to(device).split(step), known.to(device).split(step), strict=True)
        made = torch.cat([self._chunk(*chunk) for chunk in chunks])
        # For K classes one offset is added to all logits, which changes nothing: only the gain calibrates.
        return (made * self.gain + self.offset).to(home)

    def log_posterior(self, pixels: Tensor, known: Tensor) -> Tensor:
        """Predict log g(v = k | y) for V variables with K outcomes, [B, V, K] float32.

        pixels: [B, C, H, W] in [-1, 1]. known: [B, 1, H, W] bool; hidden pixels do not influence the result.
        """
        logits = self.logits(pixels, known)
        if self.outcomes == 2:
            return torch.stack((F.logsigmoid(-logits), F.logsigmoid(logits)), dim=2)
        return logits.log_softmax(dim=1)[:, None]

    @torch.no_grad()
    def _chunk(self, pixels: Tensor, known: Tensor) -> Tensor:
        if self._fuses(pixels.device):
            return self._kernels()(pixels.float(), known)
        y = observe_pixels(pixels.float(), known, self.normalise).y
        # channels_last is three times as fast as the default layout, on CPUs too.
        y = y.to(self.dtype, memory_format=torch.channels_last)
        network = self._folded(y.dtype)
        with (
            torch.backends.cudnn.flags(enabled=True, deterministic=True, allow_tf32=False),
            torch.autocast(y.device.type, enabled=False),  # even if the caller has enabled it
        ):
            return network.forward(y).float()

    def _folded(self, dtype: torch.dtype) -> "AVPCNN":
        self._forget_if_changed()
        if dtype not in self._ready:
            self._ready = {}  # keep only one copy
            made = folded(self).to(dtype=dtype, memory_format=torch.channels_last)  # type: ignore[call-overload]
            self._ready[dtype] = made
        return self._ready[dtype]

    def _fuses(self, device: torch.device) -> bool:
        """Whether fused kernels can compute this network on the device. Otherwise plain torch computes it."""
        can = isinstance(self.trunk, Lite0) and self.config.enlarge == 1 and not self.plain
        return can and self.precision != "exact" and kernels.available(device)

    def _kernels(self) -> "FusedLite0":
        self._forget_if_changed()
        if self._fused is None:
            from condvae.kernels.fused_classifier import FusedLite0

            self._ready = {}
            network = folded(self)
            assert isinstance(network.trunk, Lite0)
            first, blocks = network.trunk.folded_layers()
            shift, one = self.normalise(torch.tensor([0.0, 1.0], dtype=torch.float64)).tolist()
            self._fused = FusedLite0(first, blocks, network.head, network.last, scale=one - shift, shift=shift)
        return self._fused

    def _forget(self) -> None:
        self._ready, self._fused, self._folded_from = {}, None, None

    def _forget_if_changed(self) -> None:
        """Drop the copies of the network for fast evaluation if its weights have changed."""
        now = _Weights.of(self)
        if self._folded_from is None or not now.are(self._folded_from):
            self._forget()
            self._folded_from = now

    def train(self, mode: bool = True) -> "AVPCNN":
        """Switch between training and evaluation mode, and drop the copies of the network for fast evaluation."""
        self._forget()
        return super().train(mode)

    def _apply(self, *args: Any, **kwargs: Any) -> "AVPCNN":
        self._forget()
        super()._apply(*args, **kwargs)  # type: ignore[no-untyped-call]
        return self
