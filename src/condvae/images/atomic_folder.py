"""Pictures into a folder: all of them or none."""

import os
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from PIL import Image

_LONGEST_STEM = 100  # bytes, so that a name with a few words around it fits on any disk


def stem_of(path: Path) -> str:
    """A file's name without its ending, shortened where names of files made from it would be too long."""
    # Names need not be text: bytes that are none become question marks.
    return path.stem.encode(errors="replace")[:_LONGEST_STEM].decode(errors="ignore")


class AtomicFolder:
    """A folder for pictures, which appear in it when the `with` ends well.

    Until then they lie in a hidden folder inside; if something goes wrong, that and every folder made for it goes.
    """

    def __init__(self, folder: str | Path, *, replaces: Sequence[str] | None = None) -> None:
        """replaces: files of the folder that go when the new ones appear, and no others do. None: those of the same
        names as the new ones.
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
        """A ValueError if a file of this name cannot appear in the folder."""
        if (self.folder / name).is_dir():
            raise ValueError(f"{self.folder / name} is a folder, where a file should be: give another folder")
        if self._replaces is not None and name not in self._replaces and os.path.lexists(self.folder / name):
            raise ValueError(
                f"{self.folder / name} is there already, and is not from an earlier call: give another folder"
            )

    def put(self, name: str, picture: Image.Image, **options: Any) -> None:
        """Write a picture; the name says its kind. options: as its `save` takes them."""
        self.check_free(name)
        try:
            picture.save(self._hidden / name, **options)
        except OSError as error:
            raise self._unwritable(error) from error
        self._names.append(name)

    def write(self, name: str, text: str) -> None:
        """Write a text beside the pictures; what is put in last appears last."""
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
                    self.check_free(name)  # another process may have had the same folder in mind
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
        for path in self._made:  # the innermost comes first
            try:
                path.rmdir()
            except OSError:  # was never made, or somebody else has put something there
                return
