"""The verb that completes images."""

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro

from condvae.weights.embedded import DEFAULT_MODEL


@dataclass(frozen=True, kw_only=True)
class Complete:
    """Complete images: several answers for each, a contact sheet, and a record from which the call can be repeated.

    Say what is hidden in one way: --known, --hole, --box, --half or --random; or make it transparent in the image.
    What is in the strangest 1 % for the model gets a warning, where `condvae ood fit` has prepared it.
    """

    images: Annotated[tuple[Path, ...], tyro.conf.Positional] = ()
    """Image files, or folders of them; their middle square is resized to the model's size."""
    known: Annotated[Path | None, tyro.conf.arg(metavar="PICTURE")] = None
    """A picture of the image's size, or a folder of them with the images' names: white (128 and lighter) is known."""
    hole: Annotated[Path | None, tyro.conf.arg(metavar="PICTURE")] = None
    """Likewise, but white is hidden."""
    box: Annotated[str | None, tyro.conf.arg(metavar="X,Y,W,H")] = None
    """Hide this box, in pixels of the upright image."""
    half: Literal["left", "right", "top", "bottom"] | None = None
    """Hide this half of the middle square."""
    random: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False
    """Hide at random what the model was trained on, by the seed."""
    model: Annotated[str, tyro.conf.arg(metavar="NAME|FILE")] = DEFAULT_MODEL
    """A conditional model by name, file, run folder, or owner/name on the hub."""
    n: Annotated[int, tyro.conf.arg(aliases=["-n"])] = 8
    """Completions of each image."""
    out: Annotated[Path, tyro.conf.arg(aliases=["-o"])] = Path("completions")
    """Folder for the completions, sheet.png and record.json."""
    temperature: Annotated[str, tyro.conf.arg(metavar="T")] = "1"
    """Factor on the spread of the latents: less than 1 is calmer, 0 with mean pixels gives one answer. One number, one
    for each group of latents as in 1,1,0.9, or by resolution as in 8:0.9,16:0.7, where the others stay at 1."""
    pixels: Literal["mean", "sample"] = "mean"
    """Pixels as the mean of their distribution, which looks best, or drawn from it."""
    share: Annotated[int | None, tyro.conf.arg(metavar="R")] = None
    """Vary only the details: latents up to resolution R x R are those of the first completion in all of them."""
    keep_size: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False
    """Paste what was completed back into the whole image at its own size; all other pixels stay exactly as they are."""
    seed: int = 0
    """Decides what is drawn; completion k of an image is the same however many there are, of it and of others."""
    chunk: Annotated[int | None, tyro.conf.arg(metavar="N")] = None
    """Completions computed at a time, which bounds memory; the result is the same."""
    device: Literal["cpu", "cuda"] = "cpu"
    """Where to compute; on a CPU a call can be repeated bit for bit."""
    repeat: Annotated[Path | None, tyro.conf.arg(metavar="RECORD")] = None
    """Do again what this record.json says, with the same files; only --out and --chunk may be given with it."""

    def run(self) -> None:
        if self.repeat is not None:
            self._check_alone()
            from condvae.completion.many_files import repeat
            from condvae.ood.judging import warnings_of_completions

            print(f"wrote {repeat(self.repeat, self.out, chunk=self.chunk, inspect=warnings_of_completions)}")
            return
        box = None if self.box is None else box_of(self.box)
        from condvae.completion.many_files import complete_files
        from condvae.completion.record import CompletionSettings
        from condvae.images.holes import Hole
        from condvae.ood.judging import warnings_of_completions

        sheet = complete_files(
            self.images,
            Hole(known=self.known, hole=self.hole, box=box, half=self.half, random=self.random),
            self.out,
            model=self.model,
            settings=CompletionSettings(
                n=self.n,
                temperature=self.temperature,
                seed=self.seed,
                pixels=self.pixels,
                share=self.share,
                keep_size=self.keep_size,
            ),
            chunk=self.chunk,
            device=self.device,
            inspect=warnings_of_completions,
        )
        print(f"wrote {sheet}")

    def _check_alone(self) -> None:
        for field in dataclasses.fields(self):
            if field.name not in ("repeat", "out", "chunk") and getattr(self, field.name) != field.default:
                option = "images were" if field.name == "images" else f"--{field.name.replace('_', '-')} was"
                raise ValueError(f"{option} given with --repeat, which takes everything from the record: leave out one")


def box_of(text: str) -> tuple[int, int, int, int]:
    """x, y, width, height."""
    try:
        x, y, width, height = (int(number) for number in text.split(","))
    except ValueError:
        raise ValueError(f"--box {text} was given, expected four whole numbers x,y,width,height") from None
    return x, y, width, height
