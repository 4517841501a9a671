import io
import json
import os
import struct
import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.fixtures import FIXTURES
from numpy.typing import NDArray
from PIL import Image

from condvae.data import Dataset, ImageSet, open_data
from condvae.data.image_folders import FINDINGS

FaceArray = NDArray[np.uint8]
FACES = FIXTURES / "faces32.zip"


def content(images: ImageSet) -> FaceArray:
    return images.images[images.rows]


def sizes(data: Dataset) -> list[int]:
    return [len(part) for part in (data.train, data.validation, data.test)]


def write(root: Path, files: dict[str, bytes]) -> Path:
    """Write files to a folder, or to a zip if the name of `root` ends with .zip."""
    if root.suffix == ".zip":
        with zipfile.ZipFile(root, "w") as archive:
            for name, held in files.items():
                archive.writestr(name, held)
    else:
        for name, held in files.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_bytes(held)
    return root


def png(image: FaceArray) -> bytes:
    file = io.BytesIO()
    Image.fromarray(image).save(file, "png")
    return file.getvalue()


def test_the_pack_of_faces(faces: FaceArray, face_files: dict[str, bytes]) -> None:
    data = open_data(FACES)
    trained = np.array([name.startswith("train/") for name in face_files])
    assert data.kind == "pack" and data.flips and data.skipped == ()
    assert len(data.test) == (~trained).sum() and len(data.train) + len(data.validation) == trained.sum()
    with zipfile.ZipFile(FACES) as archive:
        table = dict(json.loads(archive.read("dataset.json"))["labels"])
    expected = {face.tobytes(): table[name] for name, face in zip(face_files, faces, strict=True)}
    for part in (data.train, data.validation, data.test):
        assert part.labels is not None
        for face, label in zip(content(part), part.labels[part.rows], strict=True):
            assert expected.pop(face.tobytes()) == label
    assert not expected


@pytest.mark.parametrize("place", ["photos", "photos.zip"])
def test_images_keep_the_names_of_their_files(
    tmp_path: Path, faces: FaceArray, face_files: dict[str, bytes], place: str
) -> None:
    """Also if a broken file is left out, and in sets that are held out at random."""
    chosen = [name for name in face_files if name.startswith("train/")][:30]
    files = {f"top/{name.removeprefix('train/')}": face_files[name] for name in chosen}
    shown = {f"top/{Path(name).name}": face for name, face in zip(face_files, faces, strict=True) if name in chosen}
    files[next(iter(files))] = b"broken"
    data = open_data(write(tmp_path / place, files))
    found: list[str] = []
    for part in (data.train, data.validation, data.test):
        assert part.names is not None
        for name, face in zip(part.names, content(part), strict=True):
            assert np.array_equal(shown[name], face)
        found += part.names
    assert sorted(found) == sorted(name for name in files if files[name] != b"broken")


@pytest.mark.parametrize("place", ["photos", "photos.zip"])
@pytest.mark.parametrize("top", ["", "inner/"])
def test_any_folder_or_zip(
    tmp_path: Path, faces: FaceArray, face_files: dict[str, bytes], place: str, top: str
) -> None:
    names = list(face_files)
    files = {f"{top}{name}": held for name, held in face_files.items()}
    files |= {
        f"{top}.hidden/a.jpg": b"x",
        "__MACOSX/train/._b.jpg": b"x",
        f"{top}train/.c.png": b"x",
        f"{top}readme.txt": b"x",
    }
    data = open_data(write(tmp_path / place, files))
    assert data.kind == "images" and data.skipped == () and data.train.labels is None
    assert np.array_equal(data.train.images, faces)
    assert set(data.test.rows) == {i for i, name in enumerate(names) if name.startswith("test/")}
    assert sum(sizes(data)) == 512


