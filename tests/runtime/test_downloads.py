import os
from dataclasses import replace
from pathlib import Path

import pytest
from helpers.packages import needs_npm, needs_pip, npm_package, only_index, part, wheel

from condvae.runtime import downloads, folders
from condvae.runtime.downloads import from_npm, from_pip
from condvae.runtime.progress import Display, showing

FILES = {"a/one.bin": b"one", "two.bin": b"two", "a/two.bin": b"another two"}
PARTS = {"one": part("a/one.bin", b"one"), "two": part("two.bin", b"two")}


@needs_pip
def test_pip_downloads_files_of_several_packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    only_index(tmp_path, monkeypatch)
    packages = [
        wheel(tmp_path, "condvae_one", {"a/one.bin": b"one"}),
        wheel(tmp_path, "condvae_two", {"two.bin": b"two"}),
    ]
    said: list[str] = []
    assert from_pip(packages, PARTS, otherwise="", say=said.append) == {"one": b"one", "two": b"two"}
    assert said == ["downloading condvae_one==1.0 (1 MB), condvae_two==1.0 (1 MB) with pip ..."]
    with pytest.raises(ValueError, match=r"pip could not download condvae_one==1\.0 .* or walk$"):
        from_pip([replace(packages[0], sha256="0" * 64)], PARTS, otherwise="walk")
    with pytest.raises(ValueError, match=r"missing or altered: two\.bin"):
        from_pip(packages[:1], PARTS, otherwise="")


@needs_npm
def test_npm_downloads_files_of_a_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = npm_package(tmp_path / "index", "condvae-both", FILES)
    said: list[str] = []
    assert from_npm(package, PARTS, otherwise="", say=said.append) == {"one": b"one", "two": b"two"}
    assert len(said) == 1 and said[0].endswith("condvae-both.tgz (1 MB) with npm ...")
    with pytest.raises(ValueError, match=r"unexpected SHA-256"):
        from_npm(replace(package, sha256="0" * 64), PARTS, otherwise="")
    with pytest.raises(ValueError, match=r"missing or altered: a/one\.bin"):
        from_npm(package, {"one": part("a/one.bin", b"two")}, otherwise="")
    with pytest.raises(ValueError, match=r"npm could not download .*/none\.tgz \(.+\): check .*, or walk$"):
        from_npm(replace(package, name=str(tmp_path / "none.tgz")), PARTS, otherwise="walk")


def test_without_pip_or_npm_the_error_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = downloads.Package(name="a@1", sha256="", megabytes=1)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ValueError, match=r"npm is needed to download a@1 .*: install npm \(Node\.js\), or walk"):
        from_npm(package, PARTS, otherwise="walk")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ValueError, match=r"pip is needed to download a@1 .*: install pip, or walk"):
        from_pip([package], PARTS, otherwise="walk")


def test_the_users_cache_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert folders.cache_folder() == tmp_path / "condvae"
    monkeypatch.setenv("XDG_CACHE_HOME", "")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert folders.cache_folder() == tmp_path / ".cache" / "condvae"


def test_a_folder_that_cannot_be_written_to(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for folder in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(ValueError, match=r"cannot be written to \(Not a directory\): choose another folder"):
            folders.check_writable(folder)
    folders.check_writable(tmp_path / "new" / "below")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


@pytest.mark.parametrize(
    ("stderr", "reason"),
    [
        ("npm     error\nnpm error code E404\nnpm error 404 Not Found - GET", "404 Not Found - GET"),
        ("ERROR: one\nERROR: No matching distribution found", "No matching distribution found"),
        ("", "no reason was given"),
    ],
)
def test_the_error_line_of_pip_or_npm(stderr: str, reason: str) -> None:
    assert downloads._error_line(stderr) == reason


def test_the_download_shows_megabytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    # A program that downloads as npm does: it fills its cache, and writes nothing else for a while.
    npm = tmp_path / "npm"
    npm.write_text(
        '#!/bin/sh\nmkdir -p "$npm_config_cache/tmp"\nhead -c 3000000 /dev/zero > "$npm_config_cache/tmp/x"\n'
        "sleep 0.3\necho npm error code broken >&2\nexit 1\n"
    )
    npm.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    package = downloads.Package(name="a@1", sha256="", megabytes=5)
    with (
        showing(Display(first=0, every=0.02, tick=0.01)),
        pytest.raises(ValueError, match="npm could not download a@1"),
    ):
        from_npm(package, PARTS, otherwise="walk")
    assert "downloading: 3 of 5 MB\n" in capsys.readouterr().err
