"""The configuration of a VD-VAE: one `Stage` per resolution, and settings of the whole network."""

import dataclasses
import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from condvae.gaussian import Scales
from condvae.likelihood import GaussianPixels, Likelihood, LogisticMixture
from condvae.runtime.checks import check_choice, check_whole, strict
from condvae.runtime.messages import counted, shown

_MOST_BLOCKS = 2_000
"""Limit on the blocks of encoder and decoder, ten times what the largest public network has. Building a block takes a
millisecond, so a file could otherwise describe a network that takes hours to build."""


@dataclass(frozen=True, kw_only=True)
class Stage:
    """The blocks of the encoder and the decoder at one resolution."""

    resolution: int
    width: int
    """Number of channels of the states at this resolution."""
    inner: int
    """Number of channels inside a block, between its two 1x1 convolutions."""
    encoder_blocks: int
    """Number of encoder blocks. The last one pools to the next coarser stage. The coarsest stage may have 0 blocks."""
    decoder_blocks: int
    """Number of decoder blocks. With 0, the decoder skips this resolution."""
    latent_blocks: int | None = None
    """Number of decoder blocks with latents, which come before the blocks without latents. None means that all have
    latents."""

    @property
    def groups(self) -> int:
        """Number of latent groups at this resolution."""
        return self.decoder_blocks if self.latent_blocks is None else self.latent_blocks


@dataclass(frozen=True, kw_only=True)
class Normalisation:
    """The conversion of 8-bit grey levels to network inputs: (level + shift) * scale."""

    shift: float = -127.5
    scale: float = 1 / 64

    def __post_init__(self) -> None:
        numbers = isinstance(self.shift, int | float) and isinstance(self.scale, int | float)
        if not numbers or not math.isfinite(self.shift) or not 0 < self.scale < math.inf:
            raise ValueError(
                f"normalisation has shift {self.shift} and scale {self.scale}, expected finite numbers, with scale > 0"
            )


@dataclass(frozen=True, kw_only=True)
class VDVAEConfig:
    """Configuration of a whole network. `presets.preset` returns complete configurations by name.

    The defaults are those of the public code, except for the normalisation, which depends on the data.
    """

    stages: tuple[Stage, ...]
    """The stages, from the resolution of the image to the coarsest."""
    latent_channels: int = 16
    largest_bias: int = 64
    """Largest resolution at which the decoder state starts from a learnt image; at finer ones, it starts from zero."""
    scales: Scales = "log_std"
    """How a network output becomes a standard deviation: by exp ("log_std") or by a softplus ("softplus")."""
    likelihood: Likelihood = field(default_factory=LogisticMixture)
    normalisation: Normalisation = field(default_factory=Normalisation)

    def __post_init__(self) -> None:
        _check_stages(self.stages)
        check_whole(self.latent_channels, "latent_channels", least=1)
        check_whole(self.largest_bias, "largest_bias")
        check_choice(self.scales, "scales", ("log_std", "softplus"))

    @property
    def image_size(self) -> int:
        return self.stages[0].resolution

    @property
    def channels(self) -> int:
        return self.likelihood.channels

    @property
    def image_dims(self) -> int:
        return self.channels * self.image_size**2

    @property
    def encoder_blocks(self) -> int:
        """Number of blocks of an encoder: those of its pyramid, and one head per latent group."""
        return sum(stage.encoder_blocks + stage.groups for stage in self.stages)

    @property
    def blocks(self) -> int:
        """Number of blocks of the network: those of the encoder and those of the decoder."""
        return self.encoder_blocks + sum(stage.decoder_blocks for stage in self.stages)

    @property
    def decoder_stages(self) -> tuple[Stage, ...]:
        """The stages that have decoder blocks, from coarse to fine."""
        return tuple(stage for stage in reversed(self.stages) if stage.decoder_blocks)

    @property
    def group_stages(self) -> tuple[Stage, ...]:
        """The stages of the latent groups z_1, ..., z_L: one entry per group, from coarse to fine."""
        return tuple(stage for stage in self.decoder_stages for _ in range(stage.groups))

    def to_dict(self) -> dict[str, Any]:
        """Convert to plain data for JSON, which `from_dict` reads."""
        plain = dataclasses.asdict(self)
        plain["likelihood"] = {"kind": self.likelihood.kind, **plain["likelihood"]}
        return plain

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> "VDVAEConfig":
        """Read a configuration written by `to_dict`; raise ValueError for unknown or missing keys."""
        values = dict(plain)
        if "stages" in values:
            values["stages"] = tuple(strict(Stage, stage, where="stage") for stage in values["stages"])
        if "normalisation" in values:
            values["normalisation"] = strict(Normalisation, values["normalisation"], where="normalisation")
        if "likelihood" in values:
            likelihood = dict(values["likelihood"])
            kinds: dict[Any, type[Likelihood]] = {kind.kind: kind for kind in (LogisticMixture, GaussianPixels)}
            kind = likelihood.pop("kind", None)
            if not isinstance(kind, str) or kind not in kinds:
                raise ValueError(f"unknown likelihood {shown(kind)}, expected one of {', '.join(kinds)}")
            values["likelihood"] = strict(kinds[kind], likelihood, where="likelihood")
        return strict(cls, values, where="network config")


def _check_stages(stages: tuple[Stage, ...]) -> None:
    if not stages:
        raise ValueError("the network has no stages, expected at least one stage")
    for stage in stages:
        r = stage.resolution
        if not isinstance(r, int) or not 1 <= r < 2**31 or r & (r - 1):
            raise ValueError(f"a stage has resolution {shown(r)}, expected a power of two")
        check_whole(stage.width, f"the width of stage {r}", least=1)
        check_whole(stage.inner, f"the inner width of stage {r}", least=1)
        check_whole(stage.encoder_blocks, f"the number of encoder blocks of stage {r}")
        check_whole(stage.decoder_blocks, f"the number of decoder blocks of stage {r}")
        check_whole(stage.groups, f"the number of latent blocks of stage {r}")
        if stage.groups > stage.decoder_blocks:
            decoder_blocks = counted(stage.decoder_blocks, "decoder block")
            raise ValueError(
                f"stage {r} has {decoder_blocks}, but latent_blocks is {stage.groups}: give fewer latent blocks"
            )
    for finer, coarser in itertools.pairwise(stages):
        if coarser.resolution >= finer.resolution:
            raise ValueError(
                f"stage {coarser.resolution} follows stage {finer.resolution}, expected resolutions in decreasing order"
            )
        if finer.encoder_blocks == 0:
            raise ValueError(
                f"stage {finer.resolution} has no encoder block, but one must pool to stage {coarser.resolution}"
            )
    if stages[0].decoder_blocks == 0:
        raise ValueError(
            f"stage {stages[0].resolution} has no decoder blocks, but the decoder must reach the image's resolution"
        )
    blocks = sum(stage.encoder_blocks + stage.decoder_blocks for stage in stages)
    if blocks > _MOST_BLOCKS:
        raise ValueError(f"the network has {blocks:,} blocks, expected at most {_MOST_BLOCKS:,}")
    if not any(stage.groups for stage in stages):
        raise ValueError("no stage has latents, expected at least one latent block")
