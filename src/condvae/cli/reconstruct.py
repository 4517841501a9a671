"""The verb `condvae reconstruct`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from condvae.cli import shared
from condvae.cli.help_text import explained
from condvae.weights.model_names import DEFAULT_MODEL

_DEFAULT_OUT = Path("reconstructions")
_SHEET = "sheet.png"


@explained(out=shared.out_folder_help("the reconstructed images, sheet.png and record.json", str(_DEFAULT_OUT)))
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
    out: shared.OutFolder = None
    format: shared.Format = "png"
    device: shared.Device = "auto"
    quiet: shared.Quiet = False

    def run(self) -> None:
        from condvae.images.atomic_folder import AtomicFolder, stem_of
        from condvae.images.contact_sheet import contact_sheet, to_pil
        from condvae.images.recorded_files import RECONSTRUCTIONS
        from condvae.images.selection import read_images
        from condvae.runtime.pixels import to_uint8
        from condvae.sampling.unconditional import groups_down_to, rebuild

        if self.groups is not None and self.down_to is not None:
            raise ValueError("--groups and --down-to were given: give only one of them, not both")
        new = self.out is None
        with AtomicFolder(self.out or _DEFAULT_OUT, kind=RECONSTRUCTIONS, new=new, say=shared.say) as folder:
            folder.check_free(_SHEET)
            model, vae = shared.open_vae(self.model, self.device)
            groups = self.groups if self.down_to is None else groups_down_to(vae.config, self.down_to)
            channels, size = vae.config.channels, vae.config.image_size
            x, files = read_images(
                self.images,
                channels=channels,
                size=size,
                done="rebuilt",
                out=self.out,
                say=shared.say,
            )
            names = [f"{i + 1:03}-{stem_of(file.path)}.{self.format}" for i, file in enumerate(files)]
            folder.check_free(*names)
            back = rebuild(vae, x.to(vae.device), groups=groups, seed=self.seed, pixels=self.pixels)
            for name, image in zip(names, back, strict=True):
                folder.put(name, to_pil(image))
            originals = to_uint8(x[: shared.IMAGES_ON_SHEET])
            rows = [[original, image] for original, image in zip(originals, back, strict=False)]
            folder.put(_SHEET, contact_sheet(rows, ["original", "rebuilt"]))
            made = {
                "model": model.described(folder.folder),
                "groups": groups,
                "pixels": self.pixels,
                "seed": self.seed,
                "picture_format": self.format,
                "device": vae.device.type,
            }
            entries = [
                {"image": file.described(folder.folder), "outputs": [name]}
                for file, name in zip(files, names, strict=True)
            ]
            folder.write_record(made, entries, [_SHEET])
        shared.tell_written(shared.images_written(len(x), folder.folder), folder.folder, self)
