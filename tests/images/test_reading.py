"""Pictures of every mode are read upright, with their transparency; every failure is a ValueError of one sentence."""

import io
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from helpers.pictures_to_complete import bomb, levels, photo
from PIL import Image, ImageCms, ImageFile

from condvae.images.image_files import MOST_PIXELS
from condvae.images.reading import read_picture
from condvae.runtime.messages import printable

RGB = levels(6, 9)
GREY = RGB[:, :, 1]
ALPHA = np.where(np.arange(9) < 4, 0, 255).astype(np.uint8)[None].repeat(6, axis=0)


def with_alpha(array: np.ndarray, alpha: np.ndarray = ALPHA) -> Image.Image:
    image = Image.fromarray(array)
    image.putalpha(Image.fromarray(alpha))
    return image


@pytest.mark.parametrize(
    ("image", "suffix", "expected"),
    [
        (Image.fromarray(RGB), "png", RGB),
        (Image.fromarray(RGB), "ppm", RGB),
        (Image.fromarray(GREY), "png", GREY),
        (Image.fromarray(GREY).convert("1"), "png", np.asarray(Image.fromarray(GREY).convert("1")) * np.uint8(255)),
        (Image.fromarray(GREY.astype(np.uint16) * 257), "png", GREY),
        (Image.fromarray(GREY.astype(np.uint16) * 257), "tiff", GREY),
        (Image.fromarray(RGB).quantize(16), "gif", np.asarray(Image.fromarray(RGB).quantize(16).convert("RGB"))),
        (Image.fromarray(RGB).convert("CMYK"), "tiff", RGB),
        (with_alpha(RGB), "png", RGB),
        (with_alpha(GREY), "png", GREY),
        (with_alpha(RGB), "webp", None),
    ],
)
def test_modes(tmp_path: Path, image: Image.Image, suffix: str, expected: np.ndarray | None) -> None:
    path = tmp_path / f"a.{suffix}"
    image.save(path)
    for source in (path, str(path), image):
        picture = read_picture(source)
        if expected is not None:
            assert np.array_equal(np.asarray(picture.colours), expected)  # also for transparent pixels
        assert (picture.alpha is not None) == (image.mode in ("LA", "RGBA"))
        if picture.alpha is not None:
            assert np.array_equal(picture.transparent, ALPHA < 128)
            white = np.asarray(picture.on_white())
            assert (white[ALPHA == 0] == 255).all()
            assert np.array_equal(white[ALPHA == 255], np.asarray(picture.colours)[ALPHA == 255])


def test_palettes_and_sixteen_bits_with_a_transparent_colour(tmp_path: Path) -> None:
    few = Image.fromarray(RGB).quantize(8)
    few.save(tmp_path / "few.png", transparency=3)
    few.save(tmp_path / "some.png", transparency=bytes([255, 0, 127, 128]))
    index = np.asarray(few)
    assert np.array_equal(read_picture(tmp_path / "few.png").transparent, index == 3)
    assert np.array_equal(read_picture(tmp_path / "some.png").transparent, (index == 1) | (index == 2))
    soft = with_alpha(RGB).quantize(16)  # a palette in which each colour has an alpha
    expected = np.asarray(soft.convert("RGBA"))[:, :, 3] < 128
    assert soft.mode == "P" and expected.any() and np.array_equal(read_picture(soft).transparent, expected)
    deep = GREY.astype(np.uint16) * 257
    Image.fromarray(deep).save(tmp_path / "deep.png", transparency=int(deep[0, 0]))
    picture = read_picture(tmp_path / "deep.png")
    assert np.array_equal(np.asarray(picture.colours), GREY) and np.array_equal(picture.transparent, deep == deep[0, 0])


@pytest.mark.parametrize("orientation", range(1, 9))
def test_pictures_are_turned_with_their_transparency(tmp_path: Path, orientation: int) -> None:
    from PIL import ImageOps

    exif = Image.Exif()
    exif[0x0112] = orientation
    with_alpha(RGB).save(tmp_path / "a.png", exif=exif)
    with Image.open(tmp_path / "a.png") as image:
        expected = np.asarray(ImageOps.exif_transpose(image))
        loaded = read_picture(image)
    for picture in (read_picture(tmp_path / "a.png"), loaded):
        assert np.array_equal(np.asarray(picture.colours), expected[:, :, :3])
        assert np.array_equal(picture.transparent, expected[:, :, 3] < 128)


def test_sixteen_bits_are_read_at_their_bit_depth_with_a_note(tmp_path: Path) -> None:
    twelve = np.round(GREY * (4095 / 255)).astype(np.uint16)
    largest = f"has 16-bit pixels with levels up to {twelve.max():,}: it is read as a 12-bit image; give --white LEVEL"
    path = tmp_path / "scan.png"
    Image.fromarray(twelve).save(path)
    for source, name in ((path, str(path)), (Image.fromarray(twelve), "the image"), (twelve, "the image")):
        picture = read_picture(source)
        assert np.array_equal(np.asarray(picture.colours), GREY)
        assert [note.startswith(f"{name} {largest}") for note in picture.notes] == [True]
        full = read_picture(source, white=65_535)
        assert np.array_equal(np.asarray(full.colours), np.round(twelve / 257)) and full.notes == ()
    colours = np.round(RGB * (4095 / 255)).astype(np.uint16)
    assert np.array_equal(np.asarray(read_picture(colours).colours), RGB)
    assert np.array_equal(np.asarray(read_picture(GREY, white=3).colours), GREY)  # eight bits do not need it


