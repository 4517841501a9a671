import zipfile
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from condvae.data import ImageSet, open_data
from condvae.data.delivery import is_mapped

FaceArray = NDArray[np.uint8]


def content(images: ImageSet) -> FaceArray:
    return images.images[images.rows]


def test_npz_folder_as_the_cifar10_tool_writes_it(tmp_path: Path, faces: FaceArray) -> None:
    labels = np.arange(512) % 10
    for i in range(12):  # train-10 comes after train-9
        part = slice(i * 40, i * 40 + 40)
        np.savez(tmp_path / f"train-{i}.npz", images=faces[part], labels=labels[part])
    np.savez(tmp_path / "test.npz", images=faces[480:], labels=labels[480:])
    data = open_data(tmp_path)
    assert data.kind == "npz" and data.flips and data.skipped == ()
    assert (len(data.train), len(data.validation), len(data.test)) == (432, 48, 32)
    assert np.array_equal(data.train.images, faces[:480])
    assert np.array_equal(data.test.images, faces[480:])
    assert data.train.labels is not None and data.train.labels.dtype == np.int64
    assert data.train.labels.tolist() == labels[:480].tolist()


def test_npz_with_its_own_validation_images(tmp_path: Path, faces: FaceArray) -> None:
    for name, part in (("train", slice(0, 9)), ("val", slice(9, 12)), ("test", slice(12, 14))):
        np.savez(tmp_path / f"{name}.npz", images=faces[part])
    data = open_data(tmp_path)
    assert data.train.labels is None
    assert [len(part) for part in (data.train, data.validation, data.test)] == [9, 3, 2]
    assert np.array_equal(content(data.validation), faces[9:12])
    assert len(open_data(tmp_path, validation=0).validation) == 0


def test_one_npz_with_many_labels_each(tmp_path: Path, faces: FaceArray) -> None:
    several = (np.arange(512 * 3).reshape(512, 3) % 2).astype(np.int64)
    np.savez_compressed(tmp_path / "faces.npz", images=faces, labels=several)
    data = open_data(tmp_path / "faces.npz")
    assert [len(part) for part in (data.train, data.validation, data.test)] == [415, 46, 51]
    assert data.train.labels is not None and data.train.labels.dtype == np.uint8
    assert np.array_equal(data.train.labels, several)


@pytest.mark.parametrize("layout", ["NHWC", "NCHW", "NHW"])
def test_npy_is_mapped_and_not_read(tmp_path: Path, faces: FaceArray, layout: str) -> None:
    stored = {"NHWC": faces, "NCHW": faces.transpose(0, 3, 1, 2), "NHW": faces[:, :, :, 0]}[layout]
    np.save(tmp_path / "ffhq.npy", np.ascontiguousarray(stored))
    for path in (tmp_path / "ffhq.npy", tmp_path):
        data = open_data(path)
        assert data.kind == "npy" and is_mapped(data.train.images)
        assert np.array_equal(data.train.images, faces[..., :1] if layout == "NHW" else faces)
        assert set(data.test.rows) == set(np.random.RandomState(5).permutation(512)[-51:])


def test_npy_finds_the_files_of_its_other_splits(tmp_path: Path, faces: FaceArray) -> None:
    np.save(tmp_path / "imagenet64-train.npy", faces[:300])
    np.save(tmp_path / "imagenet64-valid.npy", faces[300:])
    for path in (tmp_path / "imagenet64-train.npy", tmp_path):
        data = open_data(path)
        assert np.array_equal(content(data.test), faces[300:])
        assert (len(data.train), len(data.validation)) == (270, 30)
    np.save(tmp_path / "imagenet64-test.npy", faces[400:])
    data = open_data(tmp_path / "imagenet64-train.npy")
    assert np.array_equal(content(data.validation), faces[300:]) and np.array_equal(content(data.test), faces[400:])
    np.save(tmp_path / "train_2.npy", faces)
    with pytest.raises(ValueError, match=r"contains 4 \.npy files, 2 of them with train in the name"):
        open_data(tmp_path)


def test_arrays_are_resized_and_recoloured(tmp_path: Path, faces: FaceArray) -> None:
    np.save(tmp_path / "faces.npy", faces[:, 4:28])  # 32 wide, 24 high
    data = open_data(tmp_path / "faces.npy", size=12, channels=1)
    picture = Image.fromarray(faces[7][4:28, 4:28]).convert("L").resize((12, 12), Image.Resampling.LANCZOS)
    assert np.array_equal(data.train.images[7, :, :, 0], np.asarray(picture))
    np.save(tmp_path / "grey.npy", faces[:, :, :, 0])
    data = open_data(tmp_path / "grey.npy", channels=3)
    assert np.array_equal(data.train.images, np.repeat(faces[:, :, :, :1], 3, axis=3))


