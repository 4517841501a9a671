"""A folder of completions of any number of pictures, with their sheets and the record: all of it or nothing."""

from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

from torch import Tensor

from condvae.completion.record import RECORD, Provenance, RecordedImage, outputs_of, to_text
from condvae.completion.result import Completion
from condvae.images.atomic_folder import AtomicFolder, stem_of
from condvae.images.contact_sheet import contact_sheet
from condvae.images.model_sheets import completion_columns

_SHEET = "sheet.png"
_ROWS = 24


class CompletionFolder:
    """Add completions, then finish. Pictures that an earlier record in the folder lists give way; other files stay:
    one with a name that is needed is an error.

    In memory is at most one page of the sheet.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        earlier = outputs_of(self.folder / RECORD)
        # The old record goes first and the new one comes last: a record never stands beside others' pictures.
        self._out = AtomicFolder(folder, replaces=[RECORD, *earlier] if earlier else [])
        self._images: list[RecordedImage] = []
        self._sheets: list[str] = []
        self._rows: list[list[Tensor]] = []
        self._columns: list[str] = []

    def __enter__(self) -> "CompletionFolder":
        for name in (_SHEET, RECORD):  # the others' names are known when their pictures are
            self._out.check_free(name)
        self._out.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._out.__exit__(kind, error, traceback)

    def add(self, completion: Completion) -> Sequence[str]:
        """Write the completions of one more picture; returns the names of their files."""
        stem = stem_of(completion.file.path) if completion.file else "image"
        # A number first: no two names can be the same, nor one that of a sheet.
        prefix = f"{len(self._images) + 1:03}-{stem}"
        names = tuple(f"{prefix}-{k + 1}.png" for k in range(len(completion)))
        for k, name in enumerate(names):
            self._out.put(name, completion.picture(k))
        self._images.append(RecordedImage(file=completion.file, hole_file=completion.view.hole_file, outputs=names))
        self._rows.append(completion.row())
        self._columns = completion_columns(len(completion))
        if len(self._rows) == _ROWS:
            self._turn_page()
        return names

    def finish(self, provenance: Provenance) -> Path:
        """Write the last page and the record; returns the path of the first sheet. All appears when the `with` ends."""
        self._turn_page()
        text = to_text(self.folder, provenance, self._images, self._sheets)
        self._out.write(RECORD, text)
        return self.folder / self._sheets[0]

    def _turn_page(self) -> None:
        if self._rows:
            name = f"sheet-{len(self._sheets) + 1}.png" if self._sheets else _SHEET
            self._out.put(name, contact_sheet(self._rows, self._columns))
            self._sheets.append(name)
            self._rows = []
