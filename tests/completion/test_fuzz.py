"""Damaged image files are read, or rejected in one sentence. `tests/campaigns/mutations.py` tries many more."""

import random
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from helpers.file_readers import SIDE, images
from helpers.mutated_files import mutated_png
from helpers.pictures_to_complete import model_file, photo

from condvae.cli import main
from condvae.images.reading import read_picture

FILES = 2_000


def damaged_files(count: int, *, seed: int) -> Iterator[bytes]:
    chance, whole = random.Random(seed), images()
    for i in range(count):
        yield mutated_png(whole[i % len(whole)], chance)


def test_thousands_of_damaged_files(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "picture.png"
    read = refused = 0
    with path.open("wb") as file:  # kept open, because closing a truncated file may wait for the disk
        for content in damaged_files(FILES, seed=1):
            file.seek(0)
            file.write(content)
            file.truncate()
            file.flush()
            try:
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
    assert min(read, refused) > FILES // 10
    assert capfd.readouterr().err == ""  # libtiff must not print its own messages


def test_damaged_files_through_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model, path, mask = model_file(tmp_path), tmp_path / "picture.png", tmp_path / "mask.png"
    whole = photo(tmp_path / "whole.png", SIDE, SIDE)
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
