"""Ten thousand damaged files: each is read as a picture or rejected in one sentence, and memory stays bounded."""

import io
import random
import resource
import struct
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from helpers.pictures_to_complete import levels, model_file, photo
from PIL import Image

from condvae.cli import main
from condvae.images.holes import Hole
from condvae.images.reading import read_picture

FILES = 10_500
MOST_MEBIBYTES = 1500
"""The damage may change a header to that of a picture of up to 100 million pixels, the largest size accepted."""


def written(image: Image.Image, kind: str, **options: object) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, kind, **options)
    return buffer.getvalue()


def seeds() -> list[bytes]:
    """Return small picture files of all formats and modes."""
    rgb = levels(12, 10)
    colours, grey = Image.fromarray(rgb), Image.fromarray(rgb[:, :, 0])
    clear = colours.copy()
    clear.putalpha(grey)
    clear_grey = grey.copy()
    clear_grey.putalpha(grey)
    deep = Image.fromarray(rgb[:, :, 0].astype(np.uint16) * 257)
    few, lines = colours.quantize(16), grey.convert("1")
    exif = Image.Exif()
    exif[0x0112] = 6
    return [
        written(colours, "png", exif=exif),
        written(clear, "png"),
        written(clear_grey, "png"),
        written(deep, "png", transparency=300),
        written(few, "png", transparency=2),
        written(lines, "png"),
        written(colours, "jpeg", exif=exif),
        written(grey, "jpeg", progressive=True),
        written(colours.convert("CMYK"), "jpeg"),
        written(few, "gif", transparency=1),
        written(few, "gif", save_all=True, append_images=[few.rotate(90)]),
        written(colours, "bmp"),
        written(few, "bmp"),
        written(colours, "tiff", exif=exif),
        written(clear, "tiff", compression="tiff_lzw"),
        written(deep, "tiff", compression="tiff_deflate"),
        written(colours.convert("CMYK"), "tiff", compression="jpeg"),
        written(lines, "tiff", compression="group4"),
        written(colours, "webp"),
        written(clear, "webp", lossless=True),
        written(colours, "ppm"),
        written(deep, "ppm"),
        written(lines, "ppm"),
    ]


def mutated(content: bytes, chance: random.Random) -> bytes:
    data = bytearray(content)
    for _ in range(chance.choice((1, 1, 2, 4, 16))):
        at = chance.randrange(len(data)) if data else 0
        way = chance.randrange(7)
        if not data:
            break
        if way == 0:
            data[at] ^= 1 << chance.randrange(8)
        elif way == 1:
            data[at] = chance.choice((0, 1, 127, 128, 255))
        elif way == 2:  # the header, with sizes and types
            data[chance.randrange(min(64, len(data)))] = chance.randrange(256)
        elif way == 3:
            del data[at:]
        elif way == 4:
            data[at:at] = chance.randbytes(chance.choice((1, 4, 50)))
        elif way == 5:
            del data[at : at + chance.choice((1, 4, 50))]
        else:
            number = chance.choice((0, 1, 2**15, 2**16 - 1, 2**31 - 1, 2**32 - 1, 30_000))
            data[at : at + 4] = struct.pack(chance.choice("<>") + "I", number)
    return resealed(bytes(data)) if chance.random() < 0.5 else bytes(data)


def resealed(content: bytes) -> bytes:
    """Correct the checksums of a damaged PNG, so that decoders read on; return other files unchanged."""
    if not content.startswith(b"\x89PNG\r\n\x1a\n"):
        return content
    parts, at = [content[:8]], 8
    while at + 12 <= len(content):
        length = int.from_bytes(content[at : at + 4], "big")
        if at + 12 + length > len(content):
            break
        body = content[at + 4 : at + 8 + length]
        parts.append(content[at : at + 4] + body + zlib.crc32(body).to_bytes(4, "big"))
        at += 12 + length
    return b"".join(parts) + content[at:]


def damaged_files(count: int, seed: int) -> Iterator[bytes]:
    chance, whole = random.Random(seed), seeds()
    for i in range(count):
        yield mutated(whole[i % len(whole)], chance)


def peak_mebibytes(*, reset: bool = False) -> int:
    """Return the peak memory of this process; reset=True starts a new measurement, without that of earlier tests."""
    if not Path("/proc/self/clear_refs").exists():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // (2**20 if sys.platform == "darwin" else 2**10)
    if reset:
        Path("/proc/self/clear_refs").write_text("5")
    (line,) = (line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) // 2**10


def test_the_undamaged_files_can_be_read(tmp_path: Path) -> None:
    for content in seeds():
        (tmp_path / "a").write_bytes(content)
        assert sorted(read_picture(tmp_path / "a").size) == [10, 12]


def test_ten_thousand_damaged_files(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path, before = tmp_path / "picture.png", peak_mebibytes(reset=True)
    image = read_picture(levels(12, 10))
    read = refused = masks = 0
    with path.open("wb") as file:  # kept open, because closing a truncated file may wait for the disk
        for i, content in enumerate(damaged_files(FILES, seed=1)):
            file.seek(0)
            file.write(content)
            file.truncate()
            file.flush()
            try:
                if i % 4 == 3:  # read it as a picture of the hidden pixels
                    hidden = Hole(hole=path).hidden(image).pixels
                    assert hidden is not None and hidden.shape == (12, 10) and hidden.dtype == np.bool_
                    masks += 1
                    continue
                picture = read_picture(path)
            except ValueError as error:
                refused += 1
                sentence = str(error)
                assert sentence.startswith(str(path)) and sentence.isprintable()
                assert len(sentence) < len(str(path)) + 300
                continue
            read += 1
            array = np.asarray(picture.colours)
            assert picture.colours.mode in ("L", "RGB") and array.dtype == np.uint8 and array.size
            assert picture.alpha is None or picture.alpha.shape == array.shape[:2]
    assert read + refused + masks == FILES
    assert min(read, refused) > FILES // 10 and masks > FILES // 50
    assert peak_mebibytes() - before < MOST_MEBIBYTES
    assert capfd.readouterr().err == ""  # libtiff must not print its own messages


def test_damaged_files_through_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model, path, mask = model_file(tmp_path), tmp_path / "picture.png", tmp_path / "mask.png"
    whole = photo(tmp_path / "whole.png", 12, 10)
    codes: list[int] = []
    for i, content in enumerate(damaged_files(48, seed=2)):
        out = tmp_path / f"out{i}"
        (mask if i % 3 == 2 else path).write_bytes(content)
        words = [str(whole), "--hole", str(mask)] if i % 3 == 2 else [str(path), "--half", "left"]
        try:
            main(["complete", *words, "--model", str(model), "-n", "1", "-o", str(out)])
            codes.append(0)
            assert (out / "record.json").is_file()
        except SystemExit as stopped:
            codes.append(int(stopped.code or 0))
            assert not out.exists()
            error = capsys.readouterr().err.strip()
            assert error.startswith("condvae: ") and len(error.splitlines()) == 1
    assert set(codes) == {0, 2}
    assert not [entry for entry in tmp_path.iterdir() if entry.name.startswith(".")]
