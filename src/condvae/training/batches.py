"""The batches of a run. They depend only on the data, the options and the step."""

import itertools
from collections.abc import Iterator

import torch

from condvae.data import ImageSet, Order, deliver
from condvae.runtime.ranks import World
from condvae.runtime.seeds import Seeds
from condvae.training.options import TrainingOptions
from condvae.training.step import MicroBatch


def batches_from(
    train: ImageSet, options: TrainingOptions, world: World, *, step: int, rollbacks: int, critic: bool = False
) -> Iterator[list[MicroBatch]]:
    """Yield this rank's micro-batches of every step from `step` on. After a roll-back they get other random numbers.

    critic: whether the micro-batches need random numbers for a critic, too.
    """
    micro, passes = options.micro_batches(world.size)
    shards = passes * world.size
    order = Order(len(train), options.seed)
    purposes = ("training", "critic") if critic else ("training",)
    seeds = [Seeds(options.seed, f"{purpose}, {rollbacks} roll-backs") for purpose in purposes]
    mine = range(world.rank * passes, (world.rank + 1) * passes)
    generators = [[torch.Generator(world.device) for _ in purposes] for _ in mine]
    places = ((later, shard) for later in itertools.count(step) for shard in mine)
    levels = deliver(
        train,
        (order(later * options.batch + shard * micro, micro) for later, shard in places),
        device=world.device,
        residency=options.residency,
        workers=options.workers,
    )
    for later in itertools.count(step):
        for shard, several in zip(mine, generators, strict=True):
            for generator, numbers in zip(several, seeds, strict=True):
                generator.manual_seed(numbers(later * shards + shard))
        yield [MicroBatch(next(levels), *several) for several in generators]
