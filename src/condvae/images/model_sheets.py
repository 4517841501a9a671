"""Contact sheets of a model's samples, reconstructions and completions."""

from typing import Literal

import torch
from PIL import Image
from torch import Tensor

from condvae.images.contact_sheet import ColumnHeading, HeatColumn, contact_sheet, heat_map
from condvae.observe import Observation
from condvae.observe.batch import Batch
from condvae.runtime import pixels
from condvae.sampling.plain import reconstruct, sample_prior, seeds_from
from condvae.vdvae import VDVAE, VDVAEConfig

_UNKNOWN = 0.2  # the grey that is shown for hidden pixels, in [-1, 1]
_LARGEST_SPREAD = 51  # standard deviation that is shown as white, in grey levels
SHOWN = 8
"""Maximum number of completions that a contact sheet shows for one image."""


def unconditional_sheet(vae: VDVAE, x: Tensor) -> Image.Image:
    """Make a contact sheet with one row for each image of x, [B, C, H, W].

    A row shows the image, its reconstruction, and unconditional samples: three at temperature 1, and three at
    temperature 0.85 with mean pixel values.
    """
    rows, each = len(x), 3
    back = reconstruct(vae, x, noise=seeds_from(0, 1, observations=range(rows)), check=False).images
    noise = seeds_from(1, each, observations=range(rows))
    samples = sample_prior(vae, rows * each, noise=noise, check=False).images
    calm = sample_prior(vae, rows * each, noise=noise, temperature=0.85, pixels="mean", check=False).images
    table = [
        [x[i], back[i], *samples[i * each : (i + 1) * each], *calm[i * each : (i + 1) * each]] for i in range(rows)
    ]
    return contact_sheet(
        [[pixels.to_uint8(tile) for tile in row] for row in table],
        ["original", "rebuilt", *["sample"] * each, *["T 0.85, mean"] * each],
    )


def conditional_sheet(batch: Batch, observed: Tensor, completions: Tensor) -> Image.Image:
    """Make a contact sheet with one row per image: original, observation, completions, their mean and uncertainty.

    observed: the observations as images, [B, C, H, W] in [-1, 1], from `visible`. completions: [B, n, C, H, W] uint8.
    """
    x, seen = (pixels.to_uint8(images) for images in (batch.x, observed))
    rows = [completion_row(*tiles) for tiles in zip(x, seen, completions, strict=True)]
    return contact_sheet(rows, completion_columns(completions.shape[1]))


def completion_row(original: Tensor, observed: Tensor, completions: Tensor) -> list[Tensor]:
    """Return the pictures of one row of a contact sheet, each [C, H, W] uint8.

    They are the original, the observation, the first few of the completions [n, C, H, W], and the mean and standard
    deviation of all completions. One completion has no spread, so these two are left out.
    """
    if len(completions) == 1:
        return [original, observed, *completions]
    levels = completions.double()
    mean, spread = levels.mean(dim=0).round().to(torch.uint8), levels.std(dim=0, correction=0).mean(dim=0)
    heat = heat_map(spread.float(), largest=_LARGEST_SPREAD)
    return [original, observed, *completions[:SHOWN], mean, heat]


def completion_columns(n: int, *, first: Literal["original", "input"] = "original") -> list[ColumnHeading]:
    """Return the column headings of a sheet with n completions per image.

    first: what the first column shows, the original image or the picture that was given to a translation model.
    """
    numbered = [f"completion {k + 1}" for k in range(min(n, SHOWN))]
    if n == 1:
        return [first, "observed", *numbered]
    spread = HeatColumn(label="uncertainty", lowest="std 0", highest=f"{_LARGEST_SPREAD}+")
    return [first, "observed", *numbered, f"mean of {n}", spread]


def visible(observation: Observation, config: VDVAEConfig | None = None) -> Tensor:
    """Convert an observation to images [B, C, H, W] in [-1, 1]; observations such as labels become uniform grey.

    config: the configuration of the artifact, if the observation may have no known pixels.
    """
    if observation.known is not None and observation.pixels is not None:
        return torch.where(observation.known, observation.pixels, _UNKNOWN)
    assert config is not None
    batch, channels, height, width = observation.y.shape
    if channels not in (1, config.channels):
        return observation.y.new_full((batch, config.channels, height, width), _UNKNOWN)
    levels = observation.y / config.normalisation.scale - config.normalisation.shift
    return (levels / 127.5 - 1).clamp(-1, 1).expand(-1, config.channels, -1, -1)
