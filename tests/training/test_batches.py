"""Every step and micro-batch has its own random numbers, and those of the critic differ from those of the model."""

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import torch
from helpers.tiny_baselines import levels

from condvae.data import ImageSet
from condvae.runtime.ranks import World
from condvae.training.batches import batches_from
from condvae.training.options import TrainOptions

IMAGES = ImageSet(images=levels(20).images.permute(0, 2, 3, 1).numpy().copy(), rows=np.arange(20))
OPTIONS = TrainOptions(data=(Path("faces"),), out=Path("run"), batch=8, micro_batch=2)


def seeds(steps: int, *, rank: int = 0, ranks: int = 1, critic: bool = True, **place: Any) -> list[list[list[int]]]:
    """The initial seeds of the generators, as [step][micro-batch][model or critic]."""
    world = World(rank, ranks, torch.device("cpu"))
    batches = batches_from(IMAGES, OPTIONS, world, critic=critic, **{"step": 0, "rollbacks": 0, **place})
    return [
        [
            [one.initial_seed() for one in (part.generator, part.critic_generator) if one is not None]
            for part in micro_batches
        ]
        for micro_batches in itertools.islice(batches, steps)
    ]


def test_no_two_updates_share_random_numbers() -> None:
    found = [seed for step in seeds(5) for part in step for seed in part]
    assert len(set(found)) == len(found) == 5 * 4 * 2
    after = [seed for step in seeds(5, rollbacks=1) for part in step for seed in part]
    assert not set(found) & set(after)


def test_a_critic_does_not_change_the_random_numbers_of_the_model() -> None:
    assert seeds(3, critic=False) == [[part[:1] for part in step] for step in seeds(3)]


def test_a_later_start_and_more_ranks_give_the_same_random_numbers() -> None:
    whole = seeds(4)
    assert seeds(2, step=2) == whole[2:]
    first, second = (seeds(4, rank=rank, ranks=2) for rank in range(2))
    assert [one + other for one, other in zip(first, second, strict=True)] == whole
