"""Draw images from a VAE without observations: samples of its prior, and images rebuilt from their latents."""

from collections.abc import Iterator

import torch
from torch import Tensor

from condvae.runtime.checks import check_whole
from condvae.runtime.pixels import to_uint8
from condvae.runtime.progress import track
from condvae.sampling.cpu_workers import SAMPLES_PER_BLOCK, on_workers
from condvae.sampling.degenerate import Flaws, check_flaws, report_flaws
from condvae.sampling.plain import DrawnImages, PixelChoice, draw, seeds_from
from condvae.vdvae.config import VDVAEConfig
from condvae.vdvae.model import VDVAE
from condvae.vdvae.temperature import TemperatureLike, per_group

_PIXELS_AT_ONCE, _IMAGES_AT_ONCE = 2**15, 16


def draw_samples(
    vae: VDVAE, n: int, *, seed: int = 0, temperature: TemperatureLike = 1.0, pixels: PixelChoice = "mean"
) -> Iterator[Tensor]:
    """Yield n unconditional images, each [C, H, W] uint8, a few at a time to bound the memory.

    Sample k depends on (seed, k) alone, bit for bit on a CPU. Raise ValueError if pixels are NaN or infinite. At the
    end, raise ValueError if all images are saturated, or warn with `DegenerateSamples` if some are.
    """
    check_whole(n, "the number of samples", least=1)
    temperatures = per_group(temperature, vae.config)

    @torch.no_grad()
    def block(first: int) -> DrawnImages:
        noise = seeds_from(seed, SAMPLES_PER_BLOCK, first=first)
        return draw(vae, None, SAMPLES_PER_BLOCK, noise, temperatures, pixels)

    flaws: list[Flaws] = []
    firsts = range(0, n, SAMPLES_PER_BLOCK)
    with on_workers(len(firsts)) as each, track("drawing", total=n) as job:
        for first, drawn in zip(firsts, each(block, firsts), strict=True):
            flaws.append(Flaws(*(found[: n - first] for found in drawn.flaws)))
            if bool(flaws[-1].broken.any()):
                check_flaws(_joined(flaws), max(temperatures))
            images = to_uint8(drawn.images[: n - first])
            job.update(len(images))
            yield from images
    report_flaws(_joined(flaws), max(temperatures))


@torch.no_grad()
def rebuild(vae: VDVAE, x: Tensor, *, groups: int | None = None, seed: int = 0, pixels: PixelChoice = "mean") -> Tensor:
    """Encode and decode images [B, C, H, W] in [-1, 1]; return the decoded images as uint8.

    groups: number of latent groups, from the coarsest on, that are encoded from the image. The finer ones are drawn
    from the prior. By default, all are encoded from the image. Raise ValueError if pixels are NaN or infinite, or if
    all images are saturated; warn with `DegenerateSamples` if some are.
    """
    vae.check(x)
    every = len(vae.config.group_stages)
    groups = every if groups is None else groups
    check_whole(groups, "the number of latent groups taken from the image")
    if groups > every:
        raise ValueError(f"{groups} latent groups were requested, but this model has {every}")
    back, flaws = [], []
    with track("rebuilding", total=len(x)) as job:
        for first, some in enumerate(x.split(chunk := _chunk(vae.config))):
            noise = seeds_from(seed, 1, observations=range(first * chunk, first * chunk + len(some)))
            drawn = draw(vae, vae.posterior(some), len(some), noise, pixels=pixels)
            if groups < every:
                drawn = draw(vae, None, len(some), noise, pixels=pixels, given=drawn.latents[:groups])
            back.append(to_uint8(drawn.images))
            flaws.append(drawn.flaws)
            job.update(len(some))
    report_flaws(_joined(flaws), temperature=1.0, what="image")
    return torch.cat(back)


def groups_down_to(config: VDVAEConfig, resolution: int) -> int:
    """Return the number of latent groups at this resolution and at all coarser ones."""
    resolutions = [stage.resolution for stage in config.group_stages]
    if resolution not in resolutions:
        there = ", ".join(str(r) for r in dict.fromkeys(resolutions))
        raise ValueError(f"this model has no latents at resolution {resolution}, only at {there}")
    return sum(r <= resolution for r in resolutions)


def _joined(flaws: list[Flaws]) -> Flaws:
    return Flaws(*(torch.cat(found) for found in zip(*flaws, strict=True)))


def _chunk(config: VDVAEConfig) -> int:
    return max(1, min(_IMAGES_AT_ONCE, _PIXELS_AT_ONCE // config.image_size**2))
