import io

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image, UnidentifiedImageError

from condvae.images.decode import decode, eight_bits, is_grey, layers, read_header
from condvae.images.image_files import check_pixels

FaceArray = NDArray[np.uint8]


def written(image: Image.Image, kind: str, **options: object) -> io.BytesIO:
    file = io.BytesIO()
    image.save(file, kind, **options)
    file.seek(0)
    return file


def grey_of(face: FaceArray) -> FaceArray:
    return np.asarray(Image.fromarray(face).convert("L"))


@pytest.mark.parametrize("kind", ["png", "bmp", "tiff", "webp"])
def test_rgb_comes_back_exactly(faces: FaceArray, kind: str) -> None:
    file = written(Image.fromarray(faces[0]), kind, **({"lossless": True} if kind == "webp" else {}))
    assert np.array_equal(decode(file, channels=3, size=None), faces[0])
    assert not is_grey(file)
    assert read_header(file) == (32, 32, False)


def test_grey_is_repeated_and_colour_becomes_luminance(faces: FaceArray) -> None:
    grey = grey_of(faces[0])
    for mode, kind in (("L", "png"), ("RGB", "webp")):  # WebP has no grey mode
        file = written(Image.fromarray(grey).convert(mode), kind, **({"lossless": True} if kind == "webp" else {}))
        assert is_grey(file) and read_header(file).grey == (mode == "L")
        assert np.array_equal(decode(file, channels=1, size=None)[:, :, 0], grey)
        assert np.array_equal(decode(file, channels=3, size=None), np.repeat(grey[:, :, None], 3, axis=2))
    file = written(Image.fromarray(faces[0]), "png")
    assert np.array_equal(decode(file, channels=1, size=None)[:, :, 0], grey)


def test_sixteen_bits_are_scaled(faces: FaceArray) -> None:
    grey = grey_of(faces[0])
    for kind in ("png", "tiff"):
        file = written(Image.fromarray(grey.astype(np.uint16) * 257), kind)
        assert read_header(file).grey
        assert np.array_equal(decode(file, channels=1, size=None)[:, :, 0], grey)
    wide = Image.fromarray(np.full((4, 4), 65_536, dtype=np.int32))
    with pytest.raises(ValueError, match="32-bit pixels, so the level of white is unknown"):
        decode(written(wide, "tiff"), channels=1, size=None)
    with pytest.raises(ValueError, match="floating-point pixels, so the level of white is unknown"):
        decode(written(Image.fromarray(np.ones((4, 4), dtype=np.float32)), "tiff"), channels=1, size=None)


@pytest.mark.parametrize(("bits", "largest"), [(8, 255), (10, 256), (10, 1023), (12, 1024), (14, 16_383), (16, 16_384)])
def test_the_bit_depth_is_what_the_largest_level_needs(bits: int, largest: int) -> None:
    levels = np.linspace(0, largest, 64).round().astype(np.uint16).reshape(8, 8)
    expected = np.round(levels / (2**bits - 1) * 255)
    for kind in ("png", "tiff"):
        assert np.array_equal(decode(written(Image.fromarray(levels), kind), channels=1, size=None)[:, :, 0], expected)
    grey, note = eight_bits(levels)
    assert np.array_equal(grey, expected)
    article = "an" if bits == 8 else "a"
    told = f"has 16-bit pixels with levels up to {largest:,}: it is read as {article} {bits}-bit image; give --white"
    assert note.startswith(told) if bits < 16 else not note
    assert np.array_equal(eight_bits(levels, 65_535)[0], np.round(levels / 65_535 * 255))
    clipped = np.round(levels.clip(max=100) / 100 * 255)
    assert np.array_equal(eight_bits(levels, 100)[0], clipped) and eight_bits(levels, 100)[1] == ""


def test_a_level_of_white_in_the_file_is_used() -> None:
    levels = np.linspace(0, 900, 64).round().astype(np.uint16).reshape(8, 8)
    full = np.round(levels / 65_535 * 255)
    pgm = io.BytesIO(
        b"P5 8 8 65535\n" + levels.astype(">u2").tobytes()
    )  # here the level of white is part of the format
    assert np.array_equal(decode(pgm, channels=1, size=None)[:, :, 0], full)
    for most, expected in ((4000, np.round(levels / 4000 * 255)), (65_535, np.round(levels / 1023 * 255))):
        tiff = written(Image.fromarray(levels), "tiff", tiffinfo={281: most})  # MaxSampleValue
        assert np.array_equal(decode(tiff, channels=1, size=None)[:, :, 0], expected)
    wide = written(Image.fromarray(levels.astype(np.int32) * 1000), "tiff")
    assert np.array_equal(np.asarray(layers(Image.open(wide), white=900_000).colours), np.round(levels / 900 * 255))


def test_a_sixteen_bit_file_in_which_white_is_zero_is_not_inverted() -> None:
    levels = np.linspace(0, 4095, 64).round().astype(np.uint16).reshape(8, 8)
    file = written(Image.fromarray(levels), "tiff")
    data = bytearray(file.getvalue())
    place = data.index(bytes([6, 1, 3, 0, 1, 0, 0, 0, 1]))  # tag 262, PhotometricInterpretation: 1, black is zero
    data[place + 8] = 0
    expected = 255 - decode(file, channels=1, size=None)
    assert np.array_equal(decode(io.BytesIO(data), channels=1, size=None), expected)


