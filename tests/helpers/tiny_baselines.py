"""Learned baselines so small that a training step takes milliseconds."""

import functools
import json
import tempfile
from pathlib import Path
from typing import Any

import torch
from helpers.models import generator

from condvae.completers.learned_baselines import config_from, make_completer, make_loss
from condvae.completers.learned_completer import CompleterLoss
from condvae.completers.learned_names import STAGES
from condvae.data import LevelBatch
from condvae.observe import Halves, KnownPixels
from condvae.runtime.ranks import World
from condvae.training.baseline_task import BaselineTraining
from condvae.training.optimiser import Rule
from condvae.training.step import MicroBatch, TrainingPrecision, TrainingStep

SIZE = 16
"""The side of the images. With it, the networks and the critics of all methods have all kinds of their layers."""
TINY: dict[str, dict[str, Any]] = {
    "ce": {"width": 4, "bottleneck": 8},
    "anp": {"width": 8, "heads": 2, "self_attention_blocks": 1, "cross_attention_blocks": 1, "context_points": 40},
    "pic": {
        "width": 4, "max_width": 8, "latent_channels": 4, "prior_blocks": 0, "attention_size": 8, "output_scales": 1,
    },
    "rfr": {"widths": [4, 4, 4, 8], "head_width": 4, "kernels": [7, 7], "perceptual_weight": 0, "style_weight": 0},
    "comodgan": {"max_width": 8, "latent_features": 4, "mapping_layers": 1, "code_features": 8},
    "vqvae": {
        "codes": 8, "code_width": 4, "codes_width": 8, "structure_width": 8, "structure_blocks": 2,
        "structure_attentions": 1, "output_blocks": 1, "attention_heads": 1, "key_width": 4, "value_width": 4,
        "condition_width": 8, "condition_blocks": 2, "max_dilation": 2, "texture_width": 8, "critic_layers": 2,
    },
    "diffusion": {
        "widths": [8, 12], "level_blocks": 1, "attention_sizes": [8], "embedding": 8, "sampling_steps": 3,
    },
}  # fmt: skip
WITH_CRITIC = ("ce", "pic", "comodgan", "vqvae")
EXACT = Rule(beta1=0.5, beta2=0.9, weight_decay=0.0, clip=1e9, skip_above=1e9, ema=0.5)
"""Plain Adam."""


@functools.cache
def tiny_file(kind: str) -> str:
    """A file with the configuration of a tiny baseline, for --baseline. It is removed at the end of the process."""
    folder = tempfile.TemporaryDirectory(prefix="condvae-tests-")
    _kept.append(folder)
    path = Path(folder.name) / f"{kind}.json"
    path.write_text(json.dumps({"kind": kind, **TINY[kind]}))
    return str(path)


_kept: list[tempfile.TemporaryDirectory[str]] = []


def tiny_loss(kind: str, *, seed: int = 0, stage: str | None = None, **changes: Any) -> CompleterLoss:
    """The loss of a tiny baseline. stage: that of its training, by default the last one."""
    torch.manual_seed(seed)
    plain = {"kind": kind, "image_size": SIZE, "channels": 3, **TINY[kind], **changes}
    *_, last = STAGES.get(kind, (None,))
    return make_loss(make_completer(config_from(plain)), stage=stage or last)


def tiny_step(
    kind: str,
    *,
    seed: int = 0,
    world: World | None = None,
    process: KnownPixels | None = None,
    rule: Rule = EXACT,
    precision: TrainingPrecision = "fp32",
    **changes: Any,
) -> TrainingStep:
    """Make a training step of a tiny baseline, with mirrored images. It is on the CPU unless a world is given."""
    world = world or World(0, 1, torch.device("cpu"))
    task = BaselineTraining(tiny_loss(kind, seed=seed, **changes), process or Halves())
    task.move_to(world.device)
    return TrainingStep(task, rule, world, precision=precision, flip=True)


def levels(n: int, seed: int = 0) -> LevelBatch:
    """Random images, each with an own mean colour, so that there is something to learn."""
    dice = generator(seed)
    colours = torch.randint(40, 216, (n, 3, 1, 1), generator=dice)
    speckles = torch.randint(-40, 40, (n, 3, SIZE, SIZE), generator=dice)
    return LevelBatch((colours + speckles).to(torch.uint8), None, None)


def micro_batch(seed: int, n: int = 6, device: torch.device | None = None) -> MicroBatch:
    """Make a micro-batch with different random numbers for the model and for the critic."""
    device = device or torch.device("cpu")
    own, critics = (torch.Generator(device).manual_seed(2 * seed + i) for i in range(2))
    return MicroBatch(levels(n, seed).to(device), own, critics)


def take(step: TrainingStep, seed: int, *, lr: float = 1e-3) -> None:
    """Take one training step."""
    device = step.world.device
    step([micro_batch(seed, device=device)], torch.tensor(lr, device=device), shards=1)
