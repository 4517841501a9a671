"""Completions, fast: y is encoded once, any number of samples follow in chunks of bounded memory, and images leave as
grey levels. On a GPU the networks are fused kernels in float16 and every chunk is one CUDA graph; elsewhere, or where
that is not possible, they are plain torch in the precision that is faster there.
"""

import contextlib
import functools
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Literal, TypeAlias

import torch
from torch import Tensor, nn

from condvae import kernels
from condvae.conditional import ConditionalVAE
from condvae.kernels.cuda_graphs import reason, record, run_on
from condvae.noise import DeviceSeeds
from condvae.observe.observation import Observation
from condvae.runtime.checks import check_choice, check_whole
from condvae.runtime.pixels import to_uint8
from condvae.sampling.plain import PixelChoice, Temperature, chunks, sample_conditional, seeds_from
from condvae.vdvae.encoder import Posterior

if TYPE_CHECKING:
    from condvae.kernels.fused_vdvae import Fused

SamplingPrecision: TypeAlias = Literal["fp32", "fp16", "bf16"]
_DTYPES = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}

_PIXELS_AT_ONCE = {"cuda": 2**17, "cpu": 2**15}
"""Pixels of all images of a chunk, which bound the memory."""
_GRAPHS = 4
"""Shapes whose graphs are kept."""


