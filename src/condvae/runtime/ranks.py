"""The ranks of a run: one process, or many under torchrun, that hold the same weights and split the work."""

import datetime
import os
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.rendezvous import rendezvous

from condvae.runtime.devices import resolve_device


@dataclass(frozen=True)
class World:
    """Which of how many processes this is, and on which device. Alone, every exchange is free."""

    rank: int
    size: int
    device: torch.device

    @property
    def leads(self) -> bool:
        """Whether this rank writes files and speaks."""
        return self.rank == 0

    def sum(self, tensor: Tensor) -> Tensor:
        """Sum over ranks, in place, the same to the last bit on each of them."""
        if self.size > 1:
            dist.all_reduce(tensor)
        return tensor

    def from_leader(self, tensor: Tensor) -> Tensor:
        """The leader's numbers, in place."""
        if self.size > 1:
            dist.broadcast(tensor, src=0)
        return tensor

    def tell(self, message: object) -> object:
        """The leader's message: any plain data."""
        box = [message]
        if self.size > 1:
            dist.broadcast_object_list(box, src=0, device=self.device)
        return box[0]

    def check_agreement(self, vector: Tensor, step: int) -> None:
        """Raise a RuntimeError if ranks have come to hold different weights, which nothing should ever cause."""
        if self.size == 1:
            return
        mine = torch.stack((vector.double().sum(), vector.double().abs().sum()))
        theirs = self.from_leader(mine.clone())
        differ = self.sum((mine != theirs).any().float())
        if differ.item():
            raise RuntimeError(f"ranks hold different weights at step {step}: training cannot be trusted and stops")


@contextmanager
def join(device: str = "auto") -> Iterator[World]:
    """The place of this process among those that torchrun started, or a world of its own; left again at the end."""
    size, local = int(os.environ.get("WORLD_SIZE", "1")), int(os.environ.get("LOCAL_RANK", "0"))
    chosen = resolve_device(device)
    if chosen.type == "cuda":
        index = chosen.index if chosen.index is not None else local
        if index >= torch.cuda.device_count():
            raise ValueError(f"rank {local} wants GPU {index}, but there are {torch.cuda.device_count()}")
        chosen = torch.device("cuda", index)
        torch.cuda.set_device(chosen)
    if size == 1:
        yield World(0, 1, chosen)
        return
    backend = "nccl" if chosen.type == "cuda" else "gloo"
    timeout = datetime.timedelta(minutes=30)
    store, rank, size = next(rendezvous("env://", timeout=timeout))
    # torchrun's store may outlive a restart: without a name for this start, new ranks would call those of dead ones.
    store = dist.PrefixStore(agree_on_a_name(store, rank, size), store)  # type: ignore[attr-defined]
    dist.init_process_group(backend, store=store, rank=rank, world_size=size, timeout=timeout)
    yield World(rank, size, chosen)
    # Only after success: where a rank has died, waiting for it to say goodbye could last for ever.
    dist.destroy_process_group()


def agree_on_a_name(store: Any, rank: int, size: int) -> str:
    """A name for this start of all ranks, through a store that may still hold what an earlier start has left.

    Restart counts will not do: they differ between machines. So every rank says hello under a number of its own, the
    leader answers each hello it finds, dead ones too, and goes on when all have taken up its name.
    """
    mine = uuid.uuid4().hex
    if rank:
        store.set(f"hello {rank}", mine)
        name: str = store.get(f"name for {mine}").decode()  # waits for it
        store.set(f"{name} taken by {rank}", "yes")
        return name
    waiting = set(range(1, size))
    while waiting:
        for other in sorted(waiting):
            if store.check([f"hello {other}"]):
                store.set(f"name for {store.get(f'hello {other}').decode()}", mine)
            if store.check([f"{mine} taken by {other}"]):
                waiting.discard(other)
        time.sleep(0.01)
    return mine


def job_name() -> str:
    """What torchrun calls this job."""
    return os.environ.get("TORCHELASTIC_RUN_ID", "")


def restarts() -> int:
    """How often torchrun has started the ranks again after one of them died."""
    return int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0"))