def test_transparent_pixels_become_white(faces: FaceArray) -> None:
    alpha = np.zeros((32, 32), dtype=np.uint8)
    alpha[:, 16:] = 255
    clear = Image.fromarray(faces[0])
    clear.putalpha(Image.fromarray(alpha))
    result = decode(written(clear, "png"), channels=3, size=None)
    assert (result[:, :16] == 255).all() and np.array_equal(result[:, 16:], faces[0][:, 16:])
    grey = Image.fromarray(grey_of(faces[0]))
    grey.putalpha(Image.fromarray(alpha))
    file = written(grey, "png")
    assert read_header(file).grey
    result = decode(file, channels=1, size=None)
    assert (result[:, :16] == 255).all() and np.array_equal(result[:, 16:, 0], grey_of(faces[0])[:, 16:])


def test_palettes(faces: FaceArray) -> None:
    few = Image.fromarray(faces[0]).quantize(16)
    expected = np.asarray(few.convert("RGB"))
    for kind in ("png", "gif"):
        assert np.array_equal(decode(written(few, kind), channels=3, size=None), expected)
    clear = decode(written(few, "png", transparency=3), channels=3, size=None)
    hidden = np.asarray(few) == 3
    assert hidden.any() and (clear[hidden] == 255).all() and np.array_equal(clear[~hidden], expected[~hidden])


def test_black_and_white_and_cmyk(faces: FaceArray) -> None:
    lines = Image.fromarray(grey_of(faces[0])).convert("1")
    assert np.array_equal(decode(written(lines, "png"), channels=1, size=None)[:, :, 0], np.asarray(lines) * 255)
    printed = Image.fromarray(faces[0]).convert("CMYK")
    result = decode(written(printed, "tiff"), channels=3, size=None)
    assert np.abs(result.astype(int) - faces[0]).max() <= 1


def test_only_the_first_frame_counts(faces: FaceArray) -> None:
    frames = [Image.fromarray(face).quantize(64) for face in faces[:3]]
    file = written(frames[0], "gif", save_all=True, append_images=frames[1:])
    assert np.array_equal(decode(file, channels=3, size=None), np.asarray(frames[0].convert("RGB")))


@pytest.mark.parametrize(("orientation", "turn"), [(3, 2), (6, 3), (8, 1)])
def test_pictures_taken_sideways_are_turned_upright(faces: FaceArray, orientation: int, turn: int) -> None:
    exif = Image.Exif()
    exif[0x0112] = orientation
    seen = faces[0][:, :20]  # the pixels in the file
    for kind in ("png", "tiff"):
        file = written(Image.fromarray(seen), kind, exif=exif)
        upright = np.rot90(seen, turn)
        assert np.array_equal(decode(file, channels=3, size=None), upright)
        assert read_header(file)[:2] == (upright.shape[1], upright.shape[0])


@pytest.mark.parametrize("orientation", range(1, 9))
def test_orientations_agree_with_pillow(faces: FaceArray, orientation: int) -> None:
    from PIL import ImageOps

    exif = Image.Exif()
    exif[0x0112] = orientation
    file = written(Image.fromarray(faces[0]), "jpeg", exif=exif)
    expected = np.asarray(ImageOps.exif_transpose(Image.open(file)))
    file.seek(0)
    assert np.array_equal(decode(file, channels=3, size=None), expected)


def test_the_centre_is_cropped_and_resized(faces: FaceArray) -> None:
    wide = np.zeros((32, 50, 3), dtype=np.uint8)
    wide[:, 9:41] = faces[0]
    file = written(Image.fromarray(wide), "png")
    assert np.array_equal(decode(file, channels=3, size=32), faces[0])
    small = np.asarray(Image.fromarray(faces[0]).resize((8, 8), Image.Resampling.LANCZOS))
    assert np.array_equal(decode(file, channels=3, size=8), small)
    # Shrinking averages, so that stripes become their mean grey.
    stripes = np.zeros((64, 64), dtype=np.uint8)
    stripes[:, ::2] = 255
    result = decode(written(Image.fromarray(stripes), "png"), channels=1, size=8)
    assert np.abs(result.astype(int) - 127).max() < 10


def test_pairs_are_fitted_one_by_one(faces: FaceArray) -> None:
    file = written(Image.fromarray(np.concatenate([faces[0], faces[1]], axis=1)), "png")
    assert np.array_equal(decode(file, channels=3, size=None, pair=True), np.concatenate([faces[0], faces[1]], axis=1))
    result = decode(file, channels=3, size=16, pair=True)
    halves = [Image.fromarray(face).resize((16, 16), Image.Resampling.LANCZOS) for face in faces[:2]]
    assert np.array_equal(result, np.concatenate([np.asarray(half) for half in halves], axis=1))


def test_other_formats_are_refused_whatever_the_name() -> None:
    """Pillow would start Ghostscript for this one."""
    postscript = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 8 8\n%%EndComments\nshowpage\n%%EOF\n"
    for read in (read_header, is_grey):
        with pytest.raises(UnidentifiedImageError):
            read(io.BytesIO(postscript))


def test_pictures_of_extreme_length_are_refused() -> None:
    with pytest.raises(ValueError, match="100001 x 1 pixels, expected at most 100,000 pixels in each direction"):
        check_pixels(100_001, 1, "the image")


def test_a_colour_in_the_last_pixel_is_noticed() -> None:
    """Large pictures are compared in strips."""
    for size, pixel in (((3000, 801), (2999, 800)), ((8, 8), (7, 7))):
        image, file = Image.new("RGB", size), io.BytesIO()
        image.save(file, "bmp")
        assert is_grey(file)
        image.putpixel(pixel, (0, 0, 1))
        image.save(file := io.BytesIO(), "bmp")
        assert not is_grey(file)
