"""The names and sizes of the learned baselines. This module does not import torch, so that `--help` is quick."""

from typing import Any

LEARNED_TITLES = {
    "ce": "Context Encoder",
    "anp": "Attentive Neural Process",
    "pic": "Pluralistic Image Completion",
    "rfr": "Recurrent Feature Reasoning",
}
"""The full names of the learned baselines."""
LEARNED_MEANINGS = {
    "ce": f"{LEARNED_TITLES['ce']}, which has one answer to each image",
    "anp": LEARNED_TITLES["anp"],
    "pic": LEARNED_TITLES["pic"],
    "rfr": f"{LEARNED_TITLES['rfr']}, which has one answer to each image, and needs `condvae fetch metrics`",
}
"""What each learned baseline is, for help texts."""

LEARNED_PRESETS: dict[str, dict[str, Any]] = {
    "ce": {"kind": "ce", "bottleneck": 512},
    "anp": {"kind": "anp", "width": 256, "context_points": 256, "target_points": 512},
    "pic": {"kind": "pic", "width": 64, "max_width": 256, "latent_size": 4, "attention_size": 16, "output_scales": 3},
    "rfr": {"kind": "rfr", "widths": (32, 64, 128, 256), "kernels": (5, 3), "strides": 2},
    "ce-paper": {"kind": "ce", "bottleneck": 4000},
    "anp-paper": {"kind": "anp", "width": 512},
    "pic-paper": {
        "kind": "pic", "width": 32, "max_width": 128, "latent_size": 8, "attention_size": 32, "output_scales": 4,
    },
    "rfr-paper": {"kind": "rfr", "widths": (64, 128, 256, 512), "kernels": (7, 7), "strides": 3},
}  # fmt: skip
"""Configurations by name: small ones for minutes of training, and those of the paper (NAME-paper). The size and the
number of channels of the images are added when the data is known."""
LARGER_IMAGES: dict[str, dict[str, Any]] = {
    "anp": {"context_points": 512, "target_points": 1024},
    "rfr": {"kernels": (7, 7), "strides": 3},
}
"""What differs for images of more than 32 x 32 pixels, by the kind of the baseline."""
SIZES_OF_PAPER = {"pic-paper": 256, "rfr-paper": 256}
"""The only image size of some networks of the paper. The paper enlarges smaller images to this size."""