def test_unusable_arrays_are_rejected(tmp_path: Path, faces: FaceArray) -> None:
    path = tmp_path / "x.npy"

    def refused(array: NDArray[np.generic], words: str) -> None:
        np.save(path, array)
        with pytest.raises(ValueError, match=words):
            open_data(path)

    refused(faces / 255, r"x\.npy contains float64 values, expected uint8: store grey levels from 0 to 255")
    refused(faces.reshape(512, -1), r"x\.npy has the shape \[512, 3072\], expected images of shape \[N, height")
    refused(np.zeros((5, 8, 8, 2), dtype=np.uint8), r"has the shape \[5, 8, 8, 2\]")
    refused(faces[:, :20], "contains images of 32 x 20 pixels, expected square images: give --size with the")
    refused(faces[:0], "contains no images")
    path.write_bytes(path.read_bytes()[:50])
    with pytest.raises(ValueError, match=r"x\.npy is not a complete \.npy file of numbers"):
        open_data(path)
    np.save(path, faces)
    path.write_bytes(path.read_bytes()[:-1000])
    with pytest.raises(ValueError, match=r"is not a complete \.npy file of numbers"):
        open_data(path)
    np.save(path, np.array([{}, None], dtype=object), allow_pickle=True)
    with pytest.raises(ValueError, match=r"is not a complete \.npy file of numbers"):
        open_data(path)


def test_unusable_npz_files_are_rejected(tmp_path: Path, faces: FaceArray) -> None:
    path = tmp_path / "x.npz"

    def refused(words: str, **arrays: NDArray[np.generic]) -> None:
        np.savez(path, **arrays)  # type: ignore[arg-type]
        with pytest.raises(ValueError, match=words):
            open_data(path)

    refused(r"has no array called images \(it contains photos\)", photos=faces)
    refused("has 512 images and 3 labels, expected one label per image", images=faces, labels=np.arange(3))
    refused(r"are float64 values of shape \[512\], expected one whole number", images=faces, labels=np.zeros(512))
    np.savez(path, images=faces)
    whole = path.read_bytes()
    for broken in (whole[:-500], whole[:500_000] + bytes(100) + whole[500_100:], b"PK nonsense", b"nonsense"):
        path.write_bytes(broken)
        with pytest.raises(ValueError, match=r"x\.npz is not a complete \.npz file"):
            open_data(path)
    np.save(tmp_path / "y.npy", faces)
    (tmp_path / "y.npy").rename(path)
    with pytest.raises(ValueError, match=r"is not a complete \.npz file"):
        open_data(path)


def test_train_and_test_must_agree(tmp_path: Path, faces: FaceArray) -> None:
    np.save(tmp_path / "train.npy", faces)
    np.save(tmp_path / "test.npy", faces[:, :20, :20])
    with pytest.raises(ValueError, match=r"different shapes \(32 x 32 x 3 and 20 x 20 x 3\)"):
        open_data(tmp_path / "train.npy")
    assert open_data(tmp_path / "train.npy", size=20).test.size == 20
    np.savez(tmp_path / "train-0.npz", images=faces)
    np.savez(tmp_path / "train-1.npz", images=faces[..., 0])
    with pytest.raises(ValueError, match=r"different shapes \(\[32, 32, 3\] in train-0.npz and \[32, 32\] in train-1"):
        open_data(tmp_path)


def claiming(shape: str, stored: bytes) -> bytes:
    """Return a .npy file whose header states this shape."""
    header = f"{{'descr': '|u1', 'fortran_order': False, 'shape': {shape}, }}".encode()
    header += b" " * (-(10 + len(header) + 1) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + stored


def test_headers_that_claim_too_much_are_refused(tmp_path: Path) -> None:
    for shape in ("(1000000000000, 8, 8, 3)", "(-1, 8, 8, 3)", "(1, 8, 8, 3, 99)"):
        with zipfile.ZipFile(tmp_path / "x.npz", "w") as archive:
            archive.writestr("images.npy", claiming(shape, bytes(192)))
        with pytest.raises(ValueError, match=r"x\.npz is not a complete \.npz file"):
            open_data(tmp_path / "x.npz")
        (tmp_path / "x.npy").write_bytes(claiming(shape, bytes(192)))
        with pytest.raises(ValueError, match=r"x\.npy is not a complete \.npy file"):
            open_data(tmp_path / "x.npy")


def test_images_without_pixels_are_refused(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "x.npz", "w") as archive:  # an index of the images would take 8 TB
        archive.writestr("images.npy", claiming("(1000000000000, 0, 0, 3)", b""))
    with pytest.raises(ValueError, match="contains images of 0 x 0 pixels, expected at least 1 x 1"):
        open_data(tmp_path / "x.npz")


def test_an_npz_bomb_is_not_inflated(tmp_path: Path) -> None:
    path = tmp_path / "x.npz"
    np.savez_compressed(path, images=np.zeros((2, 8, 8, 3), dtype=np.uint8))
    data = bytearray(path.read_bytes())
    at = data.index(b"PK\x01\x02")
    data[at + 24 : at + 28] = (3 * 10**9).to_bytes(4, "little")
    path.write_bytes(data)
    with pytest.raises(ValueError, match="it would inflate to 3,000,000,000 bytes"):
        open_data(path)


@pytest.mark.parametrize("label", [-1, 10**12])
def test_labels_of_arrays_must_be_numbers_of_classes(tmp_path: Path, faces: FaceArray, label: int) -> None:
    np.savez(tmp_path / "x.npz", images=faces[:2], labels=np.array([0, label]))
    with pytest.raises(ValueError, match="expected numbers from 0 to 999,999: number the classes from 0"):
        open_data(tmp_path / "x.npz")


def test_an_npz_file_with_the_suffix_npy_is_refused(tmp_path: Path, faces: FaceArray) -> None:
    np.savez(tmp_path / "x.npz", images=faces[:2])
    (tmp_path / "x.npz").rename(tmp_path / "x.npy")
    with pytest.raises(ValueError, match="it contains several arrays"):
        open_data(tmp_path / "x.npy")
