"""Verbs that show what the VAE inside a model knows: sample, reconstruct."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro

from condvae.weights.embedded import DEFAULT_MODEL

if TYPE_CHECKING:
    from condvae.vdvae import VDVAE

_ON_A_SHEET, _IN_A_ROW = 64, 8


@dataclass(frozen=True, kw_only=True)
class Sample:
    """Draw new images from a model, without any observation."""

    model: Annotated[str, tyro.conf.arg(metavar="NAME|FILE")] = DEFAULT_MODEL
    """A model by name, file, run folder, or owner/name on the hub; of a conditional one, the VAE inside it."""
    n: Annotated[int, tyro.conf.arg(aliases=["-n"])] = 16
    """How many images."""
    temperature: Annotated[str, tyro.conf.arg(metavar="T")] = "1"
    """Factor on the spread of the latents, less than 1 is calmer: one number, one for each group of latents as in
    1,1,0.9, or by resolution as in 8:0.9,16:0.7, where the others stay at 1."""
    pixels: Literal["mean", "sample"] = "mean"
    """Pixels as the mean of their distribution, or drawn from it."""
    seed: int = 0
    """Decides what is drawn; image k is the same however many there are."""
    out: Annotated[Path, tyro.conf.arg(aliases=["-o"])] = Path("samples")
    """Folder for 0001.png, 0002.png, ... and sheet.png."""

    def run(self) -> None:
        import torch

        from condvae.images.atomic_folder import AtomicFolder
        from condvae.images.contact_sheet import contact_sheet, to_pil
        from condvae.sampling.unconditional import draw_samples

        vae = _vae(self.model)
        images = draw_samples(vae, self.n, seed=self.seed, temperature=self.temperature, pixels=self.pixels)
        shown = []
        with AtomicFolder(self.out) as album:
            for k, image in enumerate(images):
                album.put(f"{k + 1:04}.png", to_pil(image))
                if k < _ON_A_SHEET:
                    shown.append(image)
            columns = min(len(shown), _IN_A_ROW)
            shown += [torch.full_like(shown[0], 255)] * (-len(shown) % columns)
            rows = [shown[i : i + columns] for i in range(0, len(shown), columns)]
            album.put("sheet.png", contact_sheet(rows, [""] * columns))
        print(f"wrote {_count(self.n)} and {_sheet(self.out, self.n)}")


@dataclass(frozen=True, kw_only=True)
class Reconstruct:
    """Send images through a model and back; with --groups or --down-to, through some of its latents only."""

    images: Annotated[tuple[Path, ...], tyro.conf.Positional]
    """Image files; they are cropped to a square and resized to the model's size."""
    model: Annotated[str, tyro.conf.arg(metavar="NAME|FILE")] = DEFAULT_MODEL
    """A model by name, file, run folder, or owner/name on the hub; of a conditional one, the VAE inside it."""
    groups: Annotated[int | None, tyro.conf.arg(metavar="N")] = None
    """Take the N coarsest groups of latents from the image and the others from the prior: shows what they hold."""
    down_to: Annotated[int | None, tyro.conf.arg(metavar="R")] = None
    """Likewise the latents from the coarsest resolution down to R x R."""
    pixels: Literal["mean", "sample"] = "mean"
    """Pixels as the mean of their distribution, or drawn from it."""
    seed: int = 0
    """Decides what is drawn."""
    out: Annotated[Path, tyro.conf.arg(aliases=["-o"])] = Path("reconstructions")
    """Folder for the rebuilt images and sheet.png."""

    def run(self) -> None:
        from condvae.completion import read_files
        from condvae.images.atomic_folder import AtomicFolder, stem_of
        from condvae.images.contact_sheet import contact_sheet, to_pil
        from condvae.runtime.pixels import to_uint8
        from condvae.sampling.unconditional import groups_down_to, rebuild

        if self.groups is not None and self.down_to is not None:
            raise ValueError("give --groups or --down-to, not both")
        vae = _vae(self.model)
        groups = self.groups if self.down_to is None else groups_down_to(vae.config, self.down_to)
        x = read_files(self.images, channels=vae.config.channels, size=vae.config.image_size)
        with AtomicFolder(self.out) as album:
            back = rebuild(vae, x, groups=groups, seed=self.seed, pixels=self.pixels)
            for i, (path, image) in enumerate(zip(self.images, back, strict=True)):
                album.put(f"{i + 1:03}-{stem_of(path)}.png", to_pil(image))
            rows = [[original, image] for original, image in zip(to_uint8(x[:_ON_A_SHEET]), back, strict=False)]
            album.put("sheet.png", contact_sheet(rows, ["original", "rebuilt"]))
        print(f"wrote {_count(len(x))} and {_sheet(self.out, len(x))}")


def _vae(name: str) -> "VDVAE":
    from condvae import weights
    from condvae.conditional import ConditionalVAE

    model = weights.load(name)
    return model.artifact if isinstance(model, ConditionalVAE) else model


def _count(n: int) -> str:
    return "1 image" if n == 1 else f"{n:,} images"


def _sheet(out: Path, n: int) -> str:
    return f"{out / 'sheet.png'}{f' of the first {_ON_A_SHEET}' if n > _ON_A_SHEET else ''}"
