"""Pictures appear all together or not at all."""

import json
import os
import resource
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from condvae.images.atomic_folder import AtomicFolder, stem_of
from condvae.images.picture_formats import SAVE_OPTIONS
from condvae.images.recorded_files import COMPLETIONS, SAMPLES, RecordKind


def picture(level: int = 0) -> Image.Image:
    return Image.new("L", (2, 2), level)


def test_pictures_appear_at_the_end(tmp_path: Path) -> None:
    out = tmp_path / "a" / "b"
    with AtomicFolder(out, kind=SAMPLES) as album:
        album.put("1.png", picture())
        assert not (out / "1.png").exists()
        album.put("2.png", picture())
    assert sorted(path.name for path in out.iterdir()) == ["1.png", "2.png"]


def test_colour_profiles_are_written_in_every_format(tmp_path: Path) -> None:
    image = picture()
    image.info["icc_profile"] = bytes(range(200))
    names = ("a.png", "a.jpg", "a.webp", "a.tiff")
    with AtomicFolder(tmp_path, kind=SAMPLES) as album:
        for name in names:
            album.put(name, image)
    for name in names:
        with Image.open(tmp_path / name) as written:
            assert written.info["icc_profile"] == image.info["icc_profile"]


def test_a_failure_leaves_nothing(tmp_path: Path) -> None:
    def interrupted() -> None:
        with AtomicFolder(tmp_path / "a" / "b", kind=SAMPLES) as album:
            album.put("1.png", picture())
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert list(tmp_path.iterdir()) == []


def test_a_signal_at_the_start_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(self: Path) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "touch", interrupted)
    for new in (True, False):
        with pytest.raises(KeyboardInterrupt), AtomicFolder(tmp_path / "a" / "b", kind=SAMPLES, new=new):
            raise AssertionError
        assert list(tmp_path.iterdir()) == []


def test_a_failure_keeps_earlier_files(tmp_path: Path) -> None:
    with AtomicFolder(tmp_path, kind=SAMPLES) as album:
        album.put("1.png", picture(7))
    (tmp_path / "sheet.png").mkdir()

    def obstructed() -> None:
        with AtomicFolder(tmp_path, kind=SAMPLES) as album:
            album.put("2.png", picture(9))
            album.put("sheet.png", picture())

    with pytest.raises(ValueError, match=r"sheet\.png is a folder"):
        obstructed()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["1.png", "sheet.png"]
    with Image.open(tmp_path / "1.png") as kept:
        assert kept.getpixel((0, 0)) == 7


def test_a_place_that_cannot_be_written_to_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    for out in (tmp_path / "file", tmp_path / "file" / "deep"):
        with (
            pytest.raises(ValueError, match=r"cannot be written to .*: give another folder"),
            AtomicFolder(out, kind=SAMPLES),
        ):
            raise AssertionError
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def written(folder: Path, *names: str, kind: RecordKind = SAMPLES, level: int = 7, new: bool = False) -> list[str]:
    """Write pictures, a sheet and a record to a folder; return what was said."""
    said: list[str] = []
    with AtomicFolder(folder, kind=kind, new=new, say=said.append) as album:
        for name in (*names, "sheet.png"):
            album.put(name, picture(level))
        album.write_record({"seed": 0}, [{"outputs": [name]} for name in names], ["sheet.png"])
    return said


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def level(path: Path) -> int:
    with Image.open(path) as found:
        return int(found.getpixel((0, 0)))  # type: ignore[arg-type]


def test_files_that_are_not_from_an_earlier_call_stay(tmp_path: Path) -> None:
    assert written(tmp_path, "old.png", "older.png") == []
    picture(7).save(tmp_path / "mine.png")
    with AtomicFolder(tmp_path, kind=SAMPLES) as album:
        album.put("old.png", picture(9))
        with pytest.raises(ValueError, match=r"mine\.png already exists"):
            album.put("mine.png", picture(9))
        album.write_record({}, [{"outputs": ["old.png"]}], [])
    assert names_in(tmp_path) == ["mine.png", "old.png", "record.json"]
    assert (level(tmp_path / "mine.png"), level(tmp_path / "old.png")) == (7, 9)


