"""`Sampler` draws completions of observations with a model. It has two back ends.

On a GPU, `gpu_graphs` uses fused float16 kernels, and CUDA graphs. Otherwise, `plain_blocks` uses plain torch. On a
CPU, a sample is the same bit for bit, no matter which other samples are drawn. Images are returned as 8-bit grey
levels, and known pixels keep their values.
"""

from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple, TypeAlias

import torch
from torch import Tensor

from condvae import kernels
from condvae.conditional import ConditionalVAE
from condvae.noise import SeededNoise
from condvae.observe.observation import Observation
from condvae.runtime.checks import check_choice, check_whole
from condvae.runtime.pixels import to_uint8
from condvae.sampling.degenerate import Flaws, report_flaws
from condvae.sampling.gpu_graphs import GPUGraphs
from condvae.sampling.plain import PixelChoice, completion_seeds, draw, places_of
from condvae.sampling.plain_blocks import PlainBlocks
from condvae.sampling.unconditional import groups_down_to
from condvae.vdvae.temperature import TemperatureLike, per_group

SamplingPrecision: TypeAlias = Literal["fp32", "fp16", "bf16"]
_DTYPES = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}


class DrawnCompletions(NamedTuple):
    """The result of `Sampler.drawn`: completions, and which of them are degenerate."""

    images: Tensor
    """[B, n, C, H, W] uint8."""
    flaws: Flaws
    """Each [B, n] bool."""


class Sampler:
    """Draws completions with the present weights of a conditional model. Make a new sampler if the weights change.

    precision: "auto" means float16 if GPU kernels can run. Otherwise it means float32, so that results on CPUs agree.
    chunk: number of samples that are computed together; this bounds the memory.
    graphs: whether to use CUDA graphs on a GPU. say: receives a message if that fails.
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
        """Draw n completions per observation: [B, n, C, H, W] uint8 on the model's device.

        Known pixels keep their values. Completion k of observation b depends on (seed, b, k) alone: bit for bit on a
        CPU, up to rounding on a GPU. Raise ValueError if pixels are NaN or infinite, or if all completions are
        saturated; warn with `DegenerateSamples` if some are.
        share: a resolution. All completions of an observation then have the latents of its completion 0 at this and
        coarser resolutions, and differ only in finer latents.
        places: the number b of each observation, if they are part of a larger set; by default 0, 1, ...
        """
        check_whole(n, "the number of samples", least=1)
        seeds = completion_seeds(seed, n, places_of(places, len(observation)))
        drawn = self.drawn(observation, seeds, temperature=temperature, pixels=pixels, share=share)
        return self._without_flaws(drawn, temperature)

    def draw(
        self,
        observation: Observation,
        seeds: Tensor,
        *,
        temperature: TemperatureLike = 1.0,
        pixels: PixelChoice = "mean",
        share: int | None = None,
    ) -> Tensor:
        """Like `__call__`, but with given seeds, one per sample.

        seeds: [B, n] int64 on the CPU, with the bits of the seeds, which are unsigned 64-bit numbers.
        """
        drawn = self.drawn(observation, seeds, temperature=temperature, pixels=pixels, share=share)
        return self._without_flaws(drawn, temperature)

    def _without_flaws(self, drawn: DrawnCompletions, temperature: TemperatureLike) -> Tensor:
        """Return the images; raise ValueError or warn if some are degenerate. Call this from a public method."""
        hottest = max(per_group(temperature, self.model.artifact.config))
        report_flaws(drawn.flaws, hottest, what="completion", stacklevel=3)
        return drawn.images

    @torch.inference_mode()
    def drawn(
        self,
        observation: Observation,
        seeds: Tensor,
        *,
        temperature: TemperatureLike = 1.0,
        pixels: PixelChoice = "mean",
        share: int | None = None,
    ) -> DrawnCompletions:
        """Like `draw`, but return degenerate completions, too, and say which ones they are."""
        check_choice(pixels, "pixels", ("sample", "mean"))
        config = self.model.artifact.config
        temperatures = per_group(temperature, config)
        shared = 0 if share is None else groups_down_to(config, share)
        observation.check_values()
        observation = observation.to(self.device)
        if self.graphs is None or shared:
            return DrawnCompletions(*self.blocks(observation, seeds, temperatures, pixels, shared))
        drawn = DrawnCompletions(*self.graphs(observation, seeds, temperatures, pixels))
        if bool(drawn.flaws.broken.any()):
            self._draw_again(observation, drawn, seeds, temperatures, pixels)
        return drawn

    def _draw_again(
        self,
        observation: Observation,
        drawn: DrawnCompletions,
        seeds: Tensor,
        temperatures: list[float],
        pixels: PixelChoice,
    ) -> None:
        """Redraw in float32 the samples that are broken, as some numbers may only be too large for half precision."""
        for b, k in drawn.flaws.broken.nonzero().tolist():
            one, noise = observation[b : b + 1], SeededNoise([int(seeds[b, k]) % 2**64])
            hidden = None if one.known is None else ~one.known
            made = draw(self.model.artifact, self.model.posterior(one), 1, noise, temperatures, pixels, hidden=hidden)
            drawn.images[b, k] = to_uint8(one.paste(made.images))[0]
            for place, found in zip(drawn.flaws, made.flaws, strict=True):
                place[b, k] = found[0]
