"""The number of torch's threads is 1 inside the block, and as before after it."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from condvae.runtime.torch_threads import on_one_thread


@pytest.fixture(autouse=True)
def three_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    yield
    torch.set_num_threads(before)


def test_the_number_of_threads_is_restored_also_after_an_error() -> None:
    with on_one_thread():
        assert torch.get_num_threads() == 1
    assert torch.get_num_threads() == 3
    with pytest.raises(ValueError, match="wrong"), on_one_thread():
        raise ValueError("wrong")
    assert torch.get_num_threads() == 3


def test_blocks_can_be_nested_and_new_threads_start_as_before() -> None:
    with on_one_thread():
        with on_one_thread():
            assert torch.get_num_threads() == 1
        assert torch.get_num_threads() == 1
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(torch.get_num_threads).result() == 3
