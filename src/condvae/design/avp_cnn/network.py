"""AVP-CNN (attentional variational posterior, Harvey et al. 2019): g(v | y) from an image of which some pixels are
known, as a convolutional network.
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
from condvae.runtime.pixels import check_images, to_levels

if TYPE_CHECKING:
    from condvae.kernels.fused_classifier import FusedLite0

ClassifierPrecision: TypeAlias = Literal["auto", "exact", "fast"]

_PIXELS_AT_ONCE = {"cuda": 2**25, "cpu": 2**17}
"""Of all images that go through the network together: as many as stay in a CPU's cache, or in a GPU's memory."""


@dataclass(frozen=True, kw_only=True)
class ClassifierConfig:
    """A whole classifier as data."""

    size: int
    """Pixels per side of the images."""
    channels: int
    """1 for grey, 3 for RGB."""
    names: tuple[str, ...]
    """Of the variables v."""
    outcomes: int = 2
    """How many values v can take: 2, where there are several variables."""
    outcome_names: tuple[str, ...] | None = None
    """Of the values, in order."""
    mean: float = 127.5
    """Grey level that the network sees as 0 ..."""
    std: float = 63.75
    """... and how many grey levels above it sees as 1."""
    trunk: Literal["lite0", "plain"] = "lite0"
    """EfficientNet-Lite0, or a residual network of 3 x 3 convolutions."""
    stages: int = 5
    """lite0: how many of the seven stages there are."""
    widths: tuple[int, ...] = (32, 64, 128)
    """plain: channels of the stages."""
    blocks: int = 2
    """plain: residual blocks of each stage."""
    stem_stride: int = 2
    """Of the first convolution; 1 keeps the image's size."""
    enlarge: int = 1
    """Times by which images are enlarged first, bilinearly."""
    head: int = 256
    """Channels of a 1 x 1 convolution behind the trunk; 0: there is none."""
    dropout: float = 0.2
    """Share of features that are left out in training."""

    def __post_init__(self) -> None:
        for name, least in (("size", 1), ("enlarge", 1), ("head", 0), ("outcomes", 2)):
            check_whole(getattr(self, name), name, least=least)
        check_choice(self.channels, "channels", (1, 3))
        check_choice(self.trunk, "trunk", ("lite0", "plain"))
        if not self.names or not all(isinstance(name, str) for name in self.names):
            raise ValueError(f"names is {self.names!r}, expected the names of one or more variables")
        if len(self.names) > 1 and self.outcomes != 2:
            raise ValueError(f"{len(self.names)} variables have {self.outcomes} outcomes, expected 2, or one variable")
        if self.outcome_names is not None and len(self.outcome_names) != self.outcomes:
            raise ValueError(f"there are {self.outcomes} outcomes and {len(self.outcome_names)} names of them")
        if not 0 <= self.dropout < 1:
            raise ValueError(f"dropout is {self.dropout}, expected a share from 0 to below 1")
        if not math.isfinite(self.mean) or not 0 < self.std < math.inf:
            raise ValueError(f"grey levels have mean {self.mean} and std {self.std}, expected numbers, std positive")

    @property
    def logits(self) -> int:
        """Numbers that come out: one per variable of two outcomes, one per outcome of a variable of more."""
        return len(self.names) if self.outcomes == 2 else self.outcomes

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON; `from_dict` reads it back."""
        return dataclasses.asdict(self)

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> "ClassifierConfig":
        """The config that `to_dict` wrote; an unknown or missing key is an error that names it."""
        values = dict(plain)
        for name in ("names", "outcome_names", "widths"):
            if isinstance(values.get(name), list):
                values[name] = tuple(values[name])
        return strict(cls, values, where="classifier config")


class _Weights(NamedTuple):
    """The tensors of a network, and by what it shows that they were written to."""

    tensors: list[Tensor]
    marks: list[tuple[int, int]]

    @classmethod
    def of(cls, network: nn.Module) -> "_Weights":
        tensors = [*network.parameters(), *network.buffers()]
        # Torch counts what is written to a tensor, unless it was made in inference mode.
        return cls(tensors, [(t.data_ptr(), 0 if t.is_inference() else t._version) for t in tensors])

    def are(self, other: "_Weights") -> bool:
        same = len(self.tensors) == len(other.tensors) and all(map(operator.is_, self.tensors, other.tensors))
        return same and self.marks == other.marks


class AVPCNN(nn.Module):
    """g(v | y). `forward` is for training; `log_posterior` is what it says of images, calibrated."""

    def __init__(self, config: ClassifierConfig, *, precision: ClassifierPrecision = "auto") -> None:
        """precision: of `log_posterior`. fast: float16 on a GPU. auto: fast where there is one."""
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
        self.plain = False  # whether to do without kernels where they are available
        self._ready: dict[torch.dtype, AVPCNN] = {}  # folded copies of this network, as it is now
        self._fused: FusedLite0 | None = None  # the same out of kernels
        self._folded_from: _Weights | None = None  # what these were made of
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
        """What `log_posterior` computes in."""
        return torch.float16 if self.precision != "exact" and self.device.type == "cuda" else torch.float32

    def normalise(self, x: Tensor) -> Tensor:
        """Images in [-1, 1] as the network sees them."""
        return (to_levels(x) - self.config.mean) / self.config.std

    @torch.no_grad()
    def start_at(self, frequencies: Tensor) -> None:
        """Say of every image how often outcomes are: of 1 for each variable of two, or of all K of one variable."""
        odds = frequencies.logit() if self.outcomes == 2 else frequencies.log()
        self.last.weight.zero_()
        self.last.bias.copy_(odds)

    def forward(self, y: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """[B, logits] before calibration, for y = concat(x * known, known), x normalised: [B, channels + 1, H, W].

        generator: draws the features that are left out; without it none are.
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
        """[B, logits] float32, calibrated, in bounded memory; see `log_posterior`."""
        config, home = self.config, pixels.device
        check_images(pixels, channels=config.channels, size=config.size, name="pixels", values=False)
        check_known(known, (len(pixels), 1, config.size, config.size))
        device = self.device
        step = max(1, _PIXELS_AT_ONCE.get(device.type, 2**17) // (config.size * config.enlarge) ** 2)
        chunks = zip(pixels.to(device).split(step), known.to(device).split(step), strict=True)
        made = torch.cat([self._chunk(*chunk) for chunk in chunks])
        # One offset for all outcomes of a variable changes nothing: for K classes only the gain is a calibration.
        return (made * self.gain + self.offset).to(home)

    def log_posterior(self, pixels: Tensor, known: Tensor) -> Tensor:
        """[B, V, K] float32 log g(v = k | y), for pixels [B, C, H, W] in [-1, 1], of which only known [B, 1, H, W] are
        looked at.
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
        # Three times as fast as channel by channel, on CPUs too.
        y = y.to(self.dtype, memory_format=torch.channels_last)
        network = self._folded(y.dtype)
        with (
            torch.backends.cudnn.flags(enabled=True, deterministic=True, allow_tf32=False),
            torch.autocast(y.device.type, enabled=False),  # whatever the caller is in
        ):
            return network.forward(y).float()

    def _folded(self, dtype: torch.dtype) -> "AVPCNN":
        self._forget_if_changed()
        if dtype not in self._ready:
            self._ready = {}  # one at a time
            made = folded(self).to(dtype=dtype, memory_format=torch.channels_last)  # type: ignore[call-overload]
            self._ready[dtype] = made
        return self._ready[dtype]

    def _fuses(self, device: torch.device) -> bool:
        """Whether kernels compute this: what they cannot, plain torch does."""
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
        """Weights may have been written to since: by an optimiser, or by hand."""
        now = _Weights.of(self)
        if self._folded_from is None or not now.are(self._folded_from):
            self._forget()
            self._folded_from = now

    def train(self, mode: bool = True) -> "AVPCNN":
        """In training or not; what was folded before is forgotten."""
        self._forget()
        return super().train(mode)

    def _apply(self, *args: Any, **kwargs: Any) -> "AVPCNN":
        self._forget()
        super()._apply(*args, **kwargs)  # type: ignore[no-untyped-call]
        return self