def test_own_validation_folder(tmp_path: Path, faces: FaceArray) -> None:
    files = {f"{'train' if i < 20 else 'val'}/{i:03}.png": png(faces[i]) for i in range(30)}
    data = open_data(write(tmp_path / "a", files))
    assert sizes(data) == [18, 10, 2] and data.validation.rows.tolist() == list(range(20, 30))
    files |= {f"test/{i}.png": png(faces[i]) for i in range(30, 34)} | {"extra/1.png": png(faces[40])}
    data = open_data(write(tmp_path / "b", files))
    assert sizes(data) == [20, 10, 4] and len(data.skipped) == 1 and str(tmp_path / "b") in data.skipped[0]
    with pytest.raises(ValueError, match=r"no images left to train on \(0 are used for validation and 4 for testing\)"):
        open_data(write(tmp_path / "c", {f"test/{i}.png": png(faces[i]) for i in range(4)}))


def test_two_images_are_enough(tmp_path: Path, faces: FaceArray) -> None:
    data = open_data(write(tmp_path / "two", {"a.png": png(faces[0]), "b/c.PNG": png(faces[1])}))
    assert sizes(data) == [2, 0, 0] and np.array_equal(content(data.train), faces[:2])
    assert data.validation.take(np.arange(0)).images.shape == (0, 3, 32, 32)


def test_broken_files_are_skipped_and_named(tmp_path: Path, faces: FaceArray, face_files: dict[str, bytes]) -> None:
    whole = dict(list(face_files.items())[:40])
    names = list(whole)
    whole[names[3]] = whole[names[3]][:400]  # cut short
    whole[names[8]] = b""
    whole[names[9]] = b"<html>404</html>"
    for place in ("photos", "photos.zip"):
        data = open_data(write(tmp_path / place, whole))
        assert [line.split(": ")[0] for line in data.skipped] == [names[3], names[8], names[9]]
        assert all(len(line.split(": ", 1)[1]) > 5 and "\n" not in line for line in data.skipped)
        used = sorted(np.concatenate([data.train.rows, data.validation.rows, data.test.rows]))
        assert used == [i for i in range(40) if i not in (3, 8, 9)]
        assert np.array_equal(content(data.train), faces[data.train.rows])
    for bad in (b"", whole[names[3]]):  # without a header, and with one
        with pytest.raises(ValueError, match=r"none of the 2 images in .* can be read \(a\.jpg: .*\)"):
            open_data(write(tmp_path / f"bad{len(bad)}", {"a.jpg": bad, "b.jpg": bad}))


def test_a_damaged_member_of_a_zip_is_skipped(tmp_path: Path, faces: FaceArray) -> None:
    path = write(tmp_path / "a.zip", {f"{i}.png": png(faces[i]) for i in range(3)})
    held = bytearray(path.read_bytes())
    held[held.index(png(faces[1])) + 200] ^= 255
    path.write_bytes(held)
    assert open_data(path).skipped == ("1.png: Bad CRC-32 for file '1.png'",)
    path.write_bytes(held[:-100])
    with pytest.raises(ValueError, match=r"a\.zip is not a whole zip file"):
        open_data(path)


def test_images_of_different_sizes_need_the_option_size(tmp_path: Path, faces: FaceArray) -> None:
    files = {f"{i}.png": png(faces[i]) for i in range(7)} | {"x.png": png(faces[8][:20]), "y.png": png(faces[9][:, :9])}
    path = write(tmp_path / "photos", files)
    with pytest.raises(ValueError, match=r"different sizes \(7 of 32 x 32, 1 of 32 x 20, 1 of 9 x 32\).* --size"):
        open_data(path)
    data = open_data(path, size=16)
    assert sizes(data) == [9, 0, 0] and data.train.size == 16
    with pytest.raises(ValueError, match=r"images that are not square \(1 of 32 x 20\)"):
        open_data(write(tmp_path / "wide", {"x.png": files["x.png"]}))


def test_channels(tmp_path: Path, faces: FaceArray) -> None:
    grey = {f"{i}.png": png(faces[i, :, :, 0]) for i in range(5)}
    file = io.BytesIO()
    Image.fromarray(faces[5, :, :, 0]).convert("RGB").save(file, "webp", lossless=True)
    path = write(tmp_path / "grey", grey | {"5.webp": file.getvalue(), "6.jpg": b"broken"})
    assert np.array_equal(content(open_data(path).train), faces[:6, :, :, :1])
    assert np.array_equal(content(open_data(path, channels=3).train), np.repeat(faces[:6, :, :, :1], 3, axis=3))
    assert open_data(write(tmp_path / "mixed", grey | {"7.png": png(faces[7])})).train.channels == 3
    assert open_data(tmp_path / "mixed", channels=1).train.channels == 1


