"""Contact sheets of a model: what the numbers cannot show."""

import torch
from PIL import Image
from torch import Tensor

from condvae import pixels
from condvae.batch import Batch
from condvae.observe import Observation
from condvae.partial import ConditionalVAE
from condvae.pictures import contact_sheet, heat_map
from condvae.sample import reconstruct, sample_prior, seeds_from
from condvae.vdvae import VDVAE

_UNKNOWN = 0.2  # the grey of unknown pixels
_LARGEST_SPREAD = 0.4  # standard deviation that is shown as white


def unconditional_sheet(vae: VDVAE, x: Tensor) -> Image.Image:
    """For images [B, C, H, W]: each and its reconstruction, then samples as they are and calmer ones."""
    rows, each = len(x), 3
    back = reconstruct(vae, x, noise=seeds_from(0, 1, observations=range(rows))).images
    noise = seeds_from(1, each, observations=range(rows))
    samples = sample_prior(vae, rows * each, noise=noise).images
    calm = sample_prior(vae, rows * each, noise=noise, temperature=0.85, pixels="mean").images
    table = [
        [x[i], back[i], *samples[i * each : (i + 1) * each], *calm[i * each : (i + 1) * each]] for i in range(rows)
    ]
    return contact_sheet(
        [[pixels.to_uint8(tile) for tile in row] for row in table],
        ["original", "rebuilt", *["sample"] * each, *["t .85, mean"] * each],
    )


def conditional_sheet(
    model: ConditionalVAE, batch: Batch, observation: Observation, completions: Tensor
) -> Image.Image:
    """For each image: itself, what was observed, its completions ([B, n, C, H, W]) and their mean."""
    rows, n = completions.shape[:2]
    seen = visible(model.artifact, observation)
    pictures = [[batch.x[i], seen[i], *completions[i], completions[i].mean(0)] for i in range(rows)]
    spread = completions.std(dim=1, correction=0).mean(dim=1)
    table = [[*(pixels.to_uint8(tile) for tile in row), spread_map(spread[i])] for i, row in enumerate(pictures)]
    columns = ["original", "observed", *(f"completion {k + 1}" for k in range(n)), f"mean of {n}", "spread"]
    return contact_sheet(table, columns)


def spread_map(spread: Tensor) -> Tensor:
    """Standard deviations [H, W], of values in [-1, 1], as a picture [3, H, W] uint8."""
    return heat_map(spread, largest=_LARGEST_SPREAD)


def visible(vae: VDVAE, observation: Observation) -> Tensor:
    """An observation as images [B, C, H, W] in [-1, 1]; plain grey where it is no picture, as with a label."""
    if observation.known is not None and observation.pixels is not None:
        return torch.where(observation.known, observation.pixels, _UNKNOWN)
    batch, channels, height, width = observation.y.shape
    if channels not in (1, vae.config.channels):
        return observation.y.new_full((batch, vae.config.channels, height, width), _UNKNOWN)
    normalisation = vae.config.normalisation
    levels = observation.y / normalisation.scale - normalisation.shift
    return (levels / 127.5 - 1).clamp(-1, 1).expand(-1, vae.config.channels, -1, -1)
