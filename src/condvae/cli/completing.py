"""Verbs that draw images: complete."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro


@dataclass(frozen=True, kw_only=True)
class Complete:
    """Complete images with a trained model: K answers for each, and a contact sheet."""

    images: Annotated[tuple[Path, ...], tyro.conf.Positional]
    """Image files; they are cropped to a square and resized to the model's size."""
    model: Path
    """A conditional model: model.safetensors of a `condvae train` run."""
    out: Path = Path("completions")
    """Folder for the completions and sheet.png."""
    n: Annotated[int, tyro.conf.arg(aliases=["-n"])] = 5
    """Completions of each image."""
    box: Annotated[str | None, tyro.conf.arg(metavar="X,Y,W,H")] = None
    """Hide this box, in pixels of the model's images."""
    half: Literal["left", "right", "top", "bottom"] | None = None
    """Hide this half. Without a box or a half, what the model was trained to observe is drawn at random."""
    temperature: float = 1.0
    """Factor on the spread of the latents: less than 1 is calmer."""
    seed: int = 0
    """Decides what is drawn; completion k of image i is the same however many there are."""

    def run(self) -> None:
        from condvae import weights
        from condvae.completion import complete_files
        from condvae.partial import ConditionalVAE

        box = None if self.box is None else _box(self.box)
        if box is not None and self.half is not None:
            raise ValueError("give --box or --half, not both")
        model = weights.load(self.model)
        if not isinstance(model, ConditionalVAE):
            raise ValueError(f"{self.model} is an unconditional VAE: condition it first with condvae train")
        sheet = complete_files(
            model,
            self.images,
            self.out,
            n=self.n,
            seed=self.seed,
            temperature=self.temperature,
            box=box,
            half=self.half,
        )
        print(f"wrote {sheet}")


def _box(text: str) -> tuple[int, int, int, int]:
    try:
        x, y, width, height = (int(number) for number in text.split(","))
    except ValueError:
        raise ValueError(f"--box {text} was given, expected four whole numbers x,y,width,height") from None
    return x, y, width, height