def test_arrays() -> None:
    for array, expected in (
        (RGB, RGB),
        (GREY, GREY),
        (GREY[:, :, None], GREY),
        (RGB / 255.0, RGB),
        ((GREY / 255.0).astype(np.float32), GREY),
        (RGB[:, ::-1], RGB[:, ::-1]),
    ):
        assert np.array_equal(np.asarray(read_picture(array).colours), expected)
    picture = read_picture(np.dstack([RGB, ALPHA]))
    assert np.array_equal(np.asarray(picture.colours), RGB) and np.array_equal(picture.transparent, ALPHA == 0)
    for bad, message in (
        (GREY > 100, "array of bool"),
        (RGB.astype(np.int32), "array of int32"),
        (RGB / 127.5 - 1, r"numbers from -1 to .*expected numbers in \[0, 1\]"),
        (np.full((4, 4), np.nan), "numbers from nan"),
        (RGB[:, :, :2], r"shape \(6, 9, 2\)"),
        (RGB[None], "expected .H, W. or .* channels: for several images, give a list of arrays"),
        (RGB[:0], "9 x 0 pixels"),
        ([[1, 2]], "is a list, expected a path"),
        (None, "is a NoneType"),
    ):
        with pytest.raises(ValueError, match=message):
            read_picture(bad)  # type: ignore[arg-type]


def test_tensors() -> None:
    rgb = torch.from_numpy(RGB).permute(2, 0, 1)
    grey = torch.from_numpy(GREY.copy())
    for tensor, expected in (
        (rgb, RGB),
        (rgb[None], RGB),
        (rgb / 255, RGB),
        ((rgb / 255).double().requires_grad_(), RGB),
        (grey, GREY),
        (grey[None], GREY),
        (grey[None, None] / 255, GREY),
        (torch.zeros(1, 6, 9, dtype=torch.bfloat16), 0 * GREY),
    ):
        assert np.array_equal(np.asarray(read_picture(tensor).colours), expected)
    clear = torch.cat([rgb, torch.from_numpy(ALPHA)[None]])
    assert np.array_equal(read_picture(clear).transparent, ALPHA == 0)
    for bad, message in (
        (rgb / 127.5 - 1, r"numbers from -1 to .*: convert numbers in \[-1, 1\] with \(x \+ 1\) / 2"),
        (rgb.float(), "numbers from 0 to 254, .*: divide grey levels by 255"),
        (rgb.float() * 10, r"expected numbers in \[0, 1\], or uint8$"),
        (rgb.long(), "array of int64, expected uint8"),
        (rgb > 100, "array of bool"),
        (rgb.permute(1, 2, 0), r"shape \(6, 9, 3\), expected \[C, H, W\] with 1, 3 or 4 channels$"),
        (torch.stack([rgb, rgb]), r"shape \(2, 3, 6, 9\), .*: for several images, give a list of tensors"),
        (rgb[:, :0], "9 x 0 pixels"),
        (rgb.to_sparse(), "the image is damaged, or not an image that can be read"),
    ):
        with pytest.raises(ValueError, match=message):
            read_picture(bad)


def test_open_files(tmp_path: Path) -> None:
    Image.fromarray(RGB).save(tmp_path / "a.png")
    content = (tmp_path / "a.png").read_bytes()
    stream = io.BytesIO(content)
    stream.seek(5)
    for _ in range(2):  # it stays open, and is read from its start
        assert np.array_equal(np.asarray(read_picture(stream).colours), RGB)
    with open(tmp_path / "a.png", "rb") as file:
        picture = read_picture(file)
    assert np.array_equal(np.asarray(picture.colours), RGB) and picture.name.endswith("a.png") and picture.file is None
    with (
        open(tmp_path / "a.png", encoding="latin-1") as text,
        pytest.raises(ValueError, match="open it with mode 'rb'"),
    ):
        read_picture(text)  # type: ignore[arg-type]
    for bad, message in (
        (io.BytesIO(b"no picture"), "the image is not an image that can be read"),
        (io.BytesIO(content[:-30]), "the image is damaged"),
        (io.BytesIO(bomb(10_001, 10_000)), "10001 x 10000 pixels, expected at most 100 million"),
        (file, "a.png .*closed file"),
        (content, r"is a bytes, expected a path, an open binary file, .*: wrap it in io\.BytesIO"),
    ):
        with pytest.raises(ValueError, match=message):
            read_picture(bad)  # type: ignore[arg-type]


