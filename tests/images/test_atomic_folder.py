"""Pictures appear all together or not at all."""

import os
import resource
from pathlib import Path

import pytest
from PIL import Image

from condvae.images.atomic_folder import AtomicFolder, stem_of


def picture(level: int = 0) -> Image.Image:
    return Image.new("L", (2, 2), level)


def test_pictures_appear_at_the_end(tmp_path: Path) -> None:
    out = tmp_path / "a" / "b"
    with AtomicFolder(out) as album:
        album.put("1.png", picture())
        assert not (out / "1.png").exists()
        album.put("2.png", picture())
    assert sorted(path.name for path in out.iterdir()) == ["1.png", "2.png"]


def test_colour_profiles_are_written_in_every_format(tmp_path: Path) -> None:
    image = picture()
    image.info["icc_profile"] = bytes(range(200))
    names = ("a.png", "a.jpg", "a.webp", "a.tiff")
    with AtomicFolder(tmp_path) as album:
        for name in names:
            album.put(name, image)
    for name in names:
        with Image.open(tmp_path / name) as written:
            assert written.info["icc_profile"] == image.info["icc_profile"]


def test_a_failure_leaves_nothing(tmp_path: Path) -> None:
    def interrupted() -> None:
        with AtomicFolder(tmp_path / "a" / "b") as album:
            album.put("1.png", picture())
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert list(tmp_path.iterdir()) == []


def test_a_failure_keeps_earlier_files(tmp_path: Path) -> None:
    with AtomicFolder(tmp_path) as album:
        album.put("1.png", picture(7))
    (tmp_path / "sheet.png").mkdir()

    def obstructed() -> None:
        with AtomicFolder(tmp_path) as album:
            album.put("1.png", picture(9))
            album.put("sheet.png", picture())

    with pytest.raises(ValueError, match=r"sheet\.png is a folder"):
        obstructed()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["1.png", "sheet.png"]
    with Image.open(tmp_path / "1.png") as kept:
        assert kept.getpixel((0, 0)) == 7


def test_a_place_that_cannot_be_written_to_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    for out in (tmp_path / "file", tmp_path / "file" / "deep"):
        with pytest.raises(ValueError, match=r"cannot be written to .*: give another folder"), AtomicFolder(out):
            raise AssertionError
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_files_that_are_not_from_an_earlier_call_stay(tmp_path: Path) -> None:
    for name in ("mine.png", "old.png", "older.png"):
        picture(7).save(tmp_path / name)
    album = AtomicFolder(tmp_path, replaces=["old.png", "older.png"])
    with album:
        album.put("old.png", picture(9))
        with pytest.raises(ValueError, match=r"mine\.png already exists"):
            album.put("mine.png", picture(9))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mine.png", "old.png"]
    with Image.open(tmp_path / "mine.png") as kept, Image.open(tmp_path / "old.png") as new:
        assert (kept.getpixel((0, 0)), new.getpixel((0, 0))) == (7, 9)


def test_a_full_disk_gives_one_sentence_and_leaves_nothing(tmp_path: Path) -> None:
    out = tmp_path / "out"

    def filled(text: bool) -> None:
        with AtomicFolder(out) as album:
            if text:
                album.write("a.txt", "x" * 1000)
            album.put("1.png", picture())

    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    for text in (False, True):
        resource.setrlimit(resource.RLIMIT_FSIZE, (10, hard))
        try:
            with pytest.raises(ValueError, match=r"out cannot be written to \(File too large\): give another folder"):
                filled(text)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        assert not out.exists()


def test_a_second_process_with_the_same_folder_replaces_nothing(tmp_path: Path) -> None:
    def both() -> None:
        with AtomicFolder(tmp_path, replaces=[]) as slow:
            slow.put("1.png", picture(7))
            with AtomicFolder(tmp_path, replaces=[]) as quick:
                quick.put("1.png", picture(9))

    with pytest.raises(ValueError, match=r"1\.png already exists"):
        both()
    assert [path.name for path in tmp_path.iterdir()] == ["1.png"]
    with Image.open(tmp_path / "1.png") as kept:
        assert kept.getpixel((0, 0)) == 9


def test_stems_are_valid_text_and_not_too_long() -> None:
    assert stem_of(Path("a/b.c.png")) == "b.c"
    assert stem_of(Path(os.fsdecode(b"a\xff\xfe.png"))) == "a??"
    assert stem_of(Path("\N{SNOWMAN}" * 50 + ".png")) == "\N{SNOWMAN}" * 33
