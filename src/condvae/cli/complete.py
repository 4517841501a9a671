"""The verb `condvae complete`."""

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from condvae.cli import shared
from condvae.cli.help_text import explained
from condvae.cli.shared import HoleOptions, settings_of
from condvae.completion.settings import CompletionSettings
from condvae.images.image_meanings import FacePart
from condvae.runtime.checks import option_name
from condvae.weights.model_names import DEFAULT_MODEL

if TYPE_CHECKING:
    from condvae.images.holes import Hole


@explained(out=shared.out_folder_help("the completions, sheet.png and record.json", "completions"))
@dataclass(frozen=True, kw_only=True)
class Complete(shared.Parsed, CompletionSettings, HoleOptions):
    """Complete images: draw several completions of each, and save them with a contact sheet and a record.

    Say which pixels are hidden with one of --known, --hole, --box, --half, --part and --random, or make them
    transparent in the image. With --face, a face is found in the photo, and its completions are put back into the
    photo. Models that observe edges, a grey version or a smaller version of an image need none of these options:
    give them a photo, or a drawing, a grey picture or a small one. `condvae info` says what a model wants to see.
    Images that are strange to the model get a warning if `condvae ood fit` has prepared the model.
    """

    images: shared.Images = ()
    model: shared.Model = DEFAULT_MODEL
    n: shared.N = CompletionSettings.n
    out: shared.OutFolder = None
    format: shared.Format = "png"
    face: Annotated[str | None, tyro.conf.arg(metavar="[N|all]")] = None  # type: ignore[assignment]
    """Find the largest face in the photo, complete it, turned and framed as in the model's training, and put the result
    back into the whole photo. --face 2 completes the second largest face, and --face all every face. --half and
    --random then hide pixels of the square around the face. Only models of faces can do this. If not given, the middle
    square of the image is completed."""
    part: FacePart | None = None
    """Hide part of a face: both eyes with the brows, the mouth, the nose, or the half that is on the left or right in
    the image. Without --face, the middle square must show the face as in the model's training."""
    temperature: shared.Temperature = "1"
    white: shared.White = None
    chunk: Annotated[int | None, tyro.conf.arg(metavar="N")] = None
    """How many completions to compute at a time. Smaller values need less memory; the result is the same."""
    device: shared.Device = "auto"
    quiet: shared.Quiet = False
    repeat: Annotated[Path | None, tyro.conf.arg(metavar="RECORD")] = None
    """Repeat an earlier call, with the same image files: give the record.json that it wrote. No other options except
    --out, --chunk and --quiet may be given."""

    def run(self) -> None:
        if self.repeat is not None:
            self._check_alone()
            from condvae.completion.many_files import repeat

            sheets = repeat(self.repeat, self.out, chunk=self.chunk, say=shared.say)
            shared.tell_written(shared.sheets_written(sheets), sheets[0].parent, self)
            return
        hole = self.as_hole()
        from condvae.completion.many_files import complete_files
        from condvae.runtime.devices import resolve_device

        sheets = complete_files(
            self.images,
            hole,
            self.out,
            model=self.model,
            settings=settings_of(CompletionSettings, self),
            picture_format=self.format,
            chunk=self.chunk,
            device=str(resolve_device(self.device)),
            say=shared.say,
        )
        shared.tell_written(shared.sheets_written(sheets), sheets[0].parent, self)

    def as_hole(self) -> "Hole":
        return dataclasses.replace(super().as_hole(), part=self.part)

    def _check_alone(self) -> None:
        """Raise a ValueError if options were given that --repeat reads from the record."""
        for field in dataclasses.fields(self):
            if field.name not in ("repeat", "out", "chunk", "quiet") and getattr(self, field.name) != field.default:
                if field.name == "images":
                    raise ValueError(
                        "images were given with --repeat, which reads them from the record: leave them out"
                    )
                option = option_name(field.name)
                raise ValueError(f"{option} was given with --repeat, which reads it from the record: leave it out")