def test_masked_arrays() -> None:
    masked = np.zeros(RGB.shape, dtype=bool)
    masked[2, 3, 1] = masked[4, 5] = True
    numbers = RGB / 255.0
    numbers[2, 3, 1], numbers[4, 5] = np.nan, 1e20
    for array in (np.ma.array(RGB, mask=masked), np.ma.array(numbers, mask=masked)):
        picture = read_picture(array)
        assert picture.masked is not None and np.array_equal(picture.masked, masked.any(axis=2))
        assert np.array_equal(np.asarray(picture.colours)[~masked], RGB[~masked])
    assert read_picture(np.ma.array(RGB)).masked is None and read_picture(RGB).masked is None
    assert np.array_equal(read_picture(np.ma.array(GREY, mask=GREY > 9)).masked, GREY > 9)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="numbers from nan"):
        read_picture(np.ma.array(numbers, mask=masked[::-1]))


def test_colour_profiles_are_read_and_do_not_matter(tmp_path: Path) -> None:
    profile = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    images = {"a.png": Image.fromarray(RGB), "b.webp": with_alpha(RGB), "c.tiff": Image.fromarray(RGB).convert("CMYK")}
    images |= {"d.jpg": Image.fromarray(GREY), "e.png": Image.fromarray(RGB).quantize(16)}
    for name, image in images.items():
        for content in (profile, b"nonsense"):
            image.save(tmp_path / name, lossless=True)
            expected = np.asarray(read_picture(tmp_path / name).colours)
            image.save(tmp_path / name, lossless=True, icc_profile=content)
            picture = read_picture(tmp_path / name)
            assert picture.icc_profile == content and np.array_equal(np.asarray(picture.colours), expected)


def test_only_the_first_frame_counts(tmp_path: Path) -> None:
    frames = [Image.fromarray(levels(6, 9, seed=i)).quantize(64) for i in range(3)]
    frames[0].save(tmp_path / "a.gif", save_all=True, append_images=frames[1:])
    picture = read_picture(tmp_path / "a.gif")
    assert np.array_equal(np.asarray(picture.colours), np.asarray(frames[0].convert("RGB")))


def test_files_that_are_not_pictures_are_refused(tmp_path: Path) -> None:
    (tmp_path / "text.png").write_text("no picture")
    (tmp_path / "empty.png").touch()
    buffer = io.BytesIO()
    Image.fromarray(levels(64, 64)).save(buffer, "jpeg")
    (tmp_path / "cut.jpg").write_bytes(buffer.getvalue()[:-500])
    Image.fromarray(np.ones((4, 4), dtype=np.float32)).save(tmp_path / "float.tiff")
    (tmp_path / "vector.png").write_bytes(b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n")
    os.mkfifo(tmp_path / "pipe.png")
    assert not ImageFile.LOAD_TRUNCATED_IMAGES
    for name, message in (
        ("text.png", "text.png is not an image"),
        ("empty.png", "empty.png is not an image"),
        ("cut.jpg", "cut.jpg is damaged, .*truncated"),
        ("float.tiff", "float.tiff .*floating-point pixels"),
        ("vector.png", "vector.png is not an image"),
        ("none.png", "none.png does not exist: check the path"),
        ("pipe.png", "pipe.png is not a regular file"),
        ("", "is a folder, expected an image file"),
    ):
        with pytest.raises(ValueError, match=message) as error:
            read_picture(tmp_path / name)
        assert "\n" not in str(error.value)


def test_damaged_exif_data_do_not_matter(tmp_path: Path) -> None:
    Image.fromarray(RGB).save(tmp_path / "a.png", exif=b"Exif\0\0MM\0*\0\0\0\x08\xff\xff nonsense")
    assert np.array_equal(np.asarray(read_picture(tmp_path / "a.png").colours), RGB)


SCRIPT = """
import resource, sys
from condvae.images.reading import read_picture
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
for path in sys.argv[1:]:
    try:
        read_picture(path)
    except ValueError as error:
        print(error)
after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print((after - before) // 1024)
"""


def test_bombs_are_refused_before_they_are_decoded(tmp_path: Path) -> None:
    assert not np.asarray(Image.open(io.BytesIO(bomb(1500, 1000)))).any()  # such a file could be decoded
    (tmp_path / "bomb.png").write_bytes(bomb(30_000, 30_000))
    (tmp_path / "just.png").write_bytes(bomb(10_001, 10_000))  # Pillow itself would accept it
    assert MOST_PIXELS < 10_001 * 10_000
    words = [str(tmp_path / "bomb.png"), str(tmp_path / "just.png")]
    run = subprocess.run(
        [sys.executable, "-c", SCRIPT, *words], capture_output=True, text=True, check=True, timeout=100
    )
    first, second, mebibytes = run.stdout.strip().splitlines()
    assert "bomb.png has more than 100 million pixels" in first
    assert "just.png is 10001 x 10000 pixels, expected at most 100 million" in second
    assert int(mebibytes) < 50
    assert run.stderr == ""


def test_a_name_is_shown_on_one_line(tmp_path: Path) -> None:
    assert printable("a\nb\udcff.png") == "a?b?.png"
    path = photo(tmp_path / "a\nb.png")
    assert read_picture(path).name.endswith("a?b.png")
