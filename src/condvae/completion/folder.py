"""Write completions of any number of pictures to a folder, with contact sheets and a record.

Either all files are written or none.
"""

from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

from torch import Tensor

from condvae.completion.record import Provenance, RecordedImage, described
from condvae.completion.result import Completion
from condvae.images.atomic_folder import AtomicFolder, stem_of
from condvae.images.contact_sheet import ColumnHeading, contact_sheet
from condvae.images.picture_formats import PictureFormat
from condvae.images.recorded_files import COMPLETIONS
from condvae.runtime.messages import Say, silent

_SHEET = "sheet.png"
_ROWS = 24


class CompletionFolder:
    """Writes completions to a folder. Use it in a `with` block: call `add` for each picture, then `finish`.

    Files that the record of an earlier call lists, and that have not changed since, are replaced. Other files in the
    folder are kept; ValueError is raised if one of them has the name of an output file. At most one contact sheet is
    kept in memory.
    """

    def __init__(
        self, folder: str | Path, *, new: bool = False, picture_format: PictureFormat = "png", say: Say = silent
    ) -> None:
        """new: write to a new folder, with a number after its name if the given one exists.

        picture_format: the format of the completions; contact sheets are always PNG files.
        say: gets a line if files of an earlier call are replaced.
        """
        self._out = AtomicFolder(folder, kind=COMPLETIONS, new=new, say=say)
        self._format = picture_format
        self._images: list[RecordedImage] = []
        self._sheets: list[str] = []
        self._rows: list[list[Tensor]] = []
        self._columns: list[ColumnHeading] = []

    @property
    def folder(self) -> Path:
        return self._out.folder

    def __enter__(self) -> "CompletionFolder":
        self._out.__enter__()
        try:
            self._out.check_free(_SHEET)  # the other names are known only when their pictures are added
        except ValueError as error:
            self._out.__exit__(type(error), error, error.__traceback__)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._out.__exit__(kind, error, traceback)

    def add(self, completion: Completion) -> Sequence[str]:
        """Write the completions of one more picture, and return the names of the files written.

        If several faces of the picture were completed, give the result of any of them.
        """
        stem = stem_of(completion.file.path) if completion.file else "image"
        # The number at the start makes every name unique and different from the names of the sheets.
        prefix = f"{len(self._images) + 1:03}-{stem}"
        names = tuple(f"{prefix}-{k + 1}.{self._format}" for k in range(len(completion)))
        for k, name in enumerate(names):
            self._out.put(name, completion.picture(k))
        faces = tuple(one.view.face for one in completion.in_picture if one.view.face is not None)
        self._images.append(
            RecordedImage(file=completion.file, hole_file=completion.view.hole_file, outputs=names, faces=faces)
        )
        self._columns = completion.columns()
        for one in completion.in_picture:
            self._rows.append(one.row())
            if len(self._rows) == _ROWS:
                self._write_sheet()
        return names

    def finish(self, provenance: Provenance) -> Sequence[Path]:
        """Write the last sheet and the record, and return the paths of the sheets.

        All files appear in the folder when the `with` block ends.
        """
        self._write_sheet()
        made = described(self.folder, provenance, self._format)
        self._out.write_record(made, [image.described(self.folder) for image in self._images], self._sheets)
        return [self.folder / name for name in self._sheets]

    def _write_sheet(self) -> None:
        if self._rows:
            name = f"sheet-{len(self._sheets) + 1}.png" if self._sheets else _SHEET
            self._out.put(name, contact_sheet(self._rows, self._columns))
            self._sheets.append(name)
            self._rows = []
