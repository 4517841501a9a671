"""The common part of the learned baselines: networks that complete images, and the losses that train them.

A baseline consists of a config, a `LearnedCompleter` (the network) and a `CompleterLoss`. `condvae train --baseline`
trains it, and its model file contains the network without the parts that only training needs, such as discriminators.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor, nn

from condvae.completers.interface import paste_known
from condvae.noise import Noise, SeededNoise, as_noise
from condvae.observe import Observation, Process
from condvae.observe.observation import observe_levels
from condvae.runtime.checks import check_choice, check_whole
from condvae.runtime.fingerprints import digest_of
from condvae.runtime.pixels import check_images, to_uint8
from condvae.runtime.progress import track
from condvae.sampling.cpu_workers import SAMPLES_PER_BLOCK, on_workers
from condvae.sampling.plain import chunks, completion_seeds, places_of

Code = tuple[Tensor, ...]
"""What a network has computed from observations: tensors [B, ...] from which it draws any number of completions."""


@dataclass(frozen=True, kw_only=True)
class BaselineConfig:
    """What all configurations of baselines have in common."""

    image_size: int
    channels: int = 3

    def __post_init__(self) -> None:
        check_whole(self.image_size, "the image size", least=8)
        check_choice(self.channels, "the number of channels", (1, 3))

    @property
    def blocks(self) -> int:
        """The number of blocks that a field of the configuration sets, each with at least 8 tensors of weights."""
        return 0

    @property
    def needs_features(self) -> bool:
        """Whether the loss compares features of a trained network, VGG16."""
        return False


class Losses(NamedTuple):
    """The loss of a batch, and its parts for the log."""

    total: Tensor
    """The loss that is minimised, a float32 scalar."""
    parts: Mapping[str, Tensor]
    """Scalars without gradients, by the names in `figures` or `critic_figures`."""


class LearnedCompleter(nn.Module, ABC):
    """A network that completes images with holes.

    Drawing has two parts, so that one encoding of an observation serves all of its completions.
    """

    kind: ClassVar[str]
    """The short name of the method, as in model files."""
    title: ClassVar[str]
    """The name of the method in tables."""
    varies: ClassVar[bool]
    pixels_at_once: ClassVar[int] = 2**19
    """How many pixels of images are computed together on a GPU."""
    config: BaselineConfig

    def __init__(self, config: BaselineConfig) -> None:
        super().__init__()
        self.config = config
        self.process: Process | None = None
        """The observation process of the training, which is stored with the model. None if it is unknown."""

    @abstractmethod
    def encode(self, pixels: Tensor, known: Tensor) -> Code:
        """Encode observations. pixels: [B, C, H, W] in [-1, 1], 0 where hidden. known: [B, 1, H, W] bool."""

    @abstractmethod
    def decode(self, code: Code, noise: Noise) -> Tensor:
        """Draw one image of each entry of a code: [B, C, H, W] in about [-1, 1]. Known pixels may differ from y."""

    @property
    def name(self) -> str:
        return self.title

    @property
    def identity(self) -> str:
        """A digest of the configuration and the weights."""
        return digest_of(self, asdict(self.config))

    @property
    def device(self) -> torch.device:
        return next(self.parameters()).device

    @property
    def image_size(self) -> int:
        return self.config.image_size

    @property
    def channels(self) -> int:
        return self.config.channels

    @property
    def completes_holes(self) -> bool:
        return True

    def observe(self, x: Tensor, known: Tensor) -> Observation:
        """Make an observation from images x in [-1, 1]. known: [B, 1, H, W] bool, True where a pixel of x is known."""
        check_images(x, channels=self.channels, size=self.image_size, values=False)
        return observe_levels(to_uint8(torch.where(known, x, 0.0)), known)

    def complete(self, observation: Observation, k: int, seed: int, *, places: Sequence[int] | None = None) -> Tensor:
        """Return k completions of each observation, uint8 [B, k, C, H, W].

        Completion i of observation b depends only on the seed, on i, and on places[b], or on b if places is None.
        """
        check_whole(k, "the number of samples", least=1)
        return self.draw(observation, completion_seeds(seed, k, places_of(places, len(observation))))

    @torch.inference_mode()
    def draw(self, observation: Observation, seeds: Tensor) -> Tensor:
        """Return one completion for each seed, uint8 [B, n, C, H, W]. seeds: [B, n] int64 on the CPU.

        A method that does not vary computes one completion of each observation, and returns a view that repeats it.
        """
        self._check(observation)
        observation = observation.to(self.device)
        assert observation.known is not None and observation.pixels is not None
        pixels = torch.where(observation.known, observation.pixels, 0.0)
        count, n = len(observation), seeds.shape[1] if self.varies else 1
        made = torch.empty((count, n, *pixels.shape[1:]), dtype=torch.uint8, device=self.device)
        before = self.training
        if self.device.type == "cuda" and not before:
            # The layout in which convolutions are fast. Training has chosen it before.
            with torch.inference_mode(False):
                self.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.eval()
        try:
            with track("drawing", total=count * n, unit="completion", inner=True) as job:
                for rows, samples in self._drawn(pixels, observation.known, seeds[:, :n], made):
                    job.update(rows * samples)
        finally:
            self.train(before)
        return paste_known(observation, made).expand(-1, seeds.shape[1], -1, -1, -1)

    def _drawn(self, pixels: Tensor, known: Tensor, seeds: Tensor, made: Tensor) -> Iterator[tuple[int, int]]:
        """Fill `made` with completions, and yield how many observations and samples of each were made at a time."""
        count, n = seeds.shape

        def draw(rows: slice, samples: slice, code: Code) -> tuple[int, int]:
            some = seeds[rows, samples]
            repeated = tuple(part.repeat_interleave(some.shape[1], dim=0) for part in code)
            noise = SeededNoise([seed % 2**64 for seed in some.flatten().tolist()])
            images = self.decode(repeated, noise)
            if not bool(torch.isfinite(images).all()):
                raise ValueError(
                    f"pixels of a completion are NaN or infinite: the weights of this {self.title} are damaged, or its "
                    "training has diverged; use another model file"
                )
            made[rows, samples] = to_uint8(images).view_as(made[rows, samples])
            return len(some), some.shape[1]

        if self.device.type != "cpu":
            encoded: tuple[slice, Code] | None = None
            for rows, samples in chunks(count, n, max(1, self.pixels_at_once // self.image_size**2)):
                # As in training. Other devices than CUDA compute in float32.
                with torch.autocast("cuda", torch.bfloat16, enabled=self.device.type == "cuda"):
                    if encoded is None or encoded[0] != rows:
                        encoded = rows, self.encode(pixels[rows], known[rows])
                    made_now = draw(rows, samples, encoded[1])
                yield made_now
            return

        # On a CPU, numbers round differently if the number of images or of threads changes. So each observation is
        # encoded by itself, and samples are drawn in blocks of a fixed size, each in one thread.
        def one(b: int) -> tuple[int, int]:
            with torch.inference_mode():
                row = slice(b, b + 1)
                code = self.encode(pixels[row], known[row])
                for first in range(0, n, SAMPLES_PER_BLOCK):
                    draw(row, slice(first, min(first + SAMPLES_PER_BLOCK, n)), code)
            return 1, n

        with on_workers(count) as each:
            yield from each(one, range(count))

    def _check(self, observation: Observation) -> None:
        size = self.image_size
        if observation.known is None or observation.pixels is None:
            raise ValueError(
                f"{self.title} completes images with holes, but this observation has no known pixels: give an image "
                "and its known pixels"
            )
        if observation.pixels.shape[1:] != (self.channels, size, size):
            found = " x ".join(map(str, observation.pixels.shape[1:]))
            raise ValueError(
                f"the observation is {found} (channels x height x width), but {self.title} needs "
                f"{self.channels} x {size} x {size}"
            )
        observation.check_values()


class CompleterLoss(nn.Module, ABC):
    """The losses that train a completer. It contains the completer, and networks that only training needs.

    If there is a critic (the discriminators of a GAN), every training step first updates the critic with
    `critic_loss`, and then the completer with `forward`.
    """

    completer: LearnedCompleter
    critic: nn.Module | None
    figures: tuple[str, ...]
    """The names of the parts of the loss, for the log."""
    critic_figures: tuple[str, ...] = ()
    completes: ClassVar[bool] = True
    """Whether this loss trains the last part of the completer. In earlier stages of a training, completions mean
    nothing, and evaluations on held-out images report the loss."""

    def __init__(self) -> None:
        super().__init__()
        self.critic = None

    @abstractmethod
    def forward(self, x: Tensor, known: Tensor, noise: Noise) -> Losses:
        """Return the loss of the completer. x: whole images [B, C, H, W] in [-1, 1]. known: [B, 1, H, W] bool."""

    def critic_loss(self, x: Tensor, known: Tensor, noise: Noise) -> Losses:
        """Return the loss of the critic, with completions that carry no gradient."""
        raise NotImplementedError

    def of_batch(self, x: Tensor, known: Tensor, generator: torch.Generator, *, critic: bool = False) -> Losses:
        """Return the loss of the completer, or of the critic, with random numbers from a generator."""
        compute = self.critic_loss if critic else self.forward
        return compute(x, known, as_noise(generator))


@contextmanager
def without_gradients(module: nn.Module) -> Iterator[None]:
    """Context in which gradients pass through a module, but its own weights get none."""
    trained = [parameter for parameter in module.parameters() if parameter.requires_grad]
    for parameter in trained:
        parameter.requires_grad_(False)
    try:
        yield
    finally:
        for parameter in trained:
            parameter.requires_grad_(True)


class FloatBatchNorm(nn.BatchNorm2d):
    """BatchNorm without torch's counter of batches, so that all values of a model are floating-point numbers."""

    def __init__(self, channels: int) -> None:
        super().__init__(channels)
        self.num_batches_tracked = None

    def _load_from_state_dict(self, *arguments: Any) -> None:
        nn.Module._load_from_state_dict(self, *arguments)  # torch's own version adds the counter


def batch_norm(channels: int) -> nn.BatchNorm2d:
    """Make a BatchNorm whose state can be stored in a model file."""
    return FloatBatchNorm(channels)
