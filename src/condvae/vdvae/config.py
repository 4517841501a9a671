"""The shape of a VD-VAE as data: one row per resolution, and what holds for the whole network."""

import dataclasses
import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from condvae.gaussian import Scales
from condvae.likelihood import GaussianPixels, Likelihood, LogisticMixture
from condvae.runtime.checks import check_choice, check_whole, strict


@dataclass(frozen=True, kw_only=True)
class Stage:
    """One resolution of encoder and decoder."""

    resolution: int
    width: int
    """Channels of the states at this resolution."""
    inner: int
    """Channels inside a block, between its two 1x1 convolutions."""
    encoder_blocks: int
    """The last of them pools down to the next stage; the coarsest stage has no next and may have no blocks."""
    decoder_blocks: int
    """0: the decoder passes this resolution by."""
    latent_blocks: int | None = None
    """How many decoder blocks carry latents, before those that do not. None: all."""

    @property
    def groups(self) -> int:
        """Latent groups at this resolution."""
        return self.decoder_blocks if self.latent_blocks is None else self.latent_blocks


@dataclass(frozen=True, kw_only=True)
class Normalisation:
    """What the networks see of 8-bit grey levels: (level + shift) * scale."""

    shift: float = -127.5
    scale: float = 1 / 64

    def __post_init__(self) -> None:
        numbers = isinstance(self.shift, int | float) and isinstance(self.scale, int | float)
        if not numbers or not math.isfinite(self.shift) or not 0 < self.scale < math.inf:
            raise ValueError(
                f"the normalisation has shift {self.shift} and scale {self.scale}, expected numbers, the scale positive"
            )


@dataclass(frozen=True, kw_only=True)
class VDVAEConfig:
    """A whole network. Defaults are the public architecture's, but for the normalisation, which belongs to the data.

    `presets.preset` gives complete ones by name.
    """

    stages: tuple[Stage, ...]
    """From the image's resolution down to the coarsest."""
    latent_channels: int = 16
    largest_bias: int = 64
    """States start as a learnt bias image up to this resolution, above it at zero."""
    scales: Scales = "log_std"
    """How network outputs become standard deviations."""
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
    def decoder_stages(self) -> tuple[Stage, ...]:
        """The stages that the decoder visits, coarse to fine."""
        return tuple(stage for stage in reversed(self.stages) if stage.decoder_blocks)

    @property
    def group_stages(self) -> tuple[Stage, ...]:
        """The stage of every latent group z_1, ..., z_L."""
        return tuple(stage for stage in self.decoder_stages for _ in range(stage.groups))

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON; `from_dict` reads it back."""
        plain = dataclasses.asdict(self)
        plain["likelihood"] = {"kind": self.likelihood.kind, **plain["likelihood"]}
        return plain

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> "VDVAEConfig":
        """The config that `to_dict` wrote; an unknown or missing key is an error that names it."""
        values = dict(plain)
        if "stages" in values:
            values["stages"] = tuple(strict(Stage, stage, where="stage") for stage in values["stages"])
        if "normalisation" in values:
            values["normalisation"] = strict(Normalisation, values["normalisation"], where="normalisation")
        if "likelihood" in values:
            likelihood = dict(values["likelihood"])
            kinds: dict[Any, type[Likelihood]] = {kind.kind: kind for kind in (LogisticMixture, GaussianPixels)}
            kind = likelihood.pop("kind", None)
            if kind not in kinds:
                raise ValueError(f"unknown likelihood {kind!r}, expected one of {', '.join(kinds)}")
            values["likelihood"] = strict(kinds[kind], likelihood, where="likelihood")
        return strict(cls, values, where="network config")


def _check_stages(stages: tuple[Stage, ...]) -> None:
    if not stages:
        raise ValueError("a network needs at least one stage")
    for stage in stages:
        r = stage.resolution
        if not isinstance(r, int) or r < 1 or r & (r - 1):
            raise ValueError(f"a stage has resolution {r}, expected a power of two")
        check_whole(stage.width, f"the width of stage {r}", least=1)
        check_whole(stage.inner, f"the inner width of stage {r}", least=1)
        check_whole(stage.encoder_blocks, f"the number of encoder blocks of stage {r}")
        check_whole(stage.decoder_blocks, f"the number of decoder blocks of stage {r}")
        check_whole(stage.groups, f"the number of latent blocks of stage {r}")
        if stage.groups > stage.decoder_blocks:
            raise ValueError(f"stage {r} has {stage.groups} latent blocks of {stage.decoder_blocks} decoder blocks")
    for finer, coarser in itertools.pairwise(stages):
        if coarser.resolution >= finer.resolution:
            raise ValueError(
                f"stage {coarser.resolution} follows {finer.resolution}, expected ever coarser resolutions"
            )
        if finer.encoder_blocks == 0:
            raise ValueError(f"stage {finer.resolution} has no encoder block to pool down to {coarser.resolution}")
    if stages[0].decoder_blocks == 0:
        raise ValueError(f"stage {stages[0].resolution} has no decoder blocks, so the decoder cannot reach the image")
    if not any(stage.groups for stage in stages):
        raise ValueError("no stage has latents")
