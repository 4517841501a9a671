"""How much memory a training step will want, and whether activations are therefore computed twice."""

from typing import Literal

import torch

from condvae.training.step import TrainingPrecision
from condvae.training.task import ConditionalTraining, TrainingTask

_LARGE = 256  # pixels from which activations are recomputed on a CPU
_SHARE = 0.6  # of a GPU's memory that activations may take


def activation_bytes(task: TrainingTask, images: int, *, precision: TrainingPrecision = "bf16") -> int:
    """What the backward pass needs of so many images: of every trained block GELU's argument and result before each of
    its four convolutions.
    """
    numbers = 0
    # From scratch, encoder and partial encoder are trained, with their heads.
    encoders = 2 if isinstance(task, ConditionalTraining) and task.trains_artifact else 1
    for stage in task.vae.config.stages:
        width, inner, pixels = stage.width, stage.inner, stage.resolution**2
        encoder, head = stage.encoder_blocks * (2 * width + 6 * inner), stage.groups * (2 * width + 6 * inner)
        decoder = (stage.groups + stage.decoder_blocks) * (2 * width + 6 * inner)
        numbers += pixels * (encoders * (encoder + head) + (decoder if task.needs_whole_network else 0))
    return (4 if precision == "fp32" else 2) * images * numbers


def recomputes(
    choice: Literal["auto", "yes", "no"],
    task: TrainingTask,
    images: int,
    device: torch.device,
    *,
    precision: TrainingPrecision = "bf16",
) -> bool:
    """Whether blocks keep only their inputs for the backward pass. auto: where keeping all would not fit.

    images: of one pass through the network. A third more time is the price, so a GPU with room does without.
    """
    if choice != "auto":
        return choice == "yes"
    if device.type != "cuda":
        return task.vae.config.image_size >= _LARGE
    return (
        activation_bytes(task, images, precision=precision)
        > _SHARE * torch.cuda.get_device_properties(device).total_memory
    )


def peak_gigabytes(device: torch.device) -> float | None:
    """The most memory that tensors have taken on this GPU since the process began; None where nobody counts."""
    return torch.cuda.max_memory_allocated(device) / 1e9 if device.type == "cuda" else None
