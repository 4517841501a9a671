import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from condvae.data import Order


@given(st.integers(1, 40), st.integers(0, 2**64 - 1), st.integers(0, 10**6))
def test_every_epoch_is_a_permutation(n: int, seed: int, epoch: int) -> None:
    assert sorted(Order(n, seed)(epoch * n, n)) == list(range(n))


@given(st.integers(1, 20), st.lists(st.integers(0, 70), min_size=1, max_size=8), st.integers(0, 100))
def test_positions_can_be_requested_in_any_pieces(n: int, counts: list[int], start: int) -> None:
    whole = Order(n, 3)(start, sum(counts))
    order, position, parts = Order(n, 3), start, []
    for count in counts:
        parts.append(order(position, count))
        position += count
    assert np.concatenate(parts).tolist() == whole.tolist()
    assert order(start, sum(counts)).tolist() == whole.tolist()  # again, after other epochs
    assert len(whole) == sum(counts)


def test_epochs_and_seeds_differ() -> None:
    order = Order(1000, 0)
    assert (order(0, 1000) != order(1000, 1000)).mean() > 0.9
    assert (order(0, 1000) != Order(1000, 1)(0, 1000)).mean() > 0.9
    assert order(0, 10).dtype == np.int64


def test_the_order_is_the_same_everywhere() -> None:
    # Fixed numbers: a run that resumes on another machine must continue with the same images.
    assert Order(10, 7)(0, 20).tolist() == [6, 3, 9, 1, 2, 0, 5, 7, 8, 4, 1, 9, 2, 8, 5, 0, 4, 3, 7, 6]


def test_wrong_arguments_are_rejected() -> None:
    with pytest.raises(ValueError, match="the number of images is 0"):
        Order(0, 1)
    for seed in (-1, 2**64, 1.5, True):
        with pytest.raises(ValueError, match=r"the seed of the image order is"):
            Order(3, seed)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="expected both to be 0 or more"):
        Order(3, 0)(-1, 2)
