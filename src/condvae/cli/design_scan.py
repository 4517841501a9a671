"""condvae design scan."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from condvae.cli import shared
from condvae.design.scan_settings import ScanSettings


@dataclass(frozen=True, kw_only=True)
class DesignScan(shared.Parsed, ScanSettings):
    """Simulate a scanner that sees a small window at a time, on whole images: where it looks, and why.

    With --known nothing is simulated: white has been scanned, no other pixel is looked at, and it says where to scan
    next.
    """

    images: shared.Images = ()
    model: shared.Model = "xray"
    classifier: shared.ClassifierName = "xray"
    known: Annotated[Path | None, tyro.conf.arg(metavar="PICTURE")] = None
    """A picture of the image's size, or a folder of them with the images' names: white (128 and lighter) is known."""
    n: shared.N = ScanSettings.n
    temperature: shared.Temperature = ScanSettings.temperature
    out: shared.Out = Path("scans")
    """Folder for NAME.png and NAME.gif of each image, and design.json."""
    device: shared.Device = "auto"

    def run(self) -> None:
        if self.known is not None and self.steps != ScanSettings.steps:
            raise ValueError("with --known nothing is scanned, so there are no --steps: leave one of them out")
        from condvae.design.scan_files import scan_files

        record = scan_files(
            self.images,
            self.out,
            model=self.model,
            classifier=self.classifier,
            settings=shared.settings_of(ScanSettings, self),
            known=self.known,
            device=self.device,
            say=shared.say,
        )
        print(f"wrote {record} and the pictures beside it")
