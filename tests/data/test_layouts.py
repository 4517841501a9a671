"""`open_data`: paths without a data set, joined data sets, and the cache of large data sets."""

import json
import os
import zipfile
from pathlib import Path

import numpy as np
import pytest
from helpers.fixtures import FIXTURES
from numpy.typing import NDArray

from condvae.data import ImageSet, open_data
from condvae.data import image_folders as folders_module
from condvae.data.delivery import is_mapped

FaceArray = NDArray[np.uint8]
FACES = FIXTURES / "faces32.zip"


def content(images: ImageSet) -> FaceArray:
    return images.images[images.rows]


@pytest.mark.parametrize(
    ("name", "held", "words"),
    [
        ("nowhere", None, "nowhere does not exist: check the path to the data"),
        (
            "notes.txt",
            b"hello",
            r"notes.txt is not a data set in a supported layout: expected a folder or zip of images, \.npy",
        ),
        ("cifar-10-python.tar.gz", b"hello", "is an archive that condvae cannot read"),
        ("a.zip", b"PK\x03\x04 and then nothing", "a.zip is not a whole zip file"),
        ("a.npy", b"", "a.npy is empty"),
        ("folder/notes.txt", b"hello", "folder contains no images: expected files of type jpg, jpeg, png"),
    ],
)
def test_paths_without_a_data_set_are_rejected(tmp_path: Path, name: str, held: bytes | None, words: str) -> None:
    path = tmp_path / name
    if held is not None:
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(held)
    with pytest.raises(ValueError, match=words):
        open_data(path.parent if "/" in name else path)


def test_wrong_options_are_rejected() -> None:
    with pytest.raises(ValueError, match="channels is 2"):
        open_data(FACES, channels=2)
    with pytest.raises(ValueError, match="size is 0"):
        open_data(FACES, size=0)
    with pytest.raises(ValueError, match="workers is 0"):
        open_data(FACES, workers=0)
    with pytest.raises(ValueError, match="no path to a data set was given"):
        open_data([])


def test_sets_are_joined(tmp_path: Path, faces: FaceArray) -> None:
    whole = open_data(FACES)
    np.savez(tmp_path / "more.npz", images=faces[:50], labels=np.full(50, 9))
    more = open_data(tmp_path / "more.npz", validation=0)
    data = open_data([str(FACES), tmp_path / "more.npz"])
    assert data.kind == "pack + npz"
    trained = len(whole.train) + len(whole.validation) + 45
    assert len(data.train) + len(data.validation) == trained and len(data.validation) == trained // 10
    assert np.array_equal(content(data.test), np.concatenate([content(whole.test), content(more.test)]))
    assert data.train.labels is not None and (data.train.labels[-45:] == 9).all()
    assert np.array_equal(data.train.images[-45:], content(more.train))
    # Labels are kept only if all sets have them.
    np.save(tmp_path / "plain.npy", faces[:20])
    assert open_data([FACES, tmp_path / "plain.npy"]).train.labels is None
    # So are names of files.
    assert more.test.names is None and data.test.names is None
    twice = open_data([FACES, FACES])
    assert whole.test.names is not None and twice.test.names == 2 * whole.test.names
    np.save(tmp_path / "small.npy", faces[:20, :16, :16])
    with pytest.raises(ValueError, match=r"of 32 x 32 x 3 but .*small.npy has images of 16 x 16 x 3"):
        open_data([FACES, tmp_path / "small.npy"])