def test_replaced_files_are_reported(tmp_path: Path) -> None:
    written(tmp_path, "1.png", "2.png")
    assert written(tmp_path, "1.png", level=9) == [f"replaced the 4 files of an earlier call in {tmp_path}"]
    assert names_in(tmp_path) == ["1.png", "record.json", "sheet.png"]
    assert level(tmp_path / "1.png") == 9
    with pytest.raises(ValueError, match=r"contains files of an earlier condvae sample: give another folder"):
        written(tmp_path, "3.png", kind=COMPLETIONS)
    assert names_in(tmp_path) == ["1.png", "record.json", "sheet.png"]


def test_new_folders_are_numbered(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out-2").write_text("a file")
    written(tmp_path / "out", "1.png", new=True)
    written(tmp_path / "out", "1.png", new=True)
    assert names_in(tmp_path) == ["out", "out-2", "out-3", "out-4"]
    assert names_in(tmp_path / "out") == []

    def interrupted() -> None:
        with (
            AtomicFolder(tmp_path / "out", kind=SAMPLES, new=True) as one,
            AtomicFolder(tmp_path / "out", kind=SAMPLES, new=True) as other,
        ):
            assert (one.folder.name, other.folder.name) == ("out-5", "out-6")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert names_in(tmp_path) == ["out", "out-2", "out-3", "out-4"]


def killed(folder: Path, when: str, *names: str, new: bool = False) -> None:
    """Do in another process what `written` does, and end that process at a moment, as SIGKILL would."""
    child = os.fork()
    if child == 0:
        moves = 0
        replace = os.replace

        def counting(source: Path, to: Path) -> None:
            nonlocal moves
            if f"move {moves}" == when:
                os._exit(1)
            replace(source, to)
            moves += 1

        os.replace = counting  # type: ignore[assignment]
        try:
            with AtomicFolder(folder, kind=SAMPLES, new=new) as album:
                album.put(names[0], picture(9))
                if when == "early":
                    os._exit(1)
                for name in (*names[1:], "sheet.png"):
                    album.put(name, picture(9))
                album.write_record({}, [{"outputs": [name]} for name in names], ["sheet.png"])
        finally:
            os._exit(0)
    assert os.waitpid(child, 0)[1] != 0


@pytest.mark.parametrize("when", ["early", *(f"move {k}" for k in range(9))])
def test_the_next_call_replaces_what_a_killed_one_has_left(tmp_path: Path, when: str) -> None:
    written(tmp_path, "1.png", "2.png", "3.png")  # with the sheet and the record, five files to move away
    killed(tmp_path, when, "1.png", "4.png")  # and four files to move in
    (left,) = tmp_path.glob(".unfinished-*")
    assert left.is_dir()
    picture(3).save(tmp_path / "mine.png")
    written(tmp_path, "5.png", level=5)
    assert names_in(tmp_path) == ["5.png", "mine.png", "record.json", "sheet.png"]
    assert (level(tmp_path / "5.png"), level(tmp_path / "mine.png")) == (5, 3)


@pytest.mark.parametrize("second", ["early", "move 0", "move 2", "move 4"])
@pytest.mark.parametrize("first", ["move 1", "move 3", "move 6", "move 8"])
def test_two_kills_in_a_row(tmp_path: Path, first: str, second: str) -> None:
    """Which files are ours is still known if the next call is killed too, or fails."""
    written(tmp_path, "1.png", "2.png", "3.png")
    picture(3).save(tmp_path / "mine.png")
    killed(tmp_path, first, "1.png", "4.png")
    killed(tmp_path, second, "1.png", "2.png")
    with pytest.raises(KeyboardInterrupt), AtomicFolder(tmp_path, kind=SAMPLES):
        raise KeyboardInterrupt
    written(tmp_path, "5.png", level=5)
    assert names_in(tmp_path) == ["5.png", "mine.png", "record.json", "sheet.png"]
    assert (level(tmp_path / "5.png"), level(tmp_path / "mine.png")) == (5, 3)


def test_a_second_call_learns_at_once_that_the_folder_is_in_use(tmp_path: Path) -> None:
    killed(tmp_path / "out", "early", "1.png")
    with AtomicFolder(tmp_path / "out", kind=SAMPLES) as slow:
        (hidden,) = (tmp_path / "out").iterdir()  # that of the killed call was removed
        slow.put("1.png", picture(7))
        with (
            pytest.raises(ValueError, match=r"another condvae call is writing to .*out: wait for it, or give another"),
            AtomicFolder(tmp_path / "out", kind=SAMPLES),
        ):
            raise AssertionError
        assert (hidden / "1.png").is_file()
    assert level(tmp_path / "out" / "1.png") == 7


def test_a_new_folder_may_be_one_that_only_a_killed_call_has_used(tmp_path: Path) -> None:
    killed(tmp_path / "new", "early", "1.png", new=True)
    written(tmp_path / "new", "1.png", new=True)
    assert names_in(tmp_path) == ["new"]
    assert names_in(tmp_path / "new") == ["1.png", "record.json", "sheet.png"]


def test_a_hidden_folder_of_the_user_is_kept(tmp_path: Path) -> None:
    mine = tmp_path / ".unfinished-sketches"
    (mine / "earlier").mkdir(parents=True)
    picture().save(mine / "drawing.png")
    written(tmp_path, "1.png")
    assert names_in(mine) == ["drawing.png", "earlier"]


def test_only_files_as_they_were_written_are_replaced(tmp_path: Path) -> None:
    """The user has put other things in the places of 2.png to 4.png."""
    written(tmp_path, "1.png", "2.png", "3.png", "4.png")
    for name in ("2.png", "3.png", "4.png"):
        (tmp_path / name).unlink()
    (tmp_path / "2.png").mkdir()
    (tmp_path / "2.png" / "thesis.txt").write_text("mine")
    (tmp_path / "3.png").symlink_to("nowhere")
    picture(9).save(tmp_path / "4.png")
    written(tmp_path, "1.png", level=5)
    assert (tmp_path / "2.png" / "thesis.txt").read_text() == "mine"
    assert (tmp_path / "3.png").is_symlink() and level(tmp_path / "4.png") == 9
    assert level(tmp_path / "1.png") == 5


def test_a_record_without_digests_gives_no_file_away(tmp_path: Path) -> None:
    record = {"format": SAMPLES.format, "images": [{"outputs": ["holiday.png"]}], "sheets": []}
    (tmp_path / SAMPLES.file).write_text(json.dumps(record))
    picture(9).save(tmp_path / "holiday.png")
    written(tmp_path, "1.png")
    assert level(tmp_path / "holiday.png") == 9


def test_an_interrupt_while_files_appear_lets_all_appear(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written(tmp_path, "1.png", "2.png")
    moved: list[str] = []
    replace = os.replace

    def interrupted(source: Path, to: Path) -> None:
        replace(source, to)
        moved.append(Path(to).name)
        if len(moved) == 6:
            raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        written(tmp_path, "1.png", "3.png", level=9)
    assert names_in(tmp_path) == ["1.png", "3.png", "record.json", "sheet.png"]
    assert level(tmp_path / "1.png") == level(tmp_path / "3.png") == 9


def test_formats_keep_pixels_or_are_close(tmp_path: Path) -> None:
    colours = np.random.default_rng(0).integers(256, size=(16, 16, 3), dtype=np.uint8)
    with AtomicFolder(tmp_path, kind=SAMPLES) as album:
        for name in SAVE_OPTIONS:
            album.put(f"1.{name}", Image.fromarray(colours))
    found = {name: np.asarray(Image.open(tmp_path / f"1.{name}").convert("RGB")) for name in SAVE_OPTIONS}
    assert (found["png"] == colours).all() and (found["webp"] == colours).all()
    assert (
        0 < np.abs(found["jpg"].astype(int) - colours).mean() < 4
    )  # 3.3; with fewer colour samples 48, with quality 75 15


def test_a_full_disk_gives_one_sentence_and_leaves_nothing(tmp_path: Path) -> None:
    out = tmp_path / "out"

    def filled(text: bool) -> None:
        with AtomicFolder(out, kind=SAMPLES) as album:
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


def test_stems_are_valid_text_and_not_too_long() -> None:
    assert stem_of(Path("a/b.c.png")) == "b.c"
    assert stem_of(Path(os.fsdecode(b"a\xff\xfe.png"))) == "a??"
    assert stem_of(Path("\N{SNOWMAN}" * 50 + ".png")) == "\N{SNOWMAN}" * 33
