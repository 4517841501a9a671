"""The processes (ranks) of a training. torchrun can start several, which have the same weights and share the work."""

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
from condvae.runtime.messages import counted


@dataclass(frozen=True)
class World:
    """The rank and the device of this process, and the number of processes. A single process exchanges no data."""

    rank: int
    size: int
    device: torch.device

    @property
    def leads(self) -> bool:
        """Whether this rank is the leader, which writes the files and the messages."""
        return self.rank == 0

    def sum(self, tensor: Tensor) -> Tensor:
        """Sum a tensor over all ranks, in place. The result is bit-identical on every rank."""
        if self.size > 1:
            dist.all_reduce(tensor)
        return tensor

    def from_leader(self, tensor: Tensor) -> Tensor:
        """Overwrite the tensor with the leader's values, in place, and return it."""
        if self.size > 1:
            dist.broadcast(tensor, src=0)
        return tensor

    def tell(self, message: object) -> object:
        """Send the leader's message, which is any plain data, to all ranks, and return it on every rank."""
        box = [message]
        if self.size > 1:
            dist.broadcast_object_list(box, src=0, device=self.device)
        return box[0]

    def check_agreement(self, vector: Tensor, step: int) -> None:
        """Raise RuntimeError if the weights differ between ranks, which would be a bug."""
        if self.size == 1:
            return
        mine = torch.stack((vector.double().sum(), vector.double().abs().sum()))
        theirs = self.from_leader(mine.clone())
        differ = self.sum((mine != theirs).any().float())
        if differ.item():
            raise RuntimeError(f"the weights differ between ranks at step {step}: stopping, as results would be wrong")


@contextmanager
def join(device: str = "auto") -> Iterator[World]:
    """Join the processes that torchrun started, if any; yield the `World` of this process; disconnect at the end."""
    size, local = int(os.environ.get("WORLD_SIZE", "1")), int(os.environ.get("LOCAL_RANK", "0"))
    chosen = resolve_device(device)
    if chosen.type == "cuda":
        index = chosen.index if chosen.index is not None else local
        if index >= torch.cuda.device_count():
            gpus = counted(torch.cuda.device_count(), "GPU")
            raise ValueError(
                f"local rank {local} needs GPU {index} (counting from 0), but this machine has {gpus}: "
                "start fewer processes"
            )
        chosen = torch.device("cuda", index)
        torch.cuda.set_device(chosen)
    if size == 1:
        yield World(0, 1, chosen)
        return
    backend = "nccl" if chosen.type == "cuda" else "gloo"
    timeout = datetime.timedelta(minutes=30)
    store, rank, size = next(rendezvous("env://", timeout=timeout))
    # torchrun's store may survive a restart. A prefix for each start keeps new ranks from using the keys of dead ones.
    store = dist.PrefixStore(agree_on_a_name(store, rank, size), store)  # type: ignore[attr-defined]
    dist.init_process_group(backend, store=store, rank=rank, world_size=size, timeout=timeout)
    yield World(rank, size, chosen)
    # Only after success: if a rank has died, this call could wait for it forever.
    dist.destroy_process_group()


def agree_on_a_name(store: Any, rank: int, size: int) -> str:
    """Choose a name for this start of torchrun, and return it on all ranks.

    The name must be new, since the store may contain keys of an earlier start. torchrun's restart count cannot be used,
    because it can differ between machines. Instead, the leader makes a random name. Every other rank stores a random id
    under "hello", and the leader sends the name to all ids in the store, until every rank has confirmed. Some of these
    ids may be outdated.
    """
    mine = uuid.uuid4().hex
    if rank:
        store.set(f"hello {rank}", mine)
        name: str = store.get(f"name for {mine}").decode()  # waits for the leader
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
    """Return the job id of torchrun, or an empty string without torchrun."""
    return os.environ.get("TORCHELASTIC_RUN_ID", "")


def restarts() -> int:
    """Return how often torchrun has restarted the ranks after one of them died."""
    return int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0"))
