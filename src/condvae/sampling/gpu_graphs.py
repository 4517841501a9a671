"""Draw completions on a GPU. y is encoded once, and samples are drawn in chunks, which bounds the memory.

Networks run as fused half-precision kernels where possible. The work for each chunk is replayed as a CUDA graph.
"""

import contextlib
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

from condvae.conditional import ConditionalVAE
from condvae.kernels.cuda_graphs import reason, record, run_on
from condvae.noise import DeviceSeeds
from condvae.observe.observation import Observation
from condvae.runtime.pixels import to_uint8
from condvae.sampling.degenerate import Flaws, far_outside, find_flaws
from condvae.sampling.plain import PixelChoice, chunks
from condvae.vdvae.encoder import Posterior

_PIXELS_AT_ONCE = 2**17
"""Maximum number of pixels in a chunk, summed over its images; this bounds the memory."""
_SHAPES_KEPT = 4
"""Maximum number of chunk shapes whose CUDA graphs are kept; the least recently used one is dropped."""


class GPUGraphs:
    """Draws completions of a model on its GPU."""

    def __init__(
        self,
        model: ConditionalVAE,
        *,
        dtype: torch.dtype,
        chunk: int | None,
        fused: bool,
        record: bool,
        say: Callable[[str], None] | None,
    ) -> None:
        """Prepare the model for sampling.

        dtype: the precision. chunk: maximum number of samples in a chunk. fused: whether to use fused kernels.
        record: whether to use CUDA graphs. say: receives a message if recording a graph fails.
        """
        # Kernels need this layout; on other devices it would gain nothing and change the rounding.
        self.model: ConditionalVAE = model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.dtype, self.record, self.say = dtype, record, say or (lambda message: None)
        self.chunk = chunk or max(1, _PIXELS_AT_ONCE // model.artifact.config.image_size**2)
        self.fused = None
        if fused:
            from condvae.kernels.fused_vdvae import Fused  # imported here because it needs Triton

            self.fused = Fused(model, dtype)
        self._shapes: OrderedDict[tuple[int, int, PixelChoice], Chunk] = OrderedDict()

    def __call__(
        self, observation: Observation, seeds: Tensor, temperatures: list[float], pixels: PixelChoice
    ) -> tuple[Tensor, Flaws]:
        """Draw samples [B, n, C, H, W] uint8 for seeds [B, n]; also return their flaws, [B, n]."""
        config, device = self.model.artifact.config, self.model.device
        observations, n = seeds.shape
        pieces = list(chunks(observations, n, self.chunk))
        largest, most = pieces[0]
        chunk = self._chunk(largest.stop, most.stop, pixels)
        shape = (config.channels, config.image_size, config.image_size)
        images = torch.empty(*seeds.shape, *shape, dtype=torch.uint8, device=device)
        flaws = Flaws(*(torch.zeros(*seeds.shape, dtype=torch.bool, device=device) for _ in Flaws._fields))
        chunk.set_temperatures(temperatures)
        for rows, columns in pieces:
            if columns.start == 0:
                chunk.encode(observation[rows])
            images[rows, columns], found = chunk.decode(seeds[rows, columns])
            for place, values in zip(flaws, found, strict=True):
                place[rows, columns] = values
        return images, flaws

    def _chunk(self, observations: int, samples: int, pixels: PixelChoice) -> "Chunk":
        key = (observations, samples, pixels)
        if key not in self._shapes:
            while len(self._shapes) >= _SHAPES_KEPT:
                self._shapes.popitem(last=False)
            self._shapes[key] = Chunk(self, *key)
        self._shapes.move_to_end(key)
        return self._shapes[key]

    @contextmanager
    def computing(self) -> Iterator[None]:
        """Inside the `with` block, the model computes in the precision `dtype`, and with fused kernels if enabled."""
        half = self.dtype != torch.float32
        with contextlib.ExitStack() as stack:
            stack.enter_context(torch.autocast("cuda", self.dtype if half else None, enabled=half))
            if self.fused:
                stack.enter_context(self.fused.attached())
            yield


class Chunk:
    """Draws samples for a fixed number of observations, with a fixed number of samples each.

    It keeps the buffers for inputs and outputs, and the CUDA graphs that read and write them.
    """

    def __init__(self, owner: GPUGraphs, observations: int, samples: int, pixels: PixelChoice) -> None:
        model, device = owner.model, owner.model.device
        config = model.artifact.config
        self.owner, self.pixels = owner, pixels
        self.observations, self.samples = observations, samples
        shape = (config.image_size, config.image_size)
        self.y = torch.zeros(observations, model.partial_config.channels, *shape, device=device)
        self.known = torch.zeros(observations, 1, *shape, dtype=torch.bool, device=device)
        self.given = torch.zeros(observations, config.channels, *shape, device=device)
        self.seeds = torch.zeros(observations * samples, dtype=torch.int64, device=device)
        self.temperature = torch.ones(len(config.group_stages), device=device)
        self.limit = torch.ones((), device=device)
        self._temperatures: list[float] = []
        self.graphs: list[torch.cuda.CUDAGraph] = []
        if owner.record:
            stream = torch.cuda.Stream(device)
            works = (self._encode, self._decode)
            try:
                for work in works:
                    run_on(stream, work)
                self.graphs = record(works, stream)
            except RuntimeError as error:
                owner.record = False
                owner.say(f"samples are drawn without a CUDA graph, because recording failed: {reason(error)}")

    def set_temperatures(self, temperatures: list[float]) -> None:
        """Set the temperatures, one per latent group."""
        if temperatures != self._temperatures:
            self.temperature.copy_(torch.tensor(temperatures))
            self.limit.fill_(far_outside(self.owner.model.artifact.likelihood, temperatures))
            self._temperatures = list(temperatures)

    def encode(self, observation: Observation) -> None:
        """Encode observations. If there are fewer than the chunk size, the last one is repeated to fill the buffers."""
        n = len(observation)

        def put(place: Tensor, values: Tensor | None) -> None:
            if values is None:
                place.zero_()
                return
            place[:n].copy_(values)
            if n < len(place):
                place[n:].copy_(place[n - 1 : n].expand_as(place[n:]))

        put(self.y, observation.y)
        put(self.known, observation.known if observation.pixels is not None else None)
        put(self.given, observation.pixels)
        if self.graphs:
            self.graphs[0].replay()
        else:
            self._encode()

    def decode(self, seeds: Tensor) -> tuple[Tensor, Flaws]:
        """Draw samples [b, k, C, H, W] uint8 for seeds [b, k]; also return their flaws, [b, k].

        b and k may be smaller than the numbers that the chunk holds, but not larger.
        """
        b, k = seeds.shape
        if (b, k) != (self.observations, self.samples):
            places = torch.zeros(self.observations, self.samples, dtype=torch.int64)
            places[:b, :k] = seeds
            seeds = places
        self.seeds.view(self.observations, self.samples).copy_(seeds)
        if self.graphs:
            self.graphs[1].replay()
        else:
            self._decode()
        images = self.images.view(self.observations, self.samples, *self.images.shape[1:])
        flaws = Flaws(*(found.view(self.observations, self.samples)[:b, :k] for found in self.flaws))
        return images[:b, :k], flaws

    def _encode(self) -> None:
        with self.owner.computing():
            observation = Observation(y=self.y.contiguous(memory_format=torch.channels_last))
            self.posterior: Posterior = self.owner.model.posterior(observation)

    def _decode(self) -> None:
        vae = self.owner.model.artifact
        with self.owner.computing():
            noise = DeviceSeeds(self.seeds)
            descent = vae.descend(
                self.posterior,
                batch=len(self.seeds),
                noise=noise,
                temperature=self.temperature,
                asks_prior=self.posterior.asks_prior,
            )
            parameters = vae.decoder.pixel_parameters(descent.state)
        parameters = parameters.float()
        likelihood = vae.likelihood
        images = likelihood.mean(parameters) if self.pixels == "mean" else likelihood.sample(parameters, noise)
        known, given = (part.repeat_interleave(self.samples, dim=0) for part in (self.known, self.given))
        self.flaws = find_flaws(likelihood, parameters, self.limit, ~known)
        self.images = to_uint8(torch.where(known, given, images))
