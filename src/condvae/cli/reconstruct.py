"""condvae reconstruct."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from condvae.cli import shared
from condvae.weights.model_names import DEFAULT_MODEL


@dataclass(frozen=True, kw_only=True)
class Reconstruct:
    """Send images through a model and back; with --groups or --down-to, through some of its latents only.

    Of a conditional model, through the VAE inside it.
    """

    images: shared.Images = ()
    model: shared.Model = DEFAULT_MODEL
    groups: Annotated[int | None, tyro.conf.arg(metavar="N")] = None
    """Take the N coarsest groups of latents from the image and the others from the prior: shows what they hold."""
    down_to: Annotated[int | None, tyro.conf.arg(metavar="R")] = None
    """Likewise the latents from the coarsest resolution down to R x R."""
    pixels: shared.PixelKind = "mean"
    seed: shared.Seed = 0
    out: shared.Out = Path("reconstructions")
    """Folder for the rebuilt images and sheet.png."""
    device: shared.Device = "auto"

    def run(self) -> None:
        from condvae.images.atomic_folder import AtomicFolder, stem_of
        from condvae.images.contact_sheet import contact_sheet, to_pil
        from condvae.images.selection import read_images
        from condvae.runtime.devices import resolve_device
        from condvae.runtime.pixels import to_uint8
        from condvae.sampling.unconditional import groups_down_to, rebuild

        if self.groups is not None and self.down_to is not None:
            raise ValueError("give --groups or --down-to, not both")
        vae = shared.vae_of(self.model).to(resolve_device(self.device))
        groups = self.groups if self.down_to is None else groups_down_to(vae.config, self.down_to)
        channels, size = vae.config.channels, vae.config.image_size
        x, paths = read_images(self.images, channels=channels, size=size, done="rebuilt", out=self.out)
        back = rebuild(vae, x.to(vae.device), groups=groups, seed=self.seed, pixels=self.pixels)
        with AtomicFolder(self.out) as folder:
            for i, (path, image) in enumerate(zip(paths, back, strict=True)):
                folder.put(f"{i + 1:03}-{stem_of(path)}.png", to_pil(image))
            rows = [[original, image] for original, image in zip(to_uint8(x[: shared.ON_A_SHEET]), back, strict=False)]
            folder.put("sheet.png", contact_sheet(rows, ["original", "rebuilt"]))
        print(shared.wrote(len(x), self.out))
