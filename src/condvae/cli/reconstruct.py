"""The verb `condvae reconstruct`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from condvae.cli import shared
from condvae.cli.help_text import explained
from condvae.weights.model_names import DEFAULT_MODEL


@explained()
@dataclass(frozen=True, kw_only=True)
class Reconstruct:
    """Encode images with a model and decode them again.

    With --groups or --down-to, only the coarse latents are inferred from the image, which shows how much of the image
    they determine. If the model is conditional, its artifact is used.
    """

    images: shared.Images = ()
    model: shared.Model = DEFAULT_MODEL
    groups: Annotated[int | None, tyro.conf.arg(metavar="N")] = None
    """Infer only the N coarsest latent groups from the image, and draw all others from the prior. If not given, all
    groups are inferred from the image."""
    down_to: Annotated[int | None, tyro.conf.arg(metavar="R")] = None
    """Infer only the latents up to the resolution R x R from the image, and draw all finer latents from the prior. If
    not given, all are inferred from the image."""
    pixels: shared.PixelKind = "mean"
    seed: shared.Seed = 0
    out: shared.Out = Path("reconstructions")
    """The folder for the reconstructed images and sheet.png."""
    device: shared.Device = "auto"
    quiet: shared.Quiet = False

    def run(self) -> None:
        from condvae.images.atomic_folder import AtomicFolder, stem_of
        from condvae.images.contact_sheet import contact_sheet, to_pil
        from condvae.images.selection import read_images
        from condvae.runtime.devices import resolve_device
        from condvae.runtime.pixels import to_uint8
        from condvae.sampling.unconditional import groups_down_to, rebuild

        if self.groups is not None and self.down_to is not None:
            raise ValueError("--groups and --down-to were given: give only one of them, not both")
        vae = shared.load_vae(self.model).to(resolve_device(self.device))
        groups = self.groups if self.down_to is None else groups_down_to(vae.config, self.down_to)
        channels, size = vae.config.channels, vae.config.image_size
        x, paths = read_images(self.images, channels=channels, size=size, done="rebuilt", out=self.out, say=shared.warn)
        back = rebuild(vae, x.to(vae.device), groups=groups, seed=self.seed, pixels=self.pixels)
        with AtomicFolder(self.out) as folder:
            for i, (path, image) in enumerate(zip(paths, back, strict=True)):
                folder.put(f"{i + 1:03}-{stem_of(path)}.png", to_pil(image))
            originals = to_uint8(x[: shared.IMAGES_ON_SHEET])
            rows = [[original, image] for original, image in zip(originals, back, strict=False)]
            folder.put("sheet.png", contact_sheet(rows, ["original", "rebuilt"]))
        shared.say(shared.images_written(len(x), self.out))
