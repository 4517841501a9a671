"""Worker threads return results in order, do not run far ahead of the consumer, and pass on errors."""

import threading
import time

import pytest
import torch

from condvae.sampling.cpu_workers import on_workers


def test_results_come_in_order_and_few_wait_to_be_fetched() -> None:
    begun = 0
    lock = threading.Lock()

    def work(item: int) -> int:
        nonlocal begun
        with lock:
            begun += 1
        assert torch.get_num_threads() == 1
        return item * item

    torch.set_num_threads(1)
    with on_workers(3) as each:
        results = iter(each(work, range(100)))
        assert next(results) == 0
        time.sleep(0.2)  # give the workers time to run ahead
        assert begun <= 4
        assert list(results) == [i * i for i in range(1, 100)]
    assert begun == 100


def test_an_error_ends_the_work() -> None:
    def work(item: int) -> int:
        if item == 3:
            raise ValueError("three")
        return item

    with pytest.raises(ValueError, match="three"), on_workers(2) as each:
        list(each(work, range(10)))
