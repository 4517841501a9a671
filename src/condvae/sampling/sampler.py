"""The one entry point from a model and observations to completions, with two back ends behind it.

A GPU draws by fused kernels in float16, one CUDA graph for each chunk (`gpu_graphs`). Everything else is plain torch
(`plain_blocks`), on a CPU with the same bits for a sample whatever else is drawn. Images leave as grey levels, known
pixels as they were.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Literal, TypeAlias

import torch
from torch import Tensor

from condvae import kernels
from condvae.conditional import ConditionalVAE
from condvae.noise import SeededNoise
from condvae.observe.observation import Observation
from condvae.runtime.checks import check_choice, check_whole
from condvae.runtime.pixels import to_uint8
from condvae.sampling.gpu_graphs import GPUGraphs
from condvae.sampling.plain import PixelChoice, sample_conditional, seeds_from
from condvae.sampling.plain_blocks import PlainBlocks
from condvae.sampling.unconditional import groups_down_to
from condvae.vdvae.temperature import TemperatureLike, per_group

SamplingPrecision: TypeAlias = Literal["fp32", "fp16", "bf16"]
_DTYPES = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}


class Sampler:
    """Draws completions from a conditional model as it is now: make a new one after the weights have changed.

    precision: auto is float16 where kernels run and float32 elsewhere, so that runs on a CPU agree.
    chunk: samples computed together, which bounds memory.
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
        self.model, self.device = model, model.device
        kernels_fit = kernels.available(self.device) and model.artifact.decoder.gain.dtype == torch.float32
        if precision == "auto":
            precision = "fp16" if kernels_fit else "fp32"
        self.precision: SamplingPrecision = precision
        dtype = _DTYPES[precision]
        on_gpu = self.device.type == "cuda"
        self.blocks = PlainBlocks(model, dtype=torch.float32 if on_gpu else dtype, chunk=chunk)
        self.graphs: GPUGraphs | None = None
        if on_gpu:
            fused = kernels_fit and precision != "fp32"
            self.graphs = GPUGraphs(model, dtype=dtype, chunk=chunk, fused=fused, record=graphs, say=say)

    def __call__(
        self,
        observation: Observation,
        n: int = 1,
        *,
        seed: int = 0,
        temperature: TemperatureLike = 1.0,
        pixels: PixelChoice = "mean",
        share: int | None = None,
        places: Sequence[int] | None = None,
    ) -> Tensor:
        """[B, n, C, H, W] uint8 on the model's device, known pixels as they were.

        Completion k of observation b depends on (seed, b, k) alone: bit for bit on a CPU, up to rounding on a GPU.
        share: latents at resolutions up to this are those of completion 0 in all of them.
        places: what stands for b, where these observations are some of many; 0, 1, ... if not given.
        """
        check_whole(n, "the number of samples", least=1)
        places = tuple(range(len(observation))) if places is None else tuple(map(int, places))
        if len(places) != len(observation):
            raise ValueError(
                f"{len(places)} places were given for {len(observation)} observations, expected one for each"
            )
        seeds = _seeds(seed, n, places)
        return self.draw(observation, seeds, temperature=temperature, pixels=pixels, share=share)

    @torch.inference_mode()
    def draw(
        self,
        observation: Observation,
        seeds: Tensor,
        *,
        temperature: TemperatureLike = 1.0,
        pixels: PixelChoice = "mean",
        share: int | None = None,
    ) -> Tensor:
        """As `__call__`, with a seed for each sample: [B, n], the bits of int64 on the CPU."""
        check_choice(pixels, "pixels", ("sample", "mean"))
        config = self.model.artifact.config
        temperatures = per_group(temperature, config)
        shared = 0 if share is None else groups_down_to(config, share)
        observation.check_values()
        observation = observation.to(self.device)
        if self.graphs is None or shared:
            return self.blocks(observation, seeds, temperatures, pixels, shared)
        images, finite = self.graphs(observation, seeds, temperatures, pixels)
        if not bool(finite.all()):
            self._draw_again(observation, images, ~finite, seeds, temperatures, pixels)
        return images

    def _draw_again(
        self,
        observation: Observation,
        images: Tensor,
        which: Tensor,
        seeds: Tensor,
        temperatures: list[float],
        pixels: PixelChoice,
    ) -> None:
        """What left the range of half precision, in full."""
        for b, k in which.nonzero().tolist():
            one, noise = observation[b : b + 1], SeededNoise([int(seeds[b, k]) % 2**64])
            made = sample_conditional(self.model, one, noise=noise, temperature=temperatures, pixels=pixels).images
            images[b, k] = to_uint8(one.paste(made))[0]


@functools.lru_cache(maxsize=16)
def _seeds(seed: int, n: int, places: tuple[int, ...]) -> Tensor:
    """[observations, n] int64: those of `seeds_from`."""
    return seeds_from(seed, n, observations=places).on(torch.device("cpu")).view(len(places), n)