class Sampler:
    """Draws completions from a conditional model as it is now: make a new one after the weights have changed.

    precision: auto is float16 with kernels; on a CPU, whichever of float32 and bfloat16 proves faster.
    chunk: samples computed together.
    """

    def __init__(
        self,
        model: ConditionalVAE,
        *,
        precision: Literal["auto"] | SamplingPrecision = "auto",
        chunk: int | None = None,
        graphs: bool = True,
        say: Callable[[str], None] | None = None,
    ) -> None:
        check_choice(precision, "the precision", ("auto", *_DTYPES))
        if chunk is not None:
            check_whole(chunk, "the chunk", least=1)
        self.device = model.artifact.decoder.gain.device
        if self.device.type == "cuda":  # what kernels want; elsewhere it gains nothing, and would change rounding
            model = model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.model = model
        fits = kernels.available(self.device) and model.artifact.decoder.gain.dtype == torch.float32
        if precision == "auto":
            precision = "fp16" if fits else faster_precision(model) if self.device.type == "cpu" else "fp32"
        self.precision: SamplingPrecision = precision
        size = model.artifact.config.image_size
        at_once = _PIXELS_AT_ONCE.get(self.device.type, _PIXELS_AT_ONCE["cpu"])
        self.chunk = chunk or max(1, at_once // size**2)
        self.fused = self._fuse() if fits and precision != "fp32" else None
        self.say = say or (lambda message: None)
        self.graphs = graphs and self.device.type == "cuda"
        self._shapes: OrderedDict[tuple[int, int, PixelChoice], _Chunk] = OrderedDict()

    def _fuse(self) -> "Fused":
        from condvae.kernels.fused_vdvae import Fused  # late: it needs Triton

        return Fused(self.model, _DTYPES[self.precision])

    @torch.inference_mode()
    def __call__(
        self,
        observation: Observation,
        n: int = 1,
        *,
        seed: int = 0,
        temperature: Temperature = 1.0,
        pixels: PixelChoice = "sample",
        places: Sequence[int] | None = None,
    ) -> Tensor:
        """[B, n, C, H, W] uint8 on the model's device, known pixels as they were.

        Completion k of observation b depends on (seed, b, k) alone, up to rounding. places: what stands for b in that,
        where these observations are some of many; 0, 1, ... if not given.
        """
        check_choice(pixels, "pixels", ("sample", "mean"))
        check_whole(n, "the number of samples", least=1)
        observation.check_values()
        observation = observation.to(self.device)
        count, config = len(observation), self.model.artifact.config
        places = tuple(range(count)) if places is None else tuple(map(int, places))
        if len(places) != count:
            raise ValueError(f"{len(places)} places were given for {count} observations, expected one for each")
        seeds = _seeds(seed, n, places)
        pieces = list(chunks(count, n, self.chunk))
        largest, most = pieces[0]
        chunk = self._chunk(largest.stop, most.stop, pixels)
        shape = (config.channels, config.image_size, config.image_size)
        out = torch.empty(count, n, *shape, dtype=torch.uint8, device=self.device)
        sound = torch.ones(count, n, dtype=torch.bool, device=self.device)
        chunk.heat(tuple(float(t) for t in self.model.artifact.per_group(temperature)))
        for rows, columns in pieces:
            if columns.start == 0:
                chunk.encode(observation[rows])
            images, finite = chunk.decode(seeds[rows, columns])
            out[rows, columns], sound[rows, columns] = images, finite
        if not bool(sound.all()):
            self._draw_again(observation, out, ~sound, seed, places, temperature, pixels)
        return out

    def _draw_again(
        self,
        observation: Observation,
        out: Tensor,
        which: Tensor,
        seed: int,
        places: Sequence[int],
        temperature: Temperature,
        pixels: PixelChoice,
    ) -> None:
        """What left the range of half precision, in full."""
        for b, k in which.nonzero().tolist():
            one = observation[b : b + 1]
            noise = seeds_from(seed, 1, observations=[places[b]], first=k)
            images = sample_conditional(self.model, one, noise=noise, temperature=temperature, pixels=pixels).images
            out[b, k] = to_uint8(one.paste(images))[0]

    def _chunk(self, observations: int, samples: int, pixels: PixelChoice) -> "_Chunk":
        key = (observations, samples, pixels)
        if key not in self._shapes:
            while len(self._shapes) >= _GRAPHS:
                self._shapes.popitem(last=False)
            self._shapes[key] = _Chunk(self, *key)
        self._shapes.move_to_end(key)
        return self._shapes[key]

    @contextmanager
    def computing(self) -> Iterator[None]:
        """Inside, the model computes in this precision, with kernels where there are some."""
        half = self.precision != "fp32"
        with contextlib.ExitStack() as stack:
            stack.enter_context(
                torch.autocast(self.device.type, _DTYPES[self.precision] if half else None, enabled=half)
            )
            if self.fused:
                stack.enter_context(self.fused.attached())
            yield


class _Chunk:
    """So many observations with so many samples each: places for what goes in and out, and the graphs between them."""

    def __init__(self, sampler: Sampler, observations: int, samples: int, pixels: PixelChoice) -> None:
        model, device = sampler.model, sampler.device
        config = model.artifact.config
        self.sampler, self.pixels = sampler, pixels
        self.observations, self.samples = observations, samples
        shape = (config.image_size, config.image_size)
        self.y = torch.zeros(observations, model.partial_config.channels, *shape, device=device)
        self.known = torch.zeros(observations, 1, *shape, dtype=torch.bool, device=device)
        self.given = torch.zeros(observations, config.channels, *shape, device=device)
        self.seeds = torch.zeros(observations * samples, dtype=torch.int64, device=device)
        self.temperature = torch.ones(len(config.group_stages), device=device)
        self._heat: tuple[float, ...] = ()
        self.graphs: list[torch.cuda.CUDAGraph] = []
        if sampler.graphs:
            stream = torch.cuda.Stream(device)
            works = (self._encode, self._decode)
            try:
                for work in works:
                    run_on(stream, work)
                self.graphs = record(works, stream)
            except RuntimeError as error:
                sampler.graphs = False
                sampler.say(f"samples are drawn operation by operation, without a CUDA graph: {reason(error)}")

    def heat(self, temperatures: tuple[float, ...]) -> None:
        """Take in one temperature for each group of latents."""
        if temperatures != self._heat:
            self.temperature.copy_(torch.tensor(temperatures))
            self._heat = temperatures

    def encode(self, observation: Observation) -> None:
        """Take in observations; if they are fewer than there are places, the last stands for the others."""
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

    def decode(self, seeds: Tensor) -> tuple[Tensor, Tensor]:
        """Samples [b, k, C, H, W] for seeds [b, k], at most as many as there are places; and which are finite."""
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
        return images[:b, :k], self.finite.view(self.observations, self.samples)[:b, :k]

    def _encode(self) -> None:
        with self.sampler.computing():
            observation = Observation(y=self.y.contiguous(memory_format=torch.channels_last))
            self.posterior: Posterior = self.sampler.model.posterior(observation)

    def _decode(self) -> None:
        vae = self.sampler.model.artifact
        with self.sampler.computing():
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
        self.finite = torch.isfinite(parameters).flatten(1).all(dim=1)
        known, given = (part.repeat_interleave(self.samples, dim=0) for part in (self.known, self.given))
        self.images = to_uint8(torch.where(known, given, images))


@functools.lru_cache(maxsize=16)
def _seeds(seed: int, n: int, places: tuple[int, ...]) -> Tensor:
    """[observations, n] int64: those of `seeds_from`."""
    return seeds_from(seed, n, observations=places).on(torch.device("cpu")).view(len(places), n)


@torch.inference_mode()
def faster_precision(model: nn.Module) -> SamplingPrecision:
    """Which of float32 and bfloat16 this CPU convolves faster in, tried on the model's largest 3x3 convolution."""
    layers = [m for m in model.modules() if isinstance(m, nn.Conv2d) and m.kernel_size == (3, 3)]
    if not layers:
        return "fp32"
    layer = max(layers, key=lambda m: m.in_channels * m.out_channels)
    took: dict[SamplingPrecision, float] = {}
    candidates: tuple[SamplingPrecision, SamplingPrecision] = ("fp32", "bf16")
    for precision in candidates:
        x = torch.randn(2, layer.in_channels, 32, 32).to(_DTYPES[precision], memory_format=torch.channels_last)
        weight, bias = (None if p is None else p.to(x.dtype) for p in (layer.weight, layer.bias))
        assert weight is not None
        times = []
        for _ in range(4):
            begin = time.perf_counter()
            torch.nn.functional.conv2d(x, weight, bias, padding=1)
            times.append(time.perf_counter() - begin)
        took[precision] = min(times[1:])
    return min(candidates, key=lambda precision: took[precision])