@pytest.mark.parametrize("place", ["edges2faces", "edges2faces.zip"])
def test_pairs(tmp_path: Path, faces: FaceArray, place: str) -> None:
    edges = 255 - faces
    files = {
        f"{'train' if i < 40 else 'val'}/{i:03}.png": png(np.concatenate([edges[i], faces[i]], axis=1))
        for i in range(50)
    }
    data = open_data(write(tmp_path / place, files))
    assert data.kind == "pairs" and data.flips and sizes(data) == [36, 4, 10]
    levels = data.test.take(np.arange(10))
    assert np.array_equal(levels.images.numpy(), faces[40:50].transpose(0, 3, 1, 2))
    assert levels.paired is not None and np.array_equal(levels.paired.numpy(), edges[40:50].transpose(0, 3, 1, 2))
    assert open_data(tmp_path / place, size=8).train.size == 8


def test_packs_with_findings_and_patients(tmp_path: Path, faces: FaceArray) -> None:
    names = [f"{i:04}.png" for i in range(100)]
    several = [[int(i % (k + 2) == 0) for k in range(14)] for i in range(100)]
    table: dict[str, Any] = {
        "labels": [list(pair) for pair in zip(names[::-1], several, strict=True)],
        "label_names": list(FINDINGS[::-1]),
        "patient_id": [i // 7 for i in range(100)],
        "view": ["PA"] * 100,
    }
    files = {f"pack/{name}": png(faces[i]) for i, name in enumerate(names)}
    files["pack/dataset.json"] = json.dumps(table).encode()
    data = open_data(write(tmp_path / "a.zip", files))
    assert data.kind == "pack" and not data.flips and data.label_names == FINDINGS[::-1]
    assert data.train.labels is not None and np.array_equal(data.train.labels, several)
    assert np.array_equal(data.train.images, faces[99 - np.arange(100)])  # in the order of the table
    patients = [{row // 7 for row in part.rows} for part in (data.train, data.validation, data.test)]
    assert all(patients) and sum(map(len, patients)) == len(set.union(*patients)) == 15
    table["labels"].append(["gone.png", several[0]])
    files["pack/dataset.json"] = json.dumps(table).encode()
    files["pack/more.png"] = png(faces[200])
    data = open_data(write(tmp_path / "b.zip", files))
    assert len(data.skipped) == 2 and all("dataset.json: 1 " in line for line in data.skipped)
    assert data.skipped[1] == "dataset.json: 1 of the 101 image files is not in its list"


def test_all_images_that_a_pack_does_not_list_are_counted(tmp_path: Path, faces: FaceArray) -> None:
    files = {f"{i}.png": png(faces[i]) for i in range(40)}
    files["dataset.json"] = json.dumps({"labels": [[f"{i}.png", 0] for i in range(20)]}).encode()
    path = write(tmp_path / "a", {**files, "3.png": b"broken"})
    expected = "; 21 skipped (dataset.json: 20 of the 40 image files are not in its list; ...)"
    assert open_data(path).summary().endswith(expected)
    assert "; 41 skipped (dataset.json: 20 of" in open_data([path, write(tmp_path / "b", files)]).summary()


def test_unusable_packs_are_rejected(tmp_path: Path, faces: FaceArray) -> None:
    def opened(text: str) -> Dataset:
        return open_data(
            write(tmp_path / "a", {"a.png": png(faces[0]), "b.png": png(faces[1]), "dataset.json": text.encode()})
        )

    assert opened('{"labels": null}').train.labels is None
    assert opened('{"labels": [["a.png", null]]}').train.labels is None
    for text in ("{", "[1]", '{"labels": [1]}', '{"labels": 3}'):
        with pytest.raises(
            ValueError, match=r'dataset.json cannot be read .*: expected JSON such as {"labels": \[\[name'
        ):
            opened(text)
    with pytest.raises(
        ValueError, match=r"none of the images listed in .*dataset.json was found .*first in the list is c\.png"
    ):
        opened('{"labels": [["c.png", 1]]}')
    for labels in ('["a.png", 1], ["b.png", null]', '["a.png", [1]], ["b.png", [1, 0]]', '["a.png", [7]]'):
        with pytest.raises(ValueError, match="has labels of different kinds"):
            opened(f'{{"labels": [{labels}]}}')
    with pytest.raises(ValueError, match="has labels such as 'cat', expected one whole number per image"):
        opened('{"labels": [["a.png", "cat"], ["b.png", "dog"]]}')


def chest(root: Path, faces: FaceArray) -> list[str]:
    """Write Chest X-ray 14 with 100 images of 40 patients, the last 30 images for testing; return their names."""
    names = [f"{i:08}_000.png" for i in range(100)]
    lines = ["Image Index,Finding Labels,Follow-up #,Patient ID,Patient Age"]
    found = ["No Finding", "Mass|Hernia", "Pleural_Thickening"]
    lines += [f"{name},{found[i % 3]},0,{i * 4 // 10},50" for i, name in enumerate(names)]
    files = {f"images_{i % 3:03}/images/{name}": png(faces[i]) for i, name in enumerate(names)}
    files["Data_Entry_2017_v2020.csv"] = "\n".join(lines).encode()
    files["train_val_list.txt"] = "\n".join(names[:70]).encode()
    files["test_list.txt"] = "\n".join(names[70:]).encode()
    write(root, files)
    return names


def test_chest_xray14(tmp_path: Path, faces: FaceArray) -> None:
    names = chest(tmp_path, faces)
    data = open_data(tmp_path)
    assert data.kind == "chest-xray14" and not data.flips and data.label_names == FINDINGS == tuple(sorted(FINDINGS))
    assert data.train.channels == 1 and data.test.rows.tolist() == list(range(70, 100))
    grey = np.stack([np.asarray(Image.fromarray(face).convert("L")) for face in faces[:100]])
    assert np.array_equal(data.train.images[..., 0], grey)
    assert data.train.labels is not None and data.train.labels.shape == (100, 14)
    assert [FINDINGS[k] for k in np.flatnonzero(data.train.labels[1])] == ["Hernia", "Mass"]
    assert not data.train.labels[0].any()
    assert data.test.members is not None
    assert data.test.members.tolist() == [row * 4 // 10 for row in range(70, 100)]  # the patients
    assert 0 < len(data.validation) <= 7
    assert not {row * 4 // 10 for row in data.train.rows} & {row * 4 // 10 for row in data.validation.rows}
    (tmp_path / "images_000" / "images" / names[0]).unlink()
    assert [line.partition(" of")[0] for line in open_data(tmp_path).skipped] == ["Data_Entry_2017_v2020.csv: 1"]
    (tmp_path / "train_val_list.txt").unlink()
    assert len(open_data(tmp_path).test) == 30
    (tmp_path / "test_list.txt").unlink()
    data = open_data(tmp_path)
    patients = [{(row + 1) * 4 // 10 for row in part.rows} for part in (data.train, data.validation, data.test)]
    assert all(patients) and sum(map(len, patients)) == len(set.union(*patients))


def test_unusable_chest_xray14_is_rejected(tmp_path: Path, faces: FaceArray) -> None:
    table = tmp_path / "Data_Entry_2017.csv"
    for text in ("a,b\n1,2\n", "Image Index,Finding Labels,Patient ID\na.png,Mass,seven\n", "Image Index\na.png\n"):
        table.write_text(text)
        with pytest.raises(
            ValueError, match=r"Data_Entry_2017.csv cannot be read .*: expected the columns Image Index"
        ):
            open_data(tmp_path)
    table.write_text("Image Index,Finding Labels,Patient ID\na.png,Gout,7\n")
    with pytest.raises(ValueError, match=r"contains unknown findings \(Gout\)"):
        open_data(tmp_path)
    table.write_text("Image Index,Finding Labels,Patient ID\na.png,Mass,7\n")
    with pytest.raises(ValueError, match=r"contains none of the images listed in Data_Entry_2017.csv"):
        open_data(tmp_path)


def tile(level: int = 0, size: int = 8) -> bytes:
    buffer = io.BytesIO()
    Image.new("L", (size, size), level).save(buffer, "png")
    return buffer.getvalue()


def pack(root: Path, labels: object) -> Path:
    table = labels if isinstance(labels, bytes) else json.dumps({"labels": labels}).encode()
    return write(root, {"a.png": tile(), "b.png": tile(9), "dataset.json": table})


@pytest.mark.parametrize("labels", [[-1, 3], [0, 10**12], [0, 10**20]])
def test_labels_must_be_numbers_of_classes(tmp_path: Path, labels: list[int]) -> None:
    path = pack(tmp_path / "pack", [["a.png", labels[0]], ["b.png", labels[1]]])
    with pytest.raises(ValueError, match=rf"from {min(labels)} to {max(labels)}, expected numbers from 0 to 999,999"):
        open_data(path)
    path = pack(tmp_path / "pack", [["a.png", [0, labels[1]]], ["b.png", [labels[0], 1]]])
    with pytest.raises(ValueError, match="one list of zeros and ones per image"):
        open_data(path)


@pytest.mark.parametrize("name", ["pack", "pack.zip"])
def test_a_hostile_table_of_labels_is_refused_in_one_sentence(tmp_path: Path, name: str) -> None:
    path = pack(tmp_path / name, b"[" * 300_000)
    with pytest.raises(ValueError, match=r"dataset\.json cannot be read \(its lists and mappings are nested more"):
        open_data(path)


def test_a_table_of_four_gigabytes_is_not_read(tmp_path: Path) -> None:
    path = pack(tmp_path / "pack", [["a.png", 0], ["b.png", 1]])
    os.truncate(path / "dataset.json", 2**32)  # the end is a hole in the file, which takes no disk space
    with pytest.raises(
        ValueError, match=r"dataset\.json cannot be read \(it has 4,294,967,296 bytes, expected at most"
    ):
        open_data(path)


def test_an_image_of_many_bytes_or_pixels_is_skipped(tmp_path: Path) -> None:
    header = bytearray(tile())
    header[16:24] = (20_000).to_bytes(4, "big") * 2  # only the header of a picture
    header[29:33] = zlib.crc32(header[12:29]).to_bytes(4, "big")
    path = write(tmp_path / "photos", {"a.png": tile(), "b.png": tile(), "c.png": bytes(header)})
    os.truncate(path / "b.png", 2**32)
    many, bytes_ = open_data(path, size=8).skipped[::-1]
    assert many.startswith("c.png: the image has more than 100 million pixels")
    assert bytes_ == "b.png: it has 4,294,967,296 bytes, expected at most 1,073,741,824"


def test_a_zip_with_a_name_twice_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "a.zip", {"a.png": tile(), "b.png": tile(9)})
    with pytest.warns(UserWarning, match="Duplicate name"), zipfile.ZipFile(path, "a") as archive:
        archive.writestr("a.png", tile(3))
    with pytest.raises(ValueError, match=r"a\.zip cannot be used \(it contains two files named a\.png\): rename one"):
        open_data(path)


def test_a_file_without_a_name_in_a_zip_is_left_out(tmp_path: Path) -> None:
    path = write(tmp_path / "a.zip", {"a.png": tile(), "b.png": tile(9), "x": b""})
    data = bytearray(path.read_bytes())
    at = data.rindex(b"PK\x01\x02")  # the entry of x in the directory: its name becomes a comment
    data[at + 28 : at + 34] = struct.pack("<3H", 0, 0, 1)
    path.write_bytes(data)
    assert len(open_data(path, validation=0).train) == 2


def test_patients_need_numbers_of_64_bits(tmp_path: Path) -> None:
    table = f"Image Index,Finding Labels,Patient ID\na.png,Hernia,{10**30}\n"
    path = write(tmp_path / "xray", {"a.png": tile(), "Data_Entry_2017.csv": table.encode()})
    with pytest.raises(ValueError, match=r"a patient has the number 10000"):
        open_data(path)
    os.truncate(path / "Data_Entry_2017.csv", 2**32)
    with pytest.raises(ValueError, match="it is larger than 128 MiB"):
        open_data(path)
