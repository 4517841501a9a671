"""The sub-verb `condvae design scan`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from condvae.cli import shared
from condvae.cli.help_text import explained
from condvae.design.scan_settings import ScanSettings


@explained(
    out=shared.out_folder_help("NAME.png of each image, NAME.gif if it has several scans, and design.json", "scans")
)
@dataclass(frozen=True, kw_only=True)
class DesignScan(shared.Parsed, ScanSettings):
    """Simulate a scanner on whole images: choose one small window after the other, and show why each was chosen.

    With --known nothing is simulated: only the pixels that are white in the given picture are known, and the result is
    the location to scan next.
    """

    images: shared.Images = ()
    model: shared.Model = "xray"
    classifier: shared.ClassifierName = "xray"
    known: Annotated[Path | None, tyro.conf.arg(metavar="PICTURE")] = None
    """A picture of the image's size in which white (grey level 128 or more) marks the known pixels. For several images,
    give a folder of such pictures, each with the file name of its image; only the extension may differ."""
    fit_mask: shared.FitMask = False
    n: shared.N = ScanSettings.n
    temperature: shared.Temperature = ScanSettings.temperature
    white: shared.White = ScanSettings.white
    out: shared.OutFolder = None
    device: shared.Device = "auto"
    quiet: shared.Quiet = False

    def run(self) -> None:
        if self.known is not None and self.steps != ScanSettings.steps:
            raise ValueError("--steps was given with --known, which chooses only the next scan: leave one of them out")
        from condvae.design.scan_files import scan_files

        record = scan_files(
            self.images,
            self.out,
            model=self.model,
            classifier=self.classifier,
            settings=shared.settings_of(ScanSettings, self),
            known=self.known,
            fit_mask=self.fit_mask,
            device=self.device,
            say=shared.say,
            result=shared.result,
        )
        shared.tell_written(f"wrote {record} and the pictures next to it", record.parent, self)
