"""Completions of images: K of them for an observation, with the known pixels as they were; and of image files."""

from collections.abc import Sequence
from pathlib import Path
from typing import Literal, TypeAlias

import numpy as np
import torch
from PIL import Image, UnidentifiedImageError
from torch import Tensor

from condvae import pixels
from condvae.batch import Batch
from condvae.checks import check_whole
from condvae.data.decode import decode
from condvae.observe import Observation
from condvae.partial import ConditionalVAE
from condvae.pictures import to_pil
from condvae.sample import Pixels, Temperature, chunks, sample_conditional, seeds_from
from condvae.sheets import conditional_sheet

Half: TypeAlias = Literal["left", "right", "top", "bottom"]
Box: TypeAlias = tuple[int, int, int, int]
"""x, y, width, height in pixels of the model's images."""

_PIXELS_AT_ONCE = 2**17
"""Pixels of all images computed together."""


def completions(
    model: ConditionalVAE,
    observation: Observation,
    n: int,
    *,
    seed: int = 0,
    temperature: Temperature = 1.0,
    pixels: Pixels = "mean",
) -> Tensor:
    """[B, n, C, H, W] in [-1, 1]: completion k of observation b depends on (seed, b, k) alone.

    In chunks, so that memory stays bounded. `sampler.Sampler` is faster for many.
    """
    check_whole(n, "the number of samples", least=1)
    config = model.artifact.config
    shape = (config.channels, config.image_size, config.image_size)
    made = torch.empty(len(observation), n, *shape, dtype=observation.y.dtype, device=observation.y.device)
    for rows, columns in chunks(len(observation), n, max(1, _PIXELS_AT_ONCE // config.image_size**2)):
        some, k = observation[rows], columns.stop - columns.start
        noise = seeds_from(seed, k, observations=range(rows.start, rows.stop), first=columns.start)
        samples = sample_conditional(model, some, k, noise=noise, temperature=temperature, pixels=pixels)
        made[rows, columns] = some.paste(samples.images, n=k).view(len(some), k, *shape)
    return made


def complete_files(
    model: ConditionalVAE,
    paths: Sequence[Path],
    out: Path,
    *,
    n: int,
    seed: int,
    temperature: float,
    box: Box | None = None,
    half: Half | None = None,
) -> Path:
    """Complete image files, cropped and resized to the model's size; writes single files and returns a contact sheet.

    A box or a half is hidden; without either, what the model was trained to observe is drawn.
    """
    batch = Batch(x=read_files(paths, channels=model.artifact.config.channels, size=model.artifact.config.image_size))
    observation = _observe(model, batch, seed, box, half)
    made = completions(model, observation, n, seed=seed, temperature=temperature)
    out.mkdir(parents=True, exist_ok=True)
    for i, path in enumerate(paths):
        for k in range(n):
            to_pil(pixels.to_uint8(made[i, k])).save(out / f"{i + 1:03}-{path.stem}-{k + 1}.png")
    sheet = out / "sheet.png"
    conditional_sheet(model, batch, observation, made).save(sheet)
    return sheet


def read_files(paths: Sequence[Path], *, channels: int, size: int) -> Tensor:
    """[B, channels, size, size] in [-1, 1]."""
    if not paths:
        raise ValueError("no images were given: name at least one file")
    arrays = []
    for path in paths:
        try:
            with path.open("rb") as file:
                arrays.append(decode(file, channels=channels, size=size))
        except UnidentifiedImageError:
            raise ValueError(f"{path} is no image, or is cut short") from None
        except OSError as error:
            raise ValueError(f"{path} cannot be read: {error.strerror or error}") from error
        except (Image.DecompressionBombError, SyntaxError, ValueError) as error:
            raise ValueError(f"{path} is no image that can be read: {error}") from error
    return pixels.from_uint8(torch.from_numpy(np.stack(arrays)).permute(0, 3, 1, 2))


def hidden_region(size: int, *, box: Box | None = None, half: Half | None = None) -> Tensor:
    """[1, 1, size, size] bool, True where known: all but a box, or but a half."""
    middle = size // 2
    halves: dict[str, Box] = {
        "left": (0, 0, middle, size),
        "right": (middle, 0, size - middle, size),
        "top": (0, 0, size, middle),
        "bottom": (0, middle, size, size - middle),
    }
    if (box is None) == (half is None):
        raise ValueError("say what is hidden: a box or a half, one of them")
    x, y, width, height = box if box is not None else halves[str(half)]
    if min(x, y) < 0 or min(width, height) < 1 or x + width > size or y + height > size:
        raise ValueError(
            f"the box {x},{y},{width},{height} does not lie in the model's {size} x {size} pixels: "
            "give x,y,width,height within them"
        )
    known = torch.ones(1, 1, size, size, dtype=torch.bool)
    known[:, :, y : y + height, x : x + width] = False
    return known


def _observe(model: ConditionalVAE, batch: Batch, seed: int, box: Box | None, half: Half | None) -> Observation:
    config, process = model.artifact.config, model.process
    if box is None and half is None:
        if process is None:
            raise ValueError("this model does not say what it observes: give a box or a half to hide")
        check_whole(seed, "the seed")
        generator = torch.Generator().manual_seed(seed)
        return process.observe(batch, normalise=model.artifact.normalise, generator=generator)
    if model.partial_config.channels != config.channels + 1:
        raise ValueError("this model was not trained to complete images, so no box or half can be hidden")
    known = hidden_region(config.image_size, box=box, half=half).expand(len(batch), -1, -1, -1)
    return model.observe(batch.x, known)
