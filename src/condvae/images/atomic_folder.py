"""Write pictures into a folder so that either all of them appear, or none."""

import os
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from PIL import Image

_LONGEST_STEM = 100  # in bytes, so that a name with a few words added to it is allowed on any disk


def stem_of(path: Path) -> str:
    """Return a file's name without its suffix, cut to 100 bytes so that words can be added to it."""
    # File names need not be valid text: invalid bytes become question marks.
    return path.stem.encode(errors="replace")[:_LONGEST_STEM].decode(errors="ignore")


class AtomicFolder:
    """A folder in which new pictures appear all at once, when the `with` block ends without an error.

    Until then, the pictures are in a hidden subfolder. After an error, this subfolder and all other folders that were
    created for the pictures are removed.
    """

    def __init__(self, folder: str | Path, *, replaces: Sequence[str] | None = None) -> None:
        """replaces: names of the only existing files that may be overwritten. All of them are removed when the new
        files appear. By default, a new file overwrites any existing file of the same name.
        """
        self.folder = Path(folder)
        self._names: list[str] = []
        self._replaces = replaces

    def __enter__(self) -> "AtomicFolder":
        self._made = [path for path in (self.folder, *self.folder.parents) if not path.exists()]
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            self._hidden = Path(tempfile.mkdtemp(dir=self.folder, prefix=".unfinished-"))
        except OSError as error:
            self._remove_made()
            raise self._unwritable(error) from error
        return self

    def check_free(self, name: str) -> None:
        """Raise ValueError if a folder, or a file that may not be overwritten, already has this name."""
        if (self.folder / name).is_dir():
            raise ValueError(
                f"{self.folder / name} is a folder, but a file must be written with this name: give another folder"
            )
        if self._replaces is not None and name not in self._replaces and os.path.lexists(self.folder / name):
            raise ValueError(
                f"{self.folder / name} already exists and is not from an earlier call: give another folder"
            )

    def put(self, name: str, picture: Image.Image, **options: Any) -> None:
        """Write a picture, with its colour profile, in the format of the name's suffix.

        options: arguments of `PIL.Image.Image.save`.
        """
        self.check_free(name)
        if profile := picture.info.get("icc_profile"):
            options.setdefault("icc_profile", profile)  # not every format of Pillow writes it otherwise
        try:
            picture.save(self._hidden / name, **options)
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

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            if kind is None:
                for name in self._names:
                    self.check_free(name)  # another process may have written to the folder meanwhile
                for name in self._replaces or ():
                    (self.folder / name).unlink(missing_ok=True)
                for name in self._names:
                    os.replace(self._hidden / name, self.folder / name)
        finally:
            shutil.rmtree(self._hidden, ignore_errors=True)
        if kind is not None:
            self._remove_made()

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
