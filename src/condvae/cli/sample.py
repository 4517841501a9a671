"""The verb `condvae sample`."""

from dataclasses import dataclass
from pathlib import Path

from condvae.cli import shared
from condvae.cli.help_text import explained
from condvae.weights.model_names import DEFAULT_MODEL

_IMAGES_PER_ROW = 8


@explained()
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
    out: shared.Out = Path("samples")
    """The folder for 0001.png, 0002.png, ... and sheet.png."""
    device: shared.Device = "auto"
    quiet: shared.Quiet = False

    def run(self) -> None:
        import torch

        from condvae.images.atomic_folder import AtomicFolder
        from condvae.images.contact_sheet import contact_sheet, to_pil
        from condvae.runtime.devices import resolve_device
        from condvae.sampling.unconditional import draw_samples

        device = resolve_device(self.device)
        vae = shared.load_vae(self.model).to(device)
        images = draw_samples(vae, self.n, seed=self.seed, temperature=self.temperature, pixels=self.pixels)
        shown = []
        with AtomicFolder(self.out) as folder:
            for k, image in enumerate(images):
                folder.put(f"{k + 1:04}.png", to_pil(image))
                if k < shared.IMAGES_ON_SHEET:
                    shown.append(image)
            columns = min(len(shown), _IMAGES_PER_ROW)
            shown += [torch.full_like(shown[0], 255)] * (-len(shown) % columns)
            rows = [shown[i : i + columns] for i in range(0, len(shown), columns)]
            folder.put("sheet.png", contact_sheet(rows, [""] * columns))
        shared.say(shared.images_written(self.n, self.out))
