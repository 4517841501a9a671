"""Write pictures into a folder so that either all of them appear, or none."""

import itertools
import json
import os
import shutil
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from PIL import Image

from condvae.images.picture_formats import SAVE_OPTIONS
from condvae.images.recorded_files import RecordKind, read_recorded
from condvae.runtime.atomic import is_abandoned
from condvae.runtime.fingerprints import file_sha256
from condvae.runtime.folders import lock_folder
from condvae.runtime.messages import Say, silent
from condvae.runtime.versions import versions

_LONGEST_STEM = 100  # in bytes, so that a name with a few words added to it is allowed on any disk
_HIDDEN = ".unfinished-"
_EARLIER = "earlier"
"""A subfolder of the hidden folder, to which the files of an earlier call are moved before they are removed."""
_MARK = ".condvae"
"""An empty file in the hidden folder, which shows that the folder is not one of the user."""


def stem_of(path: Path) -> str:
    """Return a file's name without its suffix, cut to 100 bytes so that words can be added to it."""
    # File names need not be valid text: invalid bytes become question marks.
    return path.stem.encode(errors="replace")[:_LONGEST_STEM].decode(errors="ignore")


class AtomicFolder:
    """A folder in which new pictures appear all at once, when the `with` block ends without an error.

    Until then, the pictures are in a hidden subfolder. After an error, this subfolder and all other folders that were
    created for the pictures are removed. If the process is killed, the next call with this folder removes them. While
    a call uses the folder, other calls are refused.
    """

    def __init__(self, folder: str | Path, *, kind: RecordKind, new: bool = False, say: Say = silent) -> None:
        """kind: the kind of record that the call writes, with `write_record`. Only files that an earlier record of
            this kind lists, and that have not changed since, are replaced; `say` gets a line about this. Other files
            are never overwritten.
        new: write to a new folder. If the given one exists, a number is added to its name, as in samples-2.
        """
        self.folder = Path(folder)
        self._kind, self._new, self._say = kind, new, say
        # Its name is chosen before it is made, so that it can be removed if a signal comes at this moment.
        self._hidden = self.folder / f"{_HIDDEN}{uuid.uuid4().hex[:8]}"
        self._names: list[str] = []
        self._replaces: dict[str, None] = {}  # in order
        self._made: list[Path] = []
        self._interrupted: list[Path] = []
        """Hidden folders of calls that were killed while they moved files. Only they show which files are ours."""
        self._lock: int | None = None

    def __enter__(self) -> "AtomicFolder":
        first = self.folder
        try:
            for number in itertools.count(2):
                if self._claim():
                    break
                self.folder = first.with_name(f"{first.name}-{number}")
            self._find_earlier()
            self.check_free(self._kind.file)
            self._hidden = self.folder / self._hidden.name
            self._hidden.mkdir()
            (self._hidden / _MARK).touch()
        except BaseException as error:
            _remove(self._hidden)
            self._remove_made()
            self._release()
            if isinstance(error, OSError):
                raise self._unwritable(error) from error
            raise
        return self

    def _claim(self) -> bool:
        """Create the folder and lock it; return False if a new folder is wanted and this one is not new."""
        self._made = [path for path in (self.folder, *self.folder.parents) if not path.exists()]
        try:
            self.folder.mkdir(parents=True, exist_ok=not self._new)
        except FileExistsError:
            if not self._new:
                raise
            self._made = []
            if not (self.folder.is_dir() and _abandoned(self.folder)):
                return False
            self._made = [self.folder]
        try:
            self._lock = lock_folder(self.folder)
        except BlockingIOError:
            self._made = []
            if self._new:
                return False
            raise ValueError(
                f"another condvae call is writing to {self.folder}: wait for it, or give another folder"
            ) from None
        return True

    def _find_earlier(self) -> None:
        """Find the files of an earlier call, which will be replaced, and remove hidden folders of killed processes."""
        # Without a lock, a process that is still running may use a hidden folder that has changed recently.
        leftovers = [
            path
            for path in self.folder.glob(f"{_HIDDEN}*")
            if _is_leftover(path) and (self._lock is not None or is_abandoned(path))
        ]
        if found := read_recorded(self.folder / self._kind.file):
            if found.kind == self._kind and found.names:
                self._replaces = {self._kind.file: None, **self._unchanged(found.names, found.digests)}
        else:
            self._interrupted = [path for path in leftovers if (path / _EARLIER).is_dir()]
            for place in (path for one in self._interrupted for path in (one, one / _EARLIER)):
                # Files that are no longer among the new ones, or not yet among the earlier ones, are in the folder.
                if found := read_recorded(place / self._kind.file):
                    moved = [name for name in found.names if not (place / name).exists()]
                    self._replaces |= self._unchanged(moved, found.digests)
        for path in leftovers:
            if path not in self._interrupted:
                _remove(path)

    def _unchanged(self, names: Sequence[str], digests: Mapping[str, str]) -> dict[str, None]:
        """Return those of the files in the folder that are as they were written: the user may have replaced others.

        Records of the first versions of condvae have no digests, so all files that they list are kept.
        """

        def same(path: Path) -> bool:
            plain = path.is_file() and not path.is_symlink()
            return file_sha256(path) == digests.get(path.name) if plain else not os.path.lexists(path)

        return {name: None for name in names if same(self.folder / name)}

    def check_free(self, *names: str) -> None:
        """Raise ValueError if a folder, or a file that may not be overwritten, already has one of these names."""
        for name in names:
            path = self.folder / name
            if path.is_dir():
                raise ValueError(f"{path} is a folder, but a file must be written with this name: give another folder")
            if name in self._replaces or not os.path.lexists(path):
                continue
            if name == self._kind.file and (other := read_recorded(path)) and other.kind != self._kind:
                raise ValueError(f"{self.folder} contains files of an earlier {other.kind.verb}: give another folder")
            raise ValueError(f"{path} already exists and is not from an earlier call: give another folder")

    def put(self, name: str, picture: Image.Image, **options: Any) -> None:
        """Write a picture, with its colour profile, in the format of the name's suffix.

        options: arguments of `PIL.Image.Image.save`.
        """
        self.check_free(name)
        if profile := picture.info.get("icc_profile"):
            options.setdefault("icc_profile", profile)  # not every format of Pillow writes it otherwise
        try:
            picture.save(self._hidden / name, **{**_save_options(name), **options})
        except OSError as error:
            raise self._unwritable(error) from error
        self._names.append(name)

    def write(self, name: str, text: str) -> None:
        """Write a text file into the folder of the pictures. Files appear in the order in which they were written."""
        self.check_free(name)
        try:
            (self._hidden / name).write_text(text)
        except OSError as error:
            raise self._unwritable(error) from error
        self._names.append(name)

    def write_record(
        self, made: Mapping[str, Any], images: Sequence[Mapping[str, Any]], sheets: Sequence[str] | None = None
    ) -> None:
        """Write the record of the call. Do this last, so that a record always matches the pictures.

        made: how the pictures were made. images: an entry for each image; its "outputs" are the names of its pictures.
        sheets: the names of contact sheets.
        """
        plain: dict[str, Any] = {
            "format": self._kind.format,
            "format_version": self._kind.version,
            **made,
            "versions": versions(),
            "images": list(images),
            **({} if sheets is None else {"sheets": list(sheets)}),
            "sha256": {name: file_sha256(self._hidden / name) for name in self._names},
        }
        self.write(self._kind.file, json.dumps(plain, indent=1) + "\n")

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        replaced = 0
        try:
            if kind is None:
                self.check_free(*self._names)  # another program may have written to the folder meanwhile
                replaced = self._commit()
                for path in self._interrupted:
                    _remove(path)
            _remove(self._hidden)
        except OSError as failure:  # the hidden folder stays: the next call finds out from it which files are ours
            raise self._unwritable(failure) from failure
        except BaseException:
            _remove(self._hidden)
            raise
        finally:
            if kind is not None:
                self._remove_made()
            self._release()
        if replaced:
            files = "file" if replaced == 1 else f"{replaced:,} files"
            self._say(f"replaced the {files} of an earlier call in {self.folder}")

    def _commit(self) -> int:
        """Replace the files of the earlier call by the new files; return how many files were replaced."""
        try:
            self._move()
        except KeyboardInterrupt:
            self._move()  # the rest, so that all files appear
            raise
        return len(list((self._hidden / _EARLIER).iterdir()))

    def _move(self) -> None:
        """Move the files of the earlier call out of the folder, and the new files into it. This may be repeated."""
        earlier = self._hidden / _EARLIER
        earlier.mkdir(exist_ok=True)
        waiting = [name for name in self._names if os.path.lexists(self._hidden / name)]
        # The old record leaves first and the new one comes last, so that a record always matches the pictures.
        for name in self._replaces:
            if os.path.lexists(self.folder / name) and (name in waiting or name not in self._names):
                os.replace(self.folder / name, earlier / name)
        for name in waiting:
            os.replace(self._hidden / name, self.folder / name)

    def _release(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def _unwritable(self, error: OSError) -> ValueError:
        return ValueError(
            f"{self.folder} cannot be written to ({error.strerror}): give another folder for the pictures"
        )

    def _remove_made(self) -> None:
        for path in self._made:  # the innermost folder comes first
            try:
                path.rmdir()
            except OSError:  # it was never created, or another process has put files into it
                return


def _save_options(name: str) -> Mapping[str, Any]:
    return next((options for suffix, options in SAVE_OPTIONS.items() if name.endswith(f".{suffix}")), {})


def _is_leftover(path: Path) -> bool:
    """Return whether condvae has made this hidden folder. It is empty if the process was killed at once."""
    return path.is_dir() and not path.is_symlink() and ((path / _MARK).is_file() or not any(path.iterdir()))


def _remove(hidden: Path) -> None:
    """Remove a hidden folder, and its mark last, so that the folder is recognised if the process is killed now."""
    for path in hidden.iterdir() if hidden.is_dir() else ():
        if path.name != _MARK:
            shutil.rmtree(path, ignore_errors=True) if path.is_dir() else path.unlink(missing_ok=True)
    shutil.rmtree(hidden, ignore_errors=True)


def _abandoned(folder: Path) -> bool:
    """Return whether a folder contains nothing but hidden folders of killed processes."""
    entries = list(folder.iterdir())
    return bool(entries) and all(one.name.startswith(_HIDDEN) and _is_leftover(one) for one in entries)
