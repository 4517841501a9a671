"""The answer to a call: completions of one picture, what they were made from, and their files."""

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from PIL import Image
from torch import Tensor

from condvae.completion.inspection import Inspected, Inspector, Judgement
from condvae.completion.record import Provenance
from condvae.images.contact_sheet import contact_sheet, to_pil
from condvae.images.holes import Flags
from condvae.images.model_sheets import completion_columns, completion_row
from condvae.images.model_view import ModelView, as_tensor
from condvae.runtime.fingerprints import FileId
from condvae.runtime.pixels import PixelArray


@dataclass(frozen=True, kw_only=True, eq=False)
class Completion:
    """Completions of one picture."""

    images: PixelArray
    """[n, H, W, C]: grey levels at the model's size; known pixels are those of `original`."""
    observed: PixelArray
    """[H, W, C]: what the model saw, grey where it is hidden."""
    view: ModelView
    provenance: Provenance
    inspector: Callable[[], Inspector | None] = field(default=lambda: None, repr=False)
    """Makes what judges the picture, when that is asked for."""

    def __len__(self) -> int:
        return len(self.images)

    @property
    def original(self) -> PixelArray:
        """[H, W, C]: the picture as the model could have seen it."""
        return self.view.levels

    @property
    def known(self) -> Flags:
        """[H, W]: True where observed."""
        return self.view.known

    @property
    def file(self) -> FileId | None:
        """Where the picture was read, if from a file."""
        return self.view.file

    @property
    def notes(self) -> tuple[str, ...]:
        """What was done to the picture, in sentences."""
        return self.view.notes

    @functools.cached_property
    def inspected(self) -> Inspected:
        """What is found out about the picture beside completing it: on first use, from the same observation."""
        inspector = self.inspector()
        return Inspected() if inspector is None else inspector(self.view)

    @property
    def strangeness(self) -> Judgement | None:
        """How strange the picture is to the model, by what is known of it; None where no fit says what is ordinary, or
        nothing is known.
        """
        return self.inspected.strangeness

    @property
    def warnings(self) -> tuple[str, ...]:
        """That the picture is strange to the model, or why that cannot be said, in sentences."""
        return tuple(line for line in (self.inspected.warning, self.inspected.failure) if line is not None)

    @property
    def mean(self) -> npt.NDArray[np.float32]:
        """[H, W, C]: of all completions, in grey levels."""
        # Whole numbers are added without rounding, in any order.
        return np.asarray(self.images.sum(axis=0, dtype=np.int64) / len(self), dtype=np.float32)

    @property
    def std(self) -> npt.NDArray[np.float32]:
        """[H, W, C]: of all completions, in grey levels; 0 where they agree, as they do where a pixel is known."""
        squares = sum(image.astype(np.int64) ** 2 for image in self.images)
        sums = self.images.sum(axis=0, dtype=np.int64)
        return np.asarray(np.sqrt(squares * len(self) - sums**2) / len(self), dtype=np.float32)

    def picture(self, k: int) -> Image.Image:
        """Completion k, from 0; at the picture's own size with keep_size, where only hidden pixels are new."""
        image: PixelArray = self.images[k]
        return self.view.pasted(image) if self.provenance.settings.keep_size else to_pil(as_tensor(image))

    def row(self) -> list[Tensor]:
        """The tiles of a sheet, [C, H, W] uint8."""
        images = torch.from_numpy(self.images).permute(0, 3, 1, 2)
        return completion_row(as_tensor(self.original), as_tensor(self.observed), images)

    def sheet(self) -> Image.Image:
        """A labelled contact sheet."""
        return sheet_of([self])

    def save(self, folder: str | Path) -> Path:
        """Write completions, sheet.png and record.json, all or none; returns the sheet."""
        from condvae.completion.folder import CompletionFolder  # which knows this class

        with CompletionFolder(folder) as out:
            out.add(self)
            return out.finish(self.provenance)


def sheet_of(completions: Sequence[Completion]) -> Image.Image:
    """One labelled contact sheet of several pictures, as many completions of each."""
    return contact_sheet([one.row() for one in completions], completion_columns(len(completions[0])))
