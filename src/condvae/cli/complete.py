"""condvae complete."""

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from condvae.cli import shared
from condvae.cli.shared import HoleOptions, settings_of
from condvae.completion.settings import CompletionSettings
from condvae.weights.model_names import DEFAULT_MODEL


@dataclass(frozen=True, kw_only=True)
class Complete(shared.Parsed, CompletionSettings, HoleOptions):
    """Complete images: several answers for each, a contact sheet, and a record from which the call can be repeated.

    Say what is hidden in one way: --known, --hole, --box, --half or --random; or make it transparent in the image.
    What is in the strangest 1 % for the model gets a warning, where `condvae ood fit` has prepared it.
    """

    images: shared.Images = ()
    model: shared.Model = DEFAULT_MODEL
    n: shared.N = CompletionSettings.n
    out: shared.Out = Path("completions")
    """Folder for the completions, sheet.png and record.json."""
    temperature: shared.Temperature = "1"
    chunk: Annotated[int | None, tyro.conf.arg(metavar="N")] = None
    """Completions computed at a time, which bounds memory; the result is the same."""
    device: shared.Device = "auto"
    repeat: Annotated[Path | None, tyro.conf.arg(metavar="RECORD")] = None
    """Do again what this record.json says, with the same files; only --out and --chunk may be given with it."""

    def run(self) -> None:
        if self.repeat is not None:
            self._check_alone()
            from condvae.completion.many_files import repeat

            print(f"wrote {repeat(self.repeat, self.out, chunk=self.chunk)}")
            return
        hole = self.said()
        from condvae.completion.many_files import complete_files
        from condvae.runtime.devices import resolve_device

        sheet = complete_files(
            self.images,
            hole,
            self.out,
            model=self.model,
            settings=settings_of(CompletionSettings, self),
            chunk=self.chunk,
            device=str(resolve_device(self.device)),
        )
        print(f"wrote {sheet}")

    def _check_alone(self) -> None:
        for field in dataclasses.fields(self):
            if field.name not in ("repeat", "out", "chunk") and getattr(self, field.name) != field.default:
                option = "images were" if field.name == "images" else f"--{field.name.replace('_', '-')} was"
                raise ValueError(f"{option} given with --repeat, which takes everything from the record: leave out one")
