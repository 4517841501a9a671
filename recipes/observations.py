"""Draw a contact sheet of what each observation process shows of some images.

The picture in docs/guides/train.md was made by

python recipes/observations.py --data tests/fixtures/faces32.zip --out docs/guides/observations.png
"""

from dataclasses import dataclass
from pathlib import Path

import torch

from condvae.data import open_data
from condvae.data.order import spread
from condvae.images.contact_sheet import contact_sheet
from condvae.images.model_sheets import visible
from condvae.observe import parse
from condvae.runtime.pixels import to_uint8
from condvae.runtime.scripts import run_script
from condvae.vdvae import VDVAE, preset

PROCESSES = (
    "freeform",
    "freeform,low=0.2,high=0.6",
    "patches",
    "boxes",
    "halves",
    "pixels",
    "edges",
    "grey",
    "low-resolution",
)


@dataclass(frozen=True, kw_only=True)
class Options:
    """Draw what each observation process shows of some test images."""

    data: Path = Path(__file__).parents[1] / "tests" / "fixtures" / "faces32.zip"
    """Data set whose test images are shown."""
    out: Path = Path("out/observations.png")
    rows: int = 5
    """How many images to show, one in each row."""
    seed: int = 2


def main(options: Options) -> None:
    images = open_data(options.data).test
    batch = images.take(spread(len(images), options.rows)).batch()
    vae = VDVAE(preset("tiny"))  # only its normalisation is used, which `visible` inverts
    generator = torch.Generator().manual_seed(options.seed)
    seen = [
        visible(parse(process).observe(batch, normalise=vae.normalise, generator=generator), vae.config)
        for process in PROCESSES
    ]
    table = [[to_uint8(column[i]) for column in (batch.x, *seen)] for i in range(len(batch))]
    names = [process.replace("freeform,low=0.2,high=0.6", "20 to 60 %") for process in PROCESSES]
    options.out.parent.mkdir(parents=True, exist_ok=True)
    contact_sheet(table, ["image", *names]).save(options.out)
    print(f"wrote {options.out}")


if __name__ == "__main__":
    run_script(main, Options)
