import pickle
import time

import numpy as np
import pytest

from condvae.data.array_pickles import MOST_PICKLE_BYTES, read_array_pickle


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_arrays_are_read_from_every_protocol(protocol: int) -> None:
    array = np.arange(12, dtype=np.uint8).reshape(3, 4)
    columns_first = np.asfortranarray(array)
    plain = {b"data": array, "other": columns_first, "labels": [1, np.int64(-2), np.uint8(255)]}
    found = read_array_pickle(pickle.dumps(plain, protocol=protocol))
    assert np.array_equal(found["data"], array) and np.array_equal(found["other"], array)
    assert found["labels"] == [1, -2, 255]


def test_arrays_of_other_types_are_left_out() -> None:
    found = read_array_pickle(pickle.dumps({"a": np.zeros(2), "b": np.array([{}, None])}, protocol=2))
    assert found == {"a": None, "b": None}


def test_a_pickle_cannot_reserve_memory() -> None:
    # It numbers an object with 4,000,000,000, and the unpickler would reserve memory for all smaller numbers.
    with pytest.raises(pickle.UnpicklingError, match="numbers more objects than it can contain"):
        read_array_pickle(b"\x80\x02}r\x00(k\xee.")
    small = pickle.dumps({"data": np.zeros(3, dtype=np.uint8)}, protocol=2)
    huge = small.replace(b"K\x03\x85", b"J\xff\xff\xff\x7f\x85")
    assert huge != small and read_array_pickle(huge) == {"data": None}
    with pytest.raises(pickle.UnpicklingError, match="more than"):
        read_array_pickle(bytes(MOST_PICKLE_BYTES + 1))


def test_nested_lists_are_not_expanded() -> None:
    nested: list[object] = []
    for _ in range(40):
        nested = [nested, nested]  # 2**40 lists if they are counted one by one
    start = time.monotonic()
    read_array_pickle(pickle.dumps({"labels": nested}, protocol=2))
    assert time.monotonic() - start < 1
