"""Make the pictures of translations such as edges once, before the first step, if making them is costly."""

from dataclasses import replace

import numpy as np
import torch

from condvae.data import ImageSet
from condvae.data.delivery import free_host_bytes
from condvae.observe import PictureProcess
from condvae.runtime.messages import Say
from condvae.runtime.pixels import to_uint8
from condvae.runtime.progress import track
from condvae.runtime.ranks import World
from condvae.training.task import ConditionalTraining, TrainingTask

_AT_ONCE = 256  # images whose pictures are made together
_SHARE = 3  # the pictures may take up to 1/3 of the free memory


def prepare_pictures(
    task: TrainingTask, train: ImageSet, held_out: ImageSet, world: World, warn: Say
) -> tuple[ImageSet, ImageSet]:
    """Return both sets. If the process's pictures are costly, make them now, and tell the task that batches have them.

    If they need too much memory, warn that they are made in every step.
    """
    if not isinstance(task, ConditionalTraining) or not isinstance(task.process, PictureProcess):
        return train, held_out
    process = task.process
    if not process.costly:
        return train, held_out
    made = with_pictures(train, process, world.device)
    shown = made if held_out is train else with_pictures(held_out, process, world.device)
    # A rank that lacks the memory decides for all, since all must take the same kind of steps.
    lacking = world.sum(torch.tensor(float(made is None or shown is None), device=world.device))
    if made is None or shown is None or bool(lacking):
        warn(f"the {process.name} of all images need too much memory: they are made in every step, which is slower")
        return train, held_out
    task.pictures_given = True
    return made, shown


def with_pictures(images: ImageSet, process: PictureProcess, device: torch.device) -> ImageSet | None:
    """Return the same images with their pictures as paired images, or None if these need too much memory.

    Pictures are kept as 8-bit grey levels, which is exact for lines in black and white.
    """
    first = images.take(np.arange(min(1, len(images)))).batch()
    shape = (len(images.images), *process.pictures_of(first).shape[1:])
    if int(np.prod(shape, dtype=np.int64)) > free_host_bytes() / _SHARE:
        return None
    n, channels, height, width = shape
    pictures = np.zeros((n, height, width, channels), dtype=np.uint8)
    with track(f"making {process.name}", total=len(images)) as job:
        for start in range(0, len(images), _AT_ONCE):
            some = np.arange(start, min(start + _AT_ONCE, len(images)))
            made = to_uint8(process.pictures_of(images.take(some).to(device).batch()))
            pictures[images.rows[some]] = made.permute(0, 2, 3, 1).cpu().numpy()
            job.update(len(some))
    return replace(images, paired=pictures)
