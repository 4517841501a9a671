"""The paper's model: a pretrained artifact, and a partial encoder c(z | y) that asks it to explain an observation y."""

from dataclasses import dataclass
from typing import Literal, TypeVar

import torch
from torch import Tensor, nn

from condvae.observe.observation import Observation, observe_pixels
from condvae.observe.process import KnownPixels, Process
from condvae.runtime.checks import check_choice, check_whole
from condvae.vdvae.blocks import Block
from condvae.vdvae.encoder import Encoder, Posterior
from condvae.vdvae.model import VDVAE

M = TypeVar("M", bound=nn.Module)


@dataclass(frozen=True, kw_only=True)
class PartialConfig:
    """The partial encoder: the encoder's own structure, with other inputs."""

    channels: int
    """Channels of y: image channels + 1 for completion (the last says which pixels are known)."""
    form: Literal["direct", "relative"] = "direct"
    """direct: c's mean and log-std are predicted (the paper, the public checkpoints). relative: as a difference from
    the prior's that starts at zero."""

    def __post_init__(self) -> None:
        check_whole(self.channels, "the number of channels of y", least=1)
        check_choice(self.form, "the partial encoder's form", ("direct", "relative"))


def frozen(module: M) -> M:
    """The module itself, no weight of which will ask for a gradient."""
    return module.requires_grad_(False)


class ConditionalVAE(nn.Module):
    """p_cond(x | y) = integral of p(x | z) c(z | y) dz: the decoder never sees y (eq:marginal-image-posterior).

    Three ways to train it:

    - IPA: `ConditionalVAE(artifact, partial)` freezes the artifact; only the partial encoder (psi) learns.
    - from scratch: `ConditionalVAE(VDVAE(config), partial, train_artifact=True)` leaves everything free.
    - psi started from phi, as IPA-R wants: either of them, then `start_from_encoder()`.

    The artifact is taken over, not copied: give every model its own.
    """

    def __init__(
        self,
        artifact: VDVAE,
        partial: PartialConfig,
        *,
        train_artifact: bool = False,
        process: Process | None = None,
    ) -> None:
        super().__init__()
        self.partial_config = partial
        self.process = process
        """What y is drawn from in training, stored with the model; None: nobody has said."""
        self.artifact = artifact.requires_grad_(True) if train_artifact else frozen(artifact)
        self.partial = Encoder(artifact.config, partial.channels, relative=partial.form == "relative")

    @property
    def trains_artifact(self) -> bool:
        return any(parameter.requires_grad for parameter in self.artifact.parameters())

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return self.artifact.device

    @property
    def completes_holes(self) -> bool:
        """Whether y is known pixels and which they are: then `observe` makes it, whatever the hole."""
        if self.process is not None and not isinstance(self.process, KnownPixels):
            return False
        return self.partial_config.channels == self.artifact.config.channels + 1

    def posterior(self, observation: Observation) -> Posterior:
        """c(. | y)"""
        size = self.artifact.config.image_size
        if observation.y.shape[1] != self.partial_config.channels:
            raise ValueError(
                f"y has {observation.y.shape[1]} channels, this partial encoder expects {self.partial_config.channels}"
            )
        if observation.y.shape[2:] != (size, size):
            raise ValueError(
                f"y is {observation.y.shape[2]} x {observation.y.shape[3]} pixels, expected {size} x {size}"
            )
        posterior: Posterior = self.partial(observation.y)
        return posterior

    def observe(self, x: Tensor, known: Tensor) -> Observation:
        """Completion's y: the pixels of x in [-1, 1] where `known` ([B, 1, H, W] bool) is True."""
        self.artifact.check(x, values=False)
        return observe_pixels(x, known, self.artifact.normalise)

    @torch.no_grad()
    def start_from_encoder(self) -> "ConditionalVAE":
        """Start psi at phi; channels of y beyond the image's (the known-pixel channel) start with weights of zero.

        In the relative form the last convolutions stay at zero: only what leads up to them is taken over.
        """
        source, target = self.artifact.encoder, self.partial
        if target.channels < source.channels:
            raise ValueError(
                f"y has {target.channels} channels but images have {source.channels}: "
                "the partial encoder can start at the encoder only if y begins with an image"
            )
        target.pyramid.blocks.load_state_dict(source.pyramid.blocks.state_dict())
        target.pyramid.input.weight.zero_()
        target.pyramid.input.weight[:, : source.channels] = source.pyramid.input.weight
        _copy_bias(source.pyramid.input, target.pyramid.input)
        for mine, theirs in zip(target.heads, source.heads, strict=True):
            assert isinstance(mine, Block) and isinstance(theirs, Block)
            mine.load_state_dict(theirs.state_dict())
            if target.relative:
                for parameter in mine.c4.parameters():
                    parameter.zero_()
        return self


def _copy_bias(source: nn.Conv2d, target: nn.Conv2d) -> None:
    assert source.bias is not None and target.bias is not None
    target.bias.copy_(source.bias)
