"""Ranks find each other, even if dead ranks have left keys in the store."""

import threading

import torch
import torch.distributed as dist

from condvae.runtime.ranks import World, agree_on_a_name, join


def test_ranks_agree_on_a_name_despite_keys_of_dead_ranks() -> None:
    store = dist.HashStore()  # type: ignore[attr-defined]
    # Keys of an earlier start: a rank has sent its id and got a name.
    store.set("hello 1", "dead")
    store.set("name for dead", "of the dead")
    store.set("of the dead taken by 1", "yes")
    names: dict[int, str] = {}

    def start(rank: int) -> None:
        names[rank] = agree_on_a_name(store, rank, 3)

    for _ in range(2):  # the second time with the keys of the first
        ranks = [threading.Thread(target=start, args=(rank,)) for rank in range(3)]
        for thread in ranks:
            thread.start()
        for thread in ranks:
            thread.join(timeout=30)
        assert not any(thread.is_alive() for thread in ranks)
        assert len(set(names.values())) == 1 and names[0] != "of the dead"
        before = names.copy()
        names.clear()
    assert before


def test_a_single_process_exchanges_nothing() -> None:
    with join("cpu") as world:
        assert world == World(0, 1, torch.device("cpu"))
        assert world.leads
        tensor = torch.ones(2)
        assert world.sum(tensor) is tensor and world.from_leader(tensor) is tensor
        assert world.tell("word") == "word"
        world.check_agreement(tensor, 1)
