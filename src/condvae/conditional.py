"""The paper's model: a pretrained artifact, and a partial encoder c(z | y) that predicts the artifact's latents z."""

from dataclasses import dataclass
from typing import Literal, TypeVar

import torch
from torch import Tensor, nn

from condvae.observe.observation import Observation, observe_pixels
from condvae.observe.process import KnownPixels, Process
from condvae.runtime.checks import check_choice, check_whole
from condvae.runtime.messages import counted
from condvae.vdvae.blocks import Block
from condvae.vdvae.encoder import Encoder, Posterior
from condvae.vdvae.model import VDVAE

M = TypeVar("M", bound=nn.Module)


@dataclass(frozen=True, kw_only=True)
class PartialConfig:
    """Configuration of the partial encoder, which has the encoder's architecture but other inputs."""

    channels: int
    """Number of channels of y. For image completion: the image's channels, and one that marks known pixels."""
    form: Literal["direct", "relative"] = "direct"
    """What the network predicts. direct: the mean and log-std of c (as in the paper and in the public checkpoints).
    relative: their difference from the prior's mean and log-std; this difference is zero before training."""

    def __post_init__(self) -> None:
        check_whole(self.channels, "the number of channels of y", least=1)
        check_choice(self.form, "the partial encoder's form", ("direct", "relative"))


def frozen(module: M) -> M:
    """Freeze all weights of the module (they need no gradient), and return the module."""
    return module.requires_grad_(False)


class ConditionalVAE(nn.Module):
    """The conditional model p_cond(x | y) = integral of p(x | z) c(z | y) dz. The decoder never sees y.

    This is the paper's equation eq:marginal-image-posterior. There are three ways to train the model:

    - IPA: `ConditionalVAE(artifact, partial)` freezes the artifact, so that only the partial encoder (psi) learns.
    - From scratch: `ConditionalVAE(VDVAE(config), partial, train_artifact=True)` trains all weights.
    - From the encoder's weights, as for IPA-R: create the model in one of these two ways, then call
      `start_from_encoder()`, which copies the weights of the encoder (phi) to the partial encoder (psi).

    The model uses the given artifact itself, not a copy. Do not share one artifact between models.
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
        """The observation process of the training, which is stored with the model. None if it is unknown."""
        self.artifact = artifact.requires_grad_(True) if train_artifact else frozen(artifact)
        self.partial = Encoder(artifact.config, partial.channels, relative=partial.form == "relative")

    @property
    def trains_artifact(self) -> bool:
        return any(parameter.requires_grad for parameter in self.artifact.parameters())

    @property
    def device(self) -> torch.device:
        """The device of the weights."""
        return self.artifact.device

    @property
    def image_size(self) -> int:
        return self.artifact.config.image_size

    @property
    def channels(self) -> int:
        """The number of channels of an image."""
        return self.artifact.config.channels

    @property
    def completes_holes(self) -> bool:
        """Whether y consists of known pixels and a channel that marks them. `observe` makes such a y for any hole."""
        if self.process is not None and not isinstance(self.process, KnownPixels):
            return False
        return self.partial_config.channels == self.artifact.config.channels + 1

    def posterior(self, observation: Observation) -> Posterior:
        """Return c(z | y), the distribution of all latents given the observation."""
        size = self.artifact.config.image_size
        if observation.y.shape[1] != self.partial_config.channels:
            raise ValueError(
                f"y has {counted(observation.y.shape[1], 'channel')}, "
                f"but this partial encoder expects {self.partial_config.channels}"
            )
        if observation.y.shape[2:] != (size, size):
            raise ValueError(
                f"y is {observation.y.shape[2]} x {observation.y.shape[3]} pixels, but the model needs {size} x {size}"
            )
        posterior: Posterior = self.partial(observation.y)
        return posterior

    def observe(self, x: Tensor, known: Tensor) -> Observation:
        """Make an observation for image completion from images x in [-1, 1].

        known: [B, 1, H, W] bool, True where a pixel of x is known. The other pixels of x are not used. On a CPU, known
        pixels that are NaN, infinite or outside [-1, 1] are rejected at once. On a GPU, this would wait for the device,
        so they are rejected when the observation is used.
        """
        self.artifact.check(x, values=False)
        observation = observe_pixels(x, known, self.artifact.normalise)
        if x.device.type == "cpu":
            observation.check_values()
        return observation

    @torch.no_grad()
    def start_from_encoder(self) -> "ConditionalVAE":
        """Copy the encoder's weights (phi) to the partial encoder (psi), and return the model.

        y can have more channels than an image, such as the one that marks known pixels. The partial encoder's input
        weights for these channels are set to zero. If it predicts differences from the prior (`form` is "relative"),
        the last convolution of each head is also set to zero, so that c(z | y) starts as the prior.
        """
        source, target = self.artifact.encoder, self.partial
        if target.channels < source.channels:
            raise ValueError(
                f"y has {counted(target.channels, 'channel')} but images have {source.channels}: "
                "the partial encoder can start from the encoder only if the first channels of y are an image"
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
