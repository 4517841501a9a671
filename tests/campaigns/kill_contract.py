"""What must hold of the files of a call that was killed, and of the same call when it was repeated.

After a kill:
- A file with one of the names that the call writes has the whole content of the new call or of an earlier call, or is
  absent. A resumable call can also leave whole files of work in progress, such as checkpoints.
- If a call writes one file, and this file was there before, then it is never absent.
- If a folder has a record, then it has all files of the call that wrote the record, and no files of another call. While
  new files get their names, there is no record.
- Files of the user do not change.
- Temporary files, which are hidden, can remain after SIGKILL. After other signals there are none.

When the command is given again: it succeeds, its files are those of a call that was never killed, and nothing else is
left. Pictures are compared byte for byte, models by their tensors, and all files without the times that they contain.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from campaigns.kill_scenarios import Scenario
from campaigns.killed_calls import TEMPORARY
from PIL import Image
from safetensors import safe_open

from condvae.weights import sealed_file
from condvae.weights.downloaded_networks import digest

_CLOCK = {"seconds", "elapsed", "images_per_second", "minutes", "closing"}
"""Keys of times and speeds."""
_OURS = (re.compile(r"\.unfinished-.+"), re.compile(r"\..+\.([0-9a-f]{8}-)?\d+-[0-9a-f]{8}\.part"))
_IGNORED = {TEMPORARY, ".output", ".lock", ".job"}

Contents = Mapping[str, Any]


class DamagedFileError(Exception):
    """A file that is not whole."""


@dataclass(frozen=True, kw_only=True)
class Expected:
    """The files before the call and after an uninterrupted call."""

    start: Contents
    whole: Contents


def contents(folder: Path) -> dict[str, Any]:
    """Read all files except temporary ones; return their content without times, by name."""
    return {name: content(folder / name) for name in _names(folder) if not _is_temporary(name)}


def temporary_files(folder: Path) -> list[str]:
    """Return the names of the temporary files and folders that a killed call has left."""
    return [name for name in _names(folder, folders=True) if _is_temporary(Path(name).name)]


def content(path: Path) -> Any:
    """Return the content of a file without times. Raise DamagedFileError if the file is not whole."""
    try:
        if path.suffix == ".safetensors":
            with safe_open(path, framework="pt") as file:
                kind = (file.metadata() or {}).get("format")
            if kind is None:
                return path.read_bytes()
            description, tensors = sealed_file.read(path, kind=kind)
            return _timeless(description), {name: digest({name: tensor}) for name, tensor in tensors.items()}
        if path.suffix == ".json":
            return _timeless(json.loads(path.read_text()))
        if path.suffix == ".jsonl":
            return [_timeless(json.loads(line)) for line in path.read_text().splitlines()]
        if path.suffix == ".md":
            return re.sub(r"(?ms)^## Speed.*?(?=^## |\Z)", "", path.read_text())
        data = path.read_bytes()
        if data.startswith((b"\x89PNG", b"GIF8")):
            with Image.open(path) as picture:
                for frame in range(getattr(picture, "n_frames", 1)):
                    picture.seek(frame)
                    picture.load()
        return data
    except Exception as error:
        raise DamagedFileError(f"{path} is not whole: {type(error).__name__}: {error}") from error


def after_kill(
    scenario: Scenario, expected: Expected, folder: Path, *, polite: bool, left_before: Sequence[str] = ()
) -> Iterator[str]:
    """Check the files after a kill; yield one line for each thing that was lost.

    polite: the signal can be handled. left_before: temporary files that earlier kills have left.
    """
    found: dict[str, Any] = {}
    for name in _names(folder):
        if _is_temporary(name):
            continue
        try:
            found[name] = content(folder / name)
        except DamagedFileError as error:
            yield str(error)
    yield from _changed_sentinels(scenario, expected, found)
    allowed = [expected.start, expected.whole]
    for name, value in found.items():
        if not scenario.resumable and not any(name in one and one[name] == value for one in allowed):
            yield f"{name} is neither from the new call nor from the earlier one"
    if scenario.output in expected.start and scenario.output not in found:
        yield f"{scenario.output} was there before and is absent now"
    record = f"out/{scenario.record}"
    if scenario.record and record in found:
        matching = [one for one in allowed if one.get(record) == found[record]]
        if not any(dict(one) == found for one in matching):
            yield f"{record} is there, but the files are not those of its call: {_difference(matching[-1:], found)}"
    if polite and (left := [name for name in temporary_files(folder) if name not in left_before]):
        yield f"temporary files remain after a signal that can be handled: {', '.join(left)}"


def after_repetition(scenario: Scenario, expected: Expected, folder: Path, *, stopped: bool = False) -> Iterator[str]:
    """Check the files after the command was given again and has ended; yield one line for each difference.

    stopped: whether a signal that can be handled came before. Training then writes a checkpoint at a step of its own.
    """
    whole = expected.whole
    try:
        found = contents(folder)
    except DamagedFileError as error:
        yield str(error)
        return
    yield from _changed_sentinels(scenario, expected, found)
    if stopped:
        found, whole = (_with_newest_checkpoint(one) for one in (found, whole))
    if found != whole:
        yield f"the files differ from those of an uninterrupted call: {_difference([whole], found)}"
    if left := temporary_files(folder):
        yield f"temporary files remain after the command was repeated: {', '.join(left)}"


def _changed_sentinels(scenario: Scenario, expected: Expected, found: Contents) -> Iterator[str]:
    for name in scenario.sentinels:
        if found.get(name) != expected.start[name]:
            yield f"{name}, a file of the user, was {'changed' if name in found else 'removed'}"


def _with_newest_checkpoint(files: Contents) -> dict[str, Any]:
    """Leave out all checkpoints except the newest."""
    newest = max((name for name in files if "/checkpoints/" in name), default=None)
    return {name: value for name, value in files.items() if "/checkpoints/" not in name or name == newest}


def _difference(wanted: list[Contents], found: Contents) -> str:
    if not wanted:
        return "it is not the record of the new or the earlier call"
    one = wanted[0]
    kinds = {
        "missing": sorted(one.keys() - found.keys()),
        "surplus": sorted(found.keys() - one.keys()),
        "different": sorted(name for name in one.keys() & found.keys() if one[name] != found[name]),
    }
    return "; ".join(f"{kind}: {', '.join(names)}" for kind, names in kinds.items() if names)


def _names(folder: Path, *, folders: bool = False) -> list[str]:
    inside = (path.relative_to(folder) for path in folder.rglob("*") if folders or path.is_file())
    return sorted(str(path) for path in inside if not _IGNORED & set(path.parts))


def _is_temporary(name: str) -> bool:
    """Whether a file is a temporary one of condvae, or in a temporary folder."""
    return any(pattern.fullmatch(part) for part in Path(name).parts for pattern in _OURS)


def _timeless(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _timeless(inner) for key, inner in value.items() if key not in _CLOCK}
    if isinstance(value, list):
        return [_timeless(inner) for inner in value]
    return value