def test_groups_stay_together_in_joined_sets(tmp_path: Path, face_files: dict[str, bytes]) -> None:
    names = list(face_files)[:60]
    for part in "ab":
        with zipfile.ZipFile(tmp_path / f"{part}.zip", "w") as archive:
            for i, name in enumerate(names):
                archive.writestr(f"{i:02}.jpg", face_files[name])
            labels = [[f"{i:02}.jpg", i // 3] for i in range(60)]
            archive.writestr("dataset.json", json.dumps({"labels": labels, "patient": [i // 3 for i in range(60)]}))
    data = open_data([tmp_path / "a.zip", tmp_path / "b.zip"])
    labels_of = [
        set() if part.labels is None else set(part.labels[part.rows]) for part in (data.train, data.validation)
    ]
    assert len(data.validation) == 9  # of 108: three patients; the other set uses the same numbers
    assert data.train.labels is not None
    held = data.validation.rows
    kept = data.train.rows
    halves = [{(row >= 54, data.train.labels[row]) for row in rows} for rows in (kept, held)]
    assert not halves[0] & halves[1] and labels_of[1]
    # Patients of different sets are not confused, in any split: there are 40 patients with three images each.
    parts = [part.members for part in (data.train, data.validation, data.test)]
    everybody = np.concatenate([part for part in parts if part is not None])
    assert np.unique(everybody, return_counts=True)[1].tolist() == [3] * 40
    np.save(tmp_path / "plain.npy", np.zeros((20, 32, 32, 3), dtype=np.uint8))
    mixed = open_data([tmp_path / "a.zip", tmp_path / "plain.npy"]).train.members
    assert mixed is not None and len(np.unique(mixed[-16:])) == 16  # that set has no groups


def test_large_sets_go_to_a_file_that_is_kept(
    tmp_path: Path, faces: FaceArray, face_files: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    photos, cache = tmp_path / "photos", tmp_path / "cache"
    for i, held in enumerate(list(face_files.values())[:60]):
        (photos / f"{i // 20}").mkdir(parents=True, exist_ok=True)
        (photos / f"{i // 20}" / f"{i:02}.jpg").write_bytes(held if i != 30 else held[:300])

    def again(limit: int = 60 * 3072 - 1) -> ImageSet:
        data = open_data(photos, cache=cache, memory_limit=limit, validation=0)
        assert data.skipped[0].startswith("1/30.jpg: ") and 30 not in data.train.rows
        assert np.array_equal(content(data.train), faces[data.train.rows])
        return data.train

    assert not is_mapped(again(60 * 3072).images) and not cache.exists()
    assert is_mapped(again().images)
    (array,) = cache.glob("*.npy")
    assert not list(cache.glob(".*.part"))
    # The second call decodes nothing.
    with monkeypatch.context() as patch:
        patch.setattr(folders_module, "decode", None)
        patch.setattr(folders_module, "read_header", None)
        assert is_mapped(again().images)
    # A truncated array, or one without its .json file, is written again; leftovers of a killed run are removed.
    for broken in (array.read_bytes()[:1000], b"", array.read_bytes()[:-1]):
        array.write_bytes(broken)
        (cache / f".{array.stem}.xyz.part").write_bytes(b"half")
        assert is_mapped(again().images) and array.stat().st_size > 60 * 3072
        assert not list(cache.glob(".*.part"))
    array.with_suffix(".json").unlink()
    assert is_mapped(again().images)
    # With other options, or after a file has changed, another array is written.
    open_data(photos, cache=cache, memory_limit=0, size=16)
    assert len(list(cache.glob("*.npy"))) == 2
    (photos / "0" / "00.jpg").write_bytes(face_files[list(face_files)[1]])
    changed = open_data(photos, cache=cache, memory_limit=0, validation=0)
    assert np.array_equal(changed.train.images[0], faces[1])
    assert len(list(cache.glob("*.npy"))) == 3


def test_joined_and_resized_sets_go_to_a_file_too(tmp_path: Path, faces: FaceArray) -> None:
    cache = tmp_path / "cache"
    np.save(tmp_path / "a.npy", faces[:100])
    np.save(tmp_path / "b.npy", faces[100:300])
    for seed in (5, 6, 5):  # another seed holds out other images, so it must not use the first seed's file
        data = open_data([tmp_path / "a.npy", tmp_path / "b.npy"], cache=cache, memory_limit=1000, seed=seed)
        assert is_mapped(data.train.images) and is_mapped(data.test.images)
        expected = np.concatenate([faces[start : start + n][_kept(n, seed)] for start, n in ((0, 100), (100, 200))])
        assert np.array_equal(data.train.images, expected)
    small = open_data(tmp_path / "a.npy", size=8, cache=cache, memory_limit=1000)
    assert is_mapped(small.train.images) and np.array_equal(
        small.train.images, open_data(tmp_path / "a.npy", size=8).train.images
    )


def _kept(n: int, seed: int) -> NDArray[np.int64]:
    return np.sort(np.random.RandomState(seed).permutation(n)[: n - n // 10])


def test_an_unwritable_cache_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match=r"needs 0\.0 GiB of disk space in .*, but writing there .* XDG_CACHE_HOME"):
        open_data(FACES, cache=tmp_path / "file" / "cache", memory_limit=0)


def test_a_full_disk_is_reported_before_the_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = type("Usage", (), {"free": 1000})
    monkeypatch.setattr("condvae.data.image_cache.shutil.disk_usage", lambda _: usage)
    with pytest.raises(ValueError, match=r"writing there failed \(only 0.0 GiB of disk space are free\)"):
        open_data(FACES, cache=tmp_path, memory_limit=0)
    assert [path.suffix for path in tmp_path.iterdir()] == [".lock"]


def test_the_default_cache_is_in_the_users_cache_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    images = open_data(FACES, memory_limit=0).train.images
    assert is_mapped(images) and os.listdir(tmp_path) == ["condvae"]
