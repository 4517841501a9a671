import gzip
import os
import pickle
import struct
import sys
from pathlib import Path

import numpy as np
import pytest
from helpers.cifar10_batches import write_cifar10
from numpy.typing import NDArray
from scipy.io import savemat

from condvae.data import open_data
from condvae.data.standard_sets import CIFAR10_NAMES

FaceArray = NDArray[np.uint8]


@pytest.mark.parametrize("protocol", [0, 2, 4, 5])
def test_cifar10(tmp_path: Path, faces: FaceArray, protocol: int) -> None:
    folder = tmp_path / "cifar-10-batches-py"
    write_cifar10(folder, faces, protocol)
    for path in (folder, tmp_path):
        data = open_data(path)
        assert data.kind == "cifar10" and data.flips and data.label_names == CIFAR10_NAMES
        assert [len(part) for part in (data.train, data.validation, data.test)] == [360, 40, 80]
        assert np.array_equal(data.train.images, faces[:400]) and np.array_equal(data.test.images, faces[400:480])
        assert data.train.labels is not None and data.train.labels.tolist() == [k % 80 % 10 for k in range(400)]


def test_a_batch_written_by_python_2(tmp_path: Path, faces: FaceArray) -> None:
    # As old NumPy wrote it: with the old names of its modules, and with strings that have no encoding.
    folder = tmp_path / "old"
    write_cifar10(folder, faces)
    data = np.ascontiguousarray(faces[:80].transpose(0, 3, 1, 2)).tobytes()
    old = (
        b"\x80\x02}(U\x04datacnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85U\x01b\x87R"
        b"(K\x01KPM\x00\x0c\x86cnumpy\ndtype\nU\x02u1K\x00K\x01\x87R(K\x03U\x01|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb"
        b"\x89T" + struct.pack("<i", len(data)) + data + b"tbU\x06labels](" + b"K\x03" * 80 + b"eu."
    )
    (folder / "data_batch_1").write_bytes(old)
    train = open_data(folder).train
    assert np.array_equal(train.images, faces[:400])
    assert train.labels is not None and (train.labels[:80] == 3).all()


