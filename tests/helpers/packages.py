"""Small packages that pip and npm can install from a folder, without a network."""

import hashlib
import importlib.util
import io
import json
import shutil
import tarfile
import zipfile
from collections.abc import Mapping
from pathlib import Path

import pytest

from condvae.runtime.downloads import Package, PackageFile

needs_pip = pytest.mark.skipif(importlib.util.find_spec("pip") is None, reason="pip is not installed")
needs_npm = pytest.mark.skipif(shutil.which("npm") is None, reason="npm is not installed")


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def part(path: str, data: bytes) -> PackageFile:
    return PackageFile(path=path, sha256=sha256(data))


def only_index(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make pip look for packages only in this folder."""
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))


def wheel(folder: Path, package: str, files: Mapping[str, bytes]) -> Package:
    """Write a Python package (wheel) to a folder."""
    path, info = folder / f"{package}-1.0-py3-none-any.whl", f"{package}-1.0.dist-info"
    with zipfile.ZipFile(path, "w") as pack:
        for name, data in files.items():
            pack.writestr(name, data)
        pack.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
        pack.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: us\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        pack.writestr(f"{info}/RECORD", "")
    return Package(name=f"{package}==1.0", sha256=sha256(path.read_bytes()), megabytes=1)


def npm_package(folder: Path, package: str, files: Mapping[str, bytes]) -> Package:
    """Write a JavaScript package to a folder. Its name is its path, which npm accepts as well."""
    folder.mkdir(exist_ok=True)
    path = folder / f"{package}.tgz"
    about = {"name": package, "version": "1.0.0"}
    with tarfile.open(path, "w:gz") as pack:
        for name, data in {"package.json": json.dumps(about).encode(), **files}.items():
            member = tarfile.TarInfo(f"package/{name}")
            member.size = len(data)
            pack.addfile(member, io.BytesIO(data))
    return Package(name=str(path), sha256=sha256(path.read_bytes()), megabytes=1)
