"""The names of metrics and of the networks they use, without torch, so that `--help` is quick."""

from typing import Literal, TypeAlias, get_args

FolderMetric: TypeAlias = Literal["fid", "kid", "ids", "lpips", "psnr", "ssim"]
"""What `condvae compare` measures between two folders; ids stands for P-IDS and U-IDS."""
METRICS: tuple[FolderMetric, ...] = get_args(FolderMetric)

Trunk: TypeAlias = Literal["alex", "vgg"]
"""The network whose features LPIPS compares: AlexNet or VGG16."""

FeaturePrecision: TypeAlias = Literal["exact", "fast"]
"""Precision of Inception's features on a GPU: float32, or half precision."""