class _Malice:
    """A hostile object: the plain unpickler creates a folder when it loads it."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.mkdir, (str(self.path),)


def test_a_malicious_pickle_is_refused_and_does_not_run(tmp_path: Path, faces: FaceArray) -> None:
    folder = tmp_path / "cifar"
    write_cifar10(folder, faces)
    evil = pickle.dumps({b"data": _Malice(tmp_path / "evil"), b"labels": []}, protocol=2)
    (folder / "data_batch_3").write_bytes(evil)
    with pytest.raises(
        ValueError, match=r"data_batch_3 is not a batch of CIFAR-10 \(the file refers to posix.mkdir, which"
    ):
        open_data(folder)
    assert not (tmp_path / "evil").exists()
    pickle.loads(evil)  # the plain unpickler does run it
    assert (tmp_path / "evil").exists()
    # Names that are not allowed, also in modules that are
    for module, name in (("numpy", "load"), ("builtins", "eval"), ("numpy.core.multiarray", "fromfile")):
        (folder / "data_batch_3").write_bytes(f"c{module}\n{name}\n(S'1'\ntR.".encode())
        with pytest.raises(ValueError, match=f"the file refers to {module}.{name}"):
            open_data(folder)


def test_broken_batches(tmp_path: Path, faces: FaceArray) -> None:
    write_cifar10(tmp_path, faces)
    whole = (tmp_path / "data_batch_2").read_bytes()
    for broken in (whole[:1000], b"nonsense", pickle.dumps([1, 2])):
        (tmp_path / "data_batch_2").write_bytes(broken)
        with pytest.raises(ValueError, match=r"data_batch_2 is not a"):
            open_data(tmp_path)
    (tmp_path / "data_batch_2").write_bytes(pickle.dumps({"data": faces[:3], "labels": [0, 1, 2]}))
    with pytest.raises(
        ValueError,
        match=r"data_batch_2 is not a batch of CIFAR-10 \(it lacks labels, or an array data",
    ):
        open_data(tmp_path)
    (tmp_path / "data_batch_2").unlink()
    with pytest.raises(ValueError, match=r"lacks CIFAR-10's data_batch_2"):
        open_data(tmp_path)


def idx(array: FaceArray) -> bytes:
    return bytes([0, 0, 8, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes()


@pytest.mark.parametrize("packed", [False, True])
def test_idx(tmp_path: Path, faces: FaceArray, packed: bool) -> None:
    grey, labels = np.ascontiguousarray(faces[:, :28, :28, 0]), (np.arange(512) % 10).astype(np.uint8)
    for word, part in (("train", slice(0, 400)), ("t10k", slice(400, 512))):
        for kind, array in (("images-idx3", grey[part]), ("labels-idx1", labels[part])):
            name = f"{word}-{kind}-ubyte" + (".gz" if packed else "")
            (tmp_path / name).write_bytes(gzip.compress(idx(array)) if packed else idx(array))
    train = tmp_path / ("train-images-idx3-ubyte" + (".gz" if packed else ""))
    for path in (tmp_path, train):
        data = open_data(path)
        assert data.kind == "idx" and not data.flips and data.train.channels == 1
        assert np.array_equal(data.train.images[..., 0], grey[:400])
        assert np.array_equal(data.test.images[..., 0], grey[400:])
        assert data.test.labels is not None and data.test.labels.tolist() == labels[400:].tolist()
    alone = open_data(tmp_path / train.name.replace("train", "t10k"))
    assert np.array_equal(alone.train.images[..., 0], grey[400:])
    train.write_bytes(train.read_bytes()[:-5])
    with pytest.raises(ValueError, match=r"train-images-idx3-ubyte"):
        open_data(tmp_path)
    train.write_bytes(gzip.compress(b"nonsense") if packed else b"nonsense")
    with pytest.raises(ValueError, match="it has no header of a 3-dimensional uint8 array"):
        open_data(tmp_path)
    train.unlink()
    with pytest.raises(ValueError, match="lacks the training images, train-images-idx3-ubyte"):
        open_data(tmp_path)


def test_svhn(tmp_path: Path, faces: FaceArray, monkeypatch: pytest.MonkeyPatch) -> None:
    digits = np.arange(512) % 10 + 1
    for name, part in (("train", slice(0, 400)), ("test", slice(400, 512))):
        held = {"X": faces[part].transpose(1, 2, 3, 0), "y": digits[part, None].astype(np.uint8)}
        savemat(tmp_path / f"{name}_32x32.mat", held, do_compression=True)
    for path in (tmp_path, tmp_path / "train_32x32.mat"):
        data = open_data(path)
        assert data.kind == "svhn" and not data.flips
        assert np.array_equal(data.train.images, faces[:400]) and np.array_equal(data.test.images, faces[400:])
        assert data.train.labels is not None and data.train.labels[:11].tolist() == [1, 2, 3, 4, 5, 6, 7, 8, 9, 0, 1]
    assert len(open_data(tmp_path / "test_32x32.mat").train) == 91
    (tmp_path / "test_32x32.mat").write_bytes(b"nonsense")
    with pytest.raises(ValueError, match=r"test_32x32.mat is not a complete .mat file with the arrays X and y"):
        open_data(tmp_path)
    monkeypatch.setitem(sys.modules, "scipy.io", None)
    with pytest.raises(ValueError, match=r"needs SciPy: pip install 'condvae\[svhn\]'"):
        open_data(tmp_path)


def test_an_idx_bomb_is_not_inflated(tmp_path: Path) -> None:
    header = bytes([0, 0, 8, 3]) + struct.pack(">3I", 60_000, 2000, 2000)
    (tmp_path / "train-images-idx3-ubyte.gz").write_bytes(gzip.compress(header))
    with pytest.raises(ValueError, match="its arrays would have 240,000,000,000 bytes, 100 times the size of the file"):
        open_data(tmp_path)


def test_labels_of_a_batch_must_be_whole_numbers(tmp_path: Path, faces: FaceArray) -> None:
    write_cifar10(tmp_path, faces)
    data = np.zeros((2, 3072), dtype=np.uint8)
    for labels, words in (([0, -1], "expected numbers from 0"), ([[0], [1]], "are not whole numbers")):
        (tmp_path / "data_batch_1").write_bytes(pickle.dumps({"data": data, "labels": labels}))
        with pytest.raises(ValueError, match=words):
            open_data(tmp_path)
