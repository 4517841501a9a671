"""The names of metrics and of the networks they use. This module does not import torch, so that `--help` is quick."""

from typing import Literal, TypeAlias, get_args

FolderMetric: TypeAlias = Literal["fid", "kid", "ids", "lpips", "psnr", "ssim"]
"""The metrics that `condvae compare` can compute between two folders; "ids" stands for P-IDS and U-IDS."""
METRICS: tuple[FolderMetric, ...] = get_args(FolderMetric)

Trunk: TypeAlias = Literal["alex", "vgg"]
"""The network whose features LPIPS compares: AlexNet or VGG16."""

FeaturePrecision: TypeAlias = Literal["exact", "fast"]
"""The precision in which a GPU computes Inception features: "exact" is float32, "fast" is half precision."""
