from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from condvae.data import open_data
from condvae.data.splits import folder_splits, hold_out


def test_the_test_images_of_ffhq_are_those_of_the_public_code() -> None:
    kept, held = hold_out(70_000, 7_000, 5)
    assert set(held) == set(np.random.RandomState(5).permutation(70_000)[-7_000:])
    assert sorted(np.concatenate([kept, held])) == list(range(70_000))


@given(st.lists(st.integers(-3, 9), min_size=1, max_size=60), st.integers(0, 60), st.integers(0, 99))
def test_groups_stay_together(members: list[int], count: int, seed: int) -> None:
    groups = np.array(members, dtype=np.int64)
    kept, held = hold_out(len(groups), count, seed, groups)
    assert sorted(np.concatenate([kept, held])) == list(range(len(groups)))
    assert not set(groups[kept]) & set(groups[held])
    assert len(held) <= count
    # None of the remaining groups would have fitted.
    assert all((groups == group).sum() > count - len(held) for group in set(groups[kept]))


@given(st.integers(0, 50), st.integers(0, 50), st.integers(0, 99))
def test_the_requested_number_is_held_out(n: int, count: int, seed: int) -> None:
    count = min(n, count)
    kept, held = hold_out(n, count, seed)
    assert len(held) == count and sorted(np.concatenate([kept, held])) == list(range(n))


def test_folders_name_the_splits() -> None:
    assert folder_splits(["train/a", "test/b", "val/c", "Valid/d", "validation/e"]) == (
        ["train", "test", "validation", "validation", "validation"]
    )
    assert folder_splits(["set/train/a", "set/test/b"]) == ["train", "test"]
    assert folder_splits(["train/a", "train/b"]) == ["train", "train"]
    assert folder_splits(["train/a", "test/b", "extra/c", "d"]) == ["train", "test", None, None]
    # Next to car/, train/ is a class of images: the vehicle.
    assert folder_splits(["train/a", "car/b"]) is None
    assert folder_splits(["a", "b/c"]) is None
    assert folder_splits(["train", "test"]) is None


def rows_of(path: Path, n: int, **options: int) -> tuple[int, int, int]:
    np.save(path, np.arange(n * 4, dtype=np.int64).astype(np.uint8).reshape(n, 2, 2, 1))
    data = open_data(path, **options)  # type: ignore[arg-type]
    rows = [set(part.rows) for part in (data.train, data.validation, data.test)]
    assert set.union(*rows) == set(range(n)) or options.get("validation") == 0
    assert sum(map(len, rows)) == len(set.union(*rows))
    return len(rows[0]), len(rows[1]), len(rows[2])


def test_sizes_of_the_held_out_sets(tmp_path: Path) -> None:
    path = tmp_path / "faces.npy"
    assert rows_of(path, 70_000) == (58_000, 5_000, 7_000)
    assert rows_of(path, 1_000) == (810, 90, 100)
    assert rows_of(path, 1_000, validation=17) == (883, 17, 100)
    assert rows_of(path, 1_000, validation=0) == (900, 0, 100)
    assert rows_of(path, 2) == (2, 0, 0)
    assert rows_of(path, 1) == (1, 0, 0)


def test_the_seed_selects_the_held_out_images(tmp_path: Path, faces: NDArray[np.uint8]) -> None:
    path = tmp_path / "faces.npy"
    np.save(path, faces)
    held = [set(open_data(path, seed=seed).validation.rows) for seed in (5, 5, 6)]
    assert held[0] == held[1] != held[2]


def test_wrong_arguments_are_rejected(tmp_path: Path, faces: NDArray[np.uint8]) -> None:
    path = tmp_path / "faces.npy"
    np.save(path, faces[:5])
    with pytest.raises(
        ValueError, match=r"has 5 training images, so 9 cannot be held out .* --validation a number below 5"
    ):
        open_data(path, validation=9)
    with pytest.raises(ValueError, match="validation is -1"):
        open_data(path, validation=-1)
