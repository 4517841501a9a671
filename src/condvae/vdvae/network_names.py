"""The names of the networks in `vdvae/presets.py`. This file does not import torch, so that `--help` is quick."""

PUBLIC_NETWORKS = ("cifar10", "ffhq1024", "ffhq256", "imagenet32", "imagenet64", "xray256")
"""The networks of the public checkpoints and of the paper."""
SMALL_NETWORKS = (
    "cifar10-small", "demo32", "faces64", "shoes64", "small128", "small32", "small64", "tiny", "tiny64", "xray64",
)  # fmt: skip
"""Small networks that train in minutes."""
