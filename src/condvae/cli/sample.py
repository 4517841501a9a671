"""The verb `condvae sample`."""

from dataclasses import dataclass
from pathlib import Path

from condvae.cli import shared
from condvae.cli.help_text import explained
from condvae.weights.model_names import DEFAULT_MODEL

_IMAGES_PER_ROW = 8
_DEFAULT_OUT = Path("samples")
_SHEET = "sheet.png"


@explained(out=shared.out_folder_help("0001.png, 0002.png and so on, sheet.png and record.json", str(_DEFAULT_OUT)))
@dataclass(frozen=True, kw_only=True)
class Sample:
    """Draw new images from a model, without any observation.

    If the model is conditional, the images are drawn from its artifact.
    """

    model: shared.Model = DEFAULT_MODEL
    n: shared.N = 16
    """How many images to draw."""
    temperature: shared.Temperature = "1"
    pixels: shared.PixelKind = "mean"
    seed: shared.Seed = 0
    out: shared.OutFolder = None
    format: shared.Format = "png"
    device: shared.Device = "auto"
    quiet: shared.Quiet = False

    def run(self) -> None:
        import torch

        from condvae.images.atomic_folder import AtomicFolder
        from condvae.images.contact_sheet import contact_sheet, to_pil
        from condvae.images.recorded_files import SAMPLES
        from condvae.sampling.unconditional import draw_samples

        with AtomicFolder(self.out or _DEFAULT_OUT, kind=SAMPLES, new=self.out is None, say=shared.say) as folder:
            model, vae = shared.open_vae(self.model, self.device)
            names = [f"{k + 1:04}.{self.format}" for k in range(self.n)]
            folder.check_free(*names, _SHEET)
            images = draw_samples(vae, self.n, seed=self.seed, temperature=self.temperature, pixels=self.pixels)
            shown: list[torch.Tensor] = []
            for name, image in zip(names, images, strict=True):
                folder.put(name, to_pil(image))
                if len(shown) < shared.IMAGES_ON_SHEET:
                    shown.append(image)
            columns = min(len(shown), _IMAGES_PER_ROW)
            shown += [torch.full_like(shown[0], 255)] * (-len(shown) % columns)
            rows = [shown[i : i + columns] for i in range(0, len(shown), columns)]
            folder.put(_SHEET, contact_sheet(rows, [""] * columns))
            made = {
                "model": model.described(folder.folder),
                "n": self.n,
                "temperature": self.temperature,
                "pixels": self.pixels,
                "seed": self.seed,
                "picture_format": self.format,
                "device": vae.device.type,
            }
            folder.write_record(made, [{"outputs": [name]} for name in names], [_SHEET])
        shared.tell_written(shared.images_written(self.n, folder.folder), folder.folder, self)
