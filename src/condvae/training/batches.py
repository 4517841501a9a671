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
    train: ImageSet, options: TrainingOptions, world: World, *, step: int, rollbacks: int
) -> Iterator[list[MicroBatch]]:
    """Yield this rank's micro-batches of every step from `step` on. After a roll-back they get other random numbers."""
    micro, passes = options.micro_batches(world.size)
    shards = passes * world.size
    order = Order(len(train), options.seed)
    seeds = Seeds(options.seed, f"training, {rollbacks} roll-backs")
    mine = range(world.rank * passes, (world.rank + 1) * passes)
    generators = [torch.Generator(world.device) for _ in mine]
    places = ((later, shard) for later in itertools.count(step) for shard in mine)
    levels = deliver(
        train,
        (order(later * options.batch + shard * micro, micro) for later, shard in places),
        device=world.device,
        residency=options.residency,
        workers=options.workers,
    )
    for later in itertools.count(step):
        for shard, generator in zip(mine, generators, strict=True):
            generator.manual_seed(seeds(later * shards + shard))
        yield [MicroBatch(next(levels), generator) for generator in generators]
