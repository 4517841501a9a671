"""The class `Completion`, which is the result of `complete` for one picture."""

import functools
import io
import operator
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, SupportsIndex

import numpy as np
import numpy.typing as npt
import torch
from PIL import Image
from torch import Tensor

from condvae.completion.inspection import Inspected, Inspector, Judgement
from condvae.completion.record import Provenance
from condvae.images.contact_sheet import ColumnHeading, contact_sheet, to_pil
from condvae.images.holes import Flags
from condvae.images.model_levels import as_tensor
from condvae.images.model_sheets import completion_columns, completion_row
from condvae.images.model_view import ModelView, pasted
from condvae.images.picture_formats import PictureFormat, check_picture_format
from condvae.images.recorded_files import RECORD, read_recorded
from condvae.runtime.fingerprints import FileId
from condvae.runtime.messages import counted, printable
from condvae.runtime.pixels import PixelArray


def _no_inspector() -> None:
    return None


@dataclass(frozen=True, kw_only=True, eq=False)
class Completion:
    """The completions of one picture.

    It can be used like a list of its pictures: `result[k]` is `picture(k)`, `len(result)` their number, and
    `for picture in result` goes through them. A notebook shows the contact sheet.
    """

    images: PixelArray
    """[n, H, W, C]: n completions in grey levels, at the model's image size. Known pixels are as in `original`."""
    observed: PixelArray
    """[H, W, C]: the observation as a picture in grey levels. Hidden pixels are grey."""
    view: ModelView
    provenance: Provenance
    flaws: tuple[str, ...] = ()
    """A warning if some of the completions are saturated: their hidden pixels are black or white for no reason."""
    inspector: Callable[[], Inspector | None] = field(default=_no_inspector, repr=False)
    """A function that returns the inspector, which judges how strange the picture is, or None if there is none."""

    others: list["Completion"] = field(default_factory=list, repr=False)
    """The results of all faces of the picture, this one included, in order of size, if all faces were completed."""

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, k: SupportsIndex) -> Image.Image:
        return self.picture(k)

    def __iter__(self) -> Iterator[Image.Image]:
        return map(self.picture, range(len(self)))

    def __repr__(self) -> str:
        """Describe the result in one line; nothing is computed for it."""
        height, width = self.images.shape[1:3]
        of = printable(self.file.path.name) if self.file else "an image"
        if self.view.face is not None:
            of = f"a face in {of}"
        parts = [f"{counted(len(self), 'completion')} of {of}", f"{width} x {height} pixels"]
        if self.provenance.settings.keep_size:
            parts.append(f"pasted into {self.view.size[0]} x {self.view.size[1]}")
        if self.view.observation.known is not None:
            parts.append(f"{100 * (1 - self.known.mean()):.0f} % hidden")
        if self.provenance.model is not None:
            model = self.provenance.model
            parts.append(f"model {printable(model.name if model.by_name else Path(model.name).name)}")
        judged: Inspected | None = self.__dict__.get("inspected")  # set when `inspected` is first read
        if judged is not None and judged.strangeness is not None:
            found = judged.strangeness
            parts.append(f"{'strange' if found.strange else 'not strange'} (percentile {found.percentile:.3g})")
        return f"<Completion: {', '.join(parts)}>"

    def __getstate__(self) -> dict[str, Any]:
        """Return what is pickled: all except the inspector, which holds the model. What it has found out is kept."""
        return {**vars(self), "inspector": _no_inspector}

    def _repr_png_(self) -> bytes:
        """Return the contact sheet as a PNG file, which notebooks show."""
        file = io.BytesIO()
        self.sheet().save(file, "PNG")
        return file.getvalue()

    @property
    def original(self) -> PixelArray:
        """[H, W, C]: the picture that was given, in grey levels, at the model's image size, with hidden pixels visible.

        For models that do not complete holes, this is the photo or the drawing from which the observation was made.
        """
        return self.view.levels

    @property
    def known(self) -> Flags:
        """[H, W]: True where a pixel is known."""
        return self.view.known

    @property
    def file(self) -> FileId | None:
        """The file that the picture was read from; None if the picture was given as an object."""
        return self.view.file

    @property
    def in_picture(self) -> Sequence["Completion"]:
        """The results that belong to the same picture: of all its faces, or only this one."""
        return self.others or [self]

    @property
    def notes(self) -> tuple[str, ...]:
        """Messages about what was done to the picture, such as cropping and resizing."""
        return self.view.notes

    @functools.cached_property
    def inspected(self) -> Inspected:
        """What the inspector found out about the picture; computed on first use, from the same observation."""
        inspector = self.inspector()
        return Inspected() if inspector is None else inspector(self.view)

    @property
    def strangeness(self) -> Judgement | None:
        """How strange the known part of the picture is for the model.

        None if the model has no fit, if no pixel is known, or if judging failed.
        """
        return self.inspected.strangeness

    @property
    def warnings(self) -> tuple[str, ...]:
        """Warnings: some completions are saturated, the picture is strange for the model, or judging failed.

        `complete` also gives them to Python's `warnings`, as `condvae.DegenerateSamples` and `condvae.StrangeImage`.
        """
        judged = (self.inspected.warning, self.inspected.failure)
        return (*self.flaws, *(line for line in judged if line is not None))

    @property
    def mean(self) -> npt.NDArray[np.float32]:
        """[H, W, C]: the mean of the completions at each pixel, in grey levels."""
        # Integers are added without rounding, so the order does not matter.
        return np.asarray(self.images.sum(axis=0, dtype=np.int64) / len(self), dtype=np.float32)

    @property
    def std(self) -> npt.NDArray[np.float32]:
        """[H, W, C]: the standard deviation of the completions at each pixel, in grey levels; 0 at known pixels.

        A single completion has no spread: hidden pixels are NaN. If all completions are the same, as at temperature 0
        with mean pixel values, it is 0 everywhere. This does not mean that the model is certain. Saturated completions
        are counted, too.
        """
        if len(self) == 1:
            hidden = np.broadcast_to(~self.known[:, :, None], self.images.shape[1:])
            return np.where(hidden, np.float32(np.nan), np.float32(0))
        squares = sum(image.astype(np.int64) ** 2 for image in self.images)
        sums = self.images.sum(axis=0, dtype=np.int64)
        return np.asarray(np.sqrt(squares * len(self) - sums**2) / len(self), dtype=np.float32)

    def picture(self, k: SupportsIndex) -> Image.Image:
        """Return completion k at the model's image size; k is counted from 0, and -1 is the last completion.

        If the setting `keep_size` is True, return the whole picture at its original size instead, in which only hidden
        pixels are changed. If all faces of the picture were completed, completion k of each is in it. Raise IndexError
        if there is no completion k.
        """
        number = operator.index(k)
        if not -len(self) <= number < len(self):
            raise IndexError(
                f"there is no completion {number}: k is counted from 0, and this result has "
                f"{counted(len(self), 'completion')}, so the last k is {len(self) - 1}"
            )
        image: PixelArray = self.images[number]
        settings = self.provenance.settings
        if not settings.keep_size:
            return to_pil(as_tensor(image))
        views, images = zip(*((one.view, one.images[number]) for one in self.in_picture), strict=True)
        return pasted(views, images, blend=not settings.hard_edges)

    def row(self) -> list[Tensor]:
        """Return one row of a contact sheet as tiles [C, H, W] uint8.

        The tiles are the original, the observation, the first completions, and the mean and spread of all completions.
        """
        images = torch.from_numpy(self.images).permute(0, 3, 1, 2)
        return completion_row(as_tensor(self.original), as_tensor(self.observed), images)

    def columns(self) -> list[ColumnHeading]:
        """Return the headings of the tiles of `row`. A translation model is given a picture that is no original."""
        return completion_columns(len(self), first="input" if self.view.observation.known is None else "original")

    def sheet(self) -> Image.Image:
        """Return a labelled contact sheet of the completions."""
        return sheet_of([self])

    def save(self, folder: str | Path, *, picture_format: PictureFormat = "png", replace: bool = False) -> Path:
        """Write the completions, sheet.png and record.json to a folder; return the path of sheet.png.

        Either all files are written or none. Other files in the folder are kept, and none is overwritten.
        picture_format: the file format of the completions, "png", "jpg" or "webp".
        replace: replace the files of an earlier call, which its record in this folder lists. Otherwise such a folder is
        refused.
        """
        return save_completions([self], folder, picture_format=picture_format, replace=replace)[0]


