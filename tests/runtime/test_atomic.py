"""A file is complete under its name, whatever happens while it is written."""

import os
import signal
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from condvae.runtime.atomic import PARTS, clear_away, is_temporary, replacing, write_text, writing


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_new_file_replaces_the_old_one(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    for text in ("old", "new"):
        with replacing(path) as temporary:
            assert temporary.parent == path.parent
            temporary.write_text(text)
            assert not path.exists() or path.read_text() == "old"
        assert path.read_text() == text
    assert names(tmp_path) == ["a.txt"]


@pytest.mark.parametrize("error", [OSError("full"), KeyboardInterrupt()])
def test_a_failure_keeps_the_old_file_and_leaves_nothing_else(tmp_path: Path, error: BaseException) -> None:
    def fail(path: Path, *, folder: bool) -> None:
        with replacing(path) as temporary:
            if folder:
                (temporary / "below").mkdir(parents=True)
            else:
                temporary.write_text("half")
            raise error

    (tmp_path / "a.txt").write_text("old")
    for name, folder in (("a.txt", False), ("b", True)):
        with pytest.raises(type(error)):
            fail(tmp_path / name, folder=folder)
    assert names(tmp_path) == ["a.txt"] and (tmp_path / "a.txt").read_text() == "old"


def test_a_block_that_writes_nothing_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("old")
    with pytest.raises(FileNotFoundError), replacing(tmp_path / "a.txt"):
        pass
    assert (tmp_path / "a.txt").read_text() == "old"


def test_a_folder_is_replaced_only_if_it_is_empty(tmp_path: Path) -> None:
    path = tmp_path / "folder"
    path.mkdir()
    with replacing(path) as temporary:
        temporary.mkdir()
        (temporary / "one").write_text("1")
    with pytest.raises(OSError), replacing(path) as temporary:  # noqa: PT011
        temporary.mkdir()
    assert names(tmp_path) == ["folder"] and names(path) == ["one"]


def test_a_killed_process_leaves_the_old_file_and_a_temporary_file_that_is_removed_later(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("old")
    code = (
        "import pathlib, sys, time\n"
        "from condvae.runtime.atomic import replacing\n"
        "with replacing(pathlib.Path(sys.argv[1])) as temporary:\n"
        "    temporary.write_text('half')\n"
        "    print('written', flush=True)\n"
        "    time.sleep(60)\n"
    )
    process = subprocess.Popen([sys.executable, "-c", code, str(path)], stdout=subprocess.PIPE)
    assert process.stdout is not None
    with process.stdout as said:
        assert said.readline() == b"written\n"
        process.send_signal(signal.SIGKILL)
        process.wait()
    (left,) = tmp_path.glob(PARTS)
    assert path.read_text() == "old" and left.read_text() == "half" and is_temporary(left)
    (tmp_path / "other").mkdir()
    left.with_name("copy").write_text("half")
    left.with_name("copy").rename(tmp_path / "other" / left.name)
    write_text(path, "new")  # removes what is left for its own path
    assert names(tmp_path) == ["a.txt", "other"]
    clear_away(tmp_path / "other")
    assert names(tmp_path / "other") == []


def test_only_abandoned_temporary_files_are_removed(tmp_path: Path) -> None:
    """Those of running processes stay, those of other machines for an hour, and files of the user for ever."""
    users = [tmp_path / name for name in (".a.part", ".holiday.1.part", ".a.12345678.part", "a.1-0123abcd.part")]
    elsewhere = [tmp_path / name for name in (".a.01234567-1-0123abcd.part", ".a.1-0123abcd.part")]
    with replacing(tmp_path / "mine") as mine:
        for path in (mine, *elsewhere, *users):
            path.write_text("half")
        clear_away(tmp_path)
        assert names(tmp_path) == sorted(path.name for path in (mine, *elsewhere, *users))
        for path in (mine, *elsewhere, *users):
            os.utime(path, (0, 0))
        clear_away(tmp_path)
        assert names(tmp_path) == sorted(path.name for path in (mine, *users))


def test_processes_that_write_the_same_file_do_not_disturb_each_other(tmp_path: Path) -> None:
    path, failures = tmp_path / "a.txt", []

    def write(letter: str) -> None:
        for _ in range(50):
            try:
                write_text(path, 1000 * letter)
                if len(set(path.read_text())) != 1 or path.stat().st_size != 1000:
                    failures.append(letter)
            except ValueError as error:
                failures.append(str(error))

    threads = [threading.Thread(target=write, args=letter) for letter in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures and names(tmp_path) == ["a.txt"]


def test_permissions_are_the_defaults_of_new_files(tmp_path: Path) -> None:
    (tmp_path / "plain").write_text("")
    (tmp_path / "a.txt").write_text("")
    (tmp_path / "a.txt").chmod(0o600)
    write_text(tmp_path / "a.txt", "new")
    with replacing(tmp_path / "folder") as temporary:
        temporary.mkdir()
    (tmp_path / "plain folder").mkdir()
    for made, plain in (("a.txt", "plain"), ("folder", "plain folder")):
        assert stat.S_IMODE((tmp_path / made).stat().st_mode) == stat.S_IMODE((tmp_path / plain).stat().st_mode)


def test_a_file_that_cannot_be_written_is_reported(tmp_path: Path) -> None:
    write_text(tmp_path / "new" / "below" / "a.txt", "made its folder")
    (tmp_path / "file").write_text("")
    with pytest.raises(
        ValueError, match=r"file/a\.txt cannot be written \(File exists\): check the folder and the free disk space"
    ):
        write_text(tmp_path / "file" / "a.txt", "")
    with pytest.raises(ValueError, match=r"b\.txt cannot be written \(full\)"), writing(tmp_path / "b.txt"):
        raise OSError(28, "full")
    assert names(tmp_path) == ["file", "new"]
