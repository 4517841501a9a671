"""condvae sample."""

from dataclasses import dataclass
from pathlib import Path

from condvae.cli import shared
from condvae.weights.model_names import DEFAULT_MODEL

IN_A_ROW = 8


@dataclass(frozen=True, kw_only=True)
class Sample:
    """Draw new images from a model, without any observation; of a conditional model, from the VAE inside it."""

    model: shared.Model = DEFAULT_MODEL
    n: shared.N = 16
    """How many images."""
    temperature: shared.Temperature = "1"
    pixels: shared.PixelKind = "mean"
    seed: shared.Seed = 0
    out: shared.Out = Path("samples")
    """Folder for 0001.png, 0002.png, ... and sheet.png."""
    device: shared.Device = "auto"

    def run(self) -> None:
        import torch

        from condvae.images.atomic_folder import AtomicFolder
        from condvae.images.contact_sheet import contact_sheet, to_pil
        from condvae.runtime.devices import resolve_device
        from condvae.sampling.unconditional import draw_samples

        device = resolve_device(self.device)
        vae = shared.vae_of(self.model).to(device)
        images = draw_samples(vae, self.n, seed=self.seed, temperature=self.temperature, pixels=self.pixels)
        shown = []
        with AtomicFolder(self.out) as album:
            for k, image in enumerate(images):
                album.put(f"{k + 1:04}.png", to_pil(image))
                if k < shared.ON_A_SHEET:
                    shown.append(image)
            columns = min(len(shown), IN_A_ROW)
            shown += [torch.full_like(shown[0], 255)] * (-len(shown) % columns)
            rows = [shown[i : i + columns] for i in range(0, len(shown), columns)]
            album.put("sheet.png", contact_sheet(rows, [""] * columns))
        print(shared.wrote(self.n, self.out))