def save_completions(
    completions: Sequence[Completion | Sequence[Completion]],
    folder: str | Path,
    *,
    picture_format: PictureFormat = "png",
    replace: bool = False,
) -> list[Path]:
    """Write the results of one call of `complete` to one folder, as `Completion.save` does for a single result.

    The results of all faces of a picture are saved together. For a list of pictures with face="all", they may be lists
    of results. Return the paths of the contact sheets.
    """
    from condvae.completion.folder import CompletionFolder  # imported late, because that module imports this one

    results = [one for some in completions for one in ([some] if isinstance(some, Completion) else some)]
    if not results:
        raise ValueError("there are no results to save: give at least one")
    if str(folder) == "":
        raise ValueError("the name of the folder is empty: give a folder")
    made = results[0].provenance
    if any(one.provenance.settings != made.settings or one.provenance.model != made.model for one in results):
        raise ValueError("the results are from calls with different models or settings: save them in different folders")
    check_picture_format(picture_format, keep_size=made.settings.keep_size)
    if not replace and read_recorded(Path(folder) / RECORD):
        raise ValueError(f"{folder} contains the files of an earlier call: give another folder, or replace=True")
    with CompletionFolder(folder, picture_format=picture_format) as out:
        for one in {id(one.in_picture[0]): one for one in results}.values():
            out.add(one)
        return list(out.finish(made))


def sheet_of(completions: Sequence[Completion]) -> Image.Image:
    """Return one labelled contact sheet of several pictures. All must have the same number of completions."""
    return contact_sheet([one.row() for one in completions], completions[0].columns())
