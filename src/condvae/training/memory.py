"""Estimate the memory that activations take, and decide whether to recompute them in the backward pass."""

from typing import Literal

import torch

from condvae.training.step import TrainingPrecision
from condvae.training.task import BoundTask, ConditionalTraining

_LARGE = 256  # on a CPU, activations are recomputed for images of at least this many pixels on a side
_SHARE = 0.6  # on a GPU, activations are recomputed if they would take more than this share of its memory


def activation_bytes(task: BoundTask, images: int, *, precision: TrainingPrecision = "bf16") -> int:
    """Estimate how many bytes of activations a training step with this many images stores for the backward pass.

    Every trained block stores the input and the output of GELU before each of its four convolutions.
    """
    numbers = 0
    # Training from scratch trains two encoders: the encoder and the partial encoder, each with its heads.
    encoders = 2 if isinstance(task, ConditionalTraining) and task.trains_artifact else 1
    for stage in task.vae.config.stages:
        width, inner, pixels = stage.width, stage.inner, stage.resolution**2
        encoder, head = stage.encoder_blocks * (2 * width + 6 * inner), stage.groups * (2 * width + 6 * inner)
        decoder = (stage.groups + stage.decoder_blocks) * (2 * width + 6 * inner)
        numbers += pixels * (encoders * (encoder + head) + (decoder if task.needs_whole_network else 0))
    return (4 if precision == "fp32" else 2) * images * numbers


def recomputes(
    choice: Literal["auto", "yes", "no"],
    task: BoundTask,
    images: int,
    device: torch.device,
    *,
    precision: TrainingPrecision = "bf16",
) -> bool:
    """Return whether to recompute activations in the backward pass, so that each block stores only its input.

    choice: "yes", "no", or "auto", which recomputes only if the activations would need too much memory, since
    recomputing takes a third more time. images: the number of images that pass through the network at a time.
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
    """Return the peak memory of tensors on this GPU since the process started, in GB; None on other devices."""
    return torch.cuda.max_memory_allocated(device) / 1e9 if device.type == "cuda" else None
