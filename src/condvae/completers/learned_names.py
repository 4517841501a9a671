"""The names and sizes of the learned baselines. This module does not import torch, so that `--help` is quick."""

from typing import Any

LEARNED_TITLES = {
    "ce": "Context Encoder",
    "anp": "Attentive Neural Process",
    "pic": "Pluralistic Image Completion",
    "rfr": "Recurrent Feature Reasoning",
    "comodgan": "CoModGAN",
    "vqvae": "VQ-VAE",
    "diffusion": "Diffusion",
}
"""The full names of the learned baselines."""
LEARNED_MEANINGS = {
    "ce": f"{LEARNED_TITLES['ce']}, which has one answer to each image",
    "anp": LEARNED_TITLES["anp"],
    "pic": LEARNED_TITLES["pic"],
    "rfr": f"{LEARNED_TITLES['rfr']}, which has one answer to each image, and needs `condvae fetch metrics`",
    "comodgan": f"{LEARNED_TITLES['comodgan']}, a co-modulated StyleGAN2",
    "vqvae": f"{LEARNED_TITLES['vqvae']}, which is trained in three stages",
    "diffusion": f"{LEARNED_TITLES['diffusion']}, a small denoising U-Net, which the paper does not have",
}
"""What each learned baseline is, for help texts."""

LEARNED_PRESETS: dict[str, dict[str, Any]] = {
    "ce": {"kind": "ce", "bottleneck": 512},
    "anp": {"kind": "anp", "width": 256, "context_points": 256, "target_points": 512},
    "pic": {"kind": "pic", "width": 64, "max_width": 256, "latent_size": 4, "attention_size": 16, "output_scales": 3},
    "rfr": {"kind": "rfr", "widths": (32, 64, 128, 256), "kernels": (5, 3), "strides": 2},
    "comodgan": {
        "kind": "comodgan", "max_width": 128, "width_base": 2048, "latent_features": 128, "mapping_layers": 4,
        "code_features": 256, "r1_weight": 1.0,
    },
    "vqvae": {
        "kind": "vqvae", "bottom_halvings": 1, "codes": 256, "structure_width": 64, "structure_blocks": 8,
        "structure_attentions": 2, "condition_width": 96, "condition_blocks": 4, "max_dilation": 4, "texture_width": 48,
        "critic_layers": 4,
    },
    "diffusion": {"kind": "diffusion", "widths": (64, 96, 96), "level_blocks": 2, "attention_sizes": (16, 8)},
    "ce-paper": {"kind": "ce", "bottleneck": 4000},
    "anp-paper": {"kind": "anp", "width": 512},
    "pic-paper": {
        "kind": "pic", "width": 32, "max_width": 128, "latent_size": 8, "attention_size": 32, "output_scales": 4,
    },
    "rfr-paper": {"kind": "rfr", "widths": (64, 128, 256, 512), "kernels": (7, 7), "strides": 3},
    "comodgan-paper": {
        "kind": "comodgan", "max_width": 512, "latent_features": 512, "mapping_layers": 8, "code_features": 1024,
    },
    "vqvae-paper": {
        "kind": "vqvae", "bottom_halvings": 2, "codes": 512, "structure_width": 128, "structure_blocks": 20,
        "structure_attentions": 4, "output_blocks": 20, "attention_heads": 8, "value_width": 64,
        "condition_width": 256, "condition_blocks": 10, "max_dilation": 16, "texture_width": 64, "critic_layers": 6,
    },
}  # fmt: skip
"""Configurations by name: small ones for minutes of training, and those of the paper (NAME-paper). The size and the
number of channels of the images are added when the data is known."""
LARGER_IMAGES: dict[str, dict[str, Any]] = {
    "anp": {"context_points": 512, "target_points": 1024},
    "rfr": {"kernels": (7, 7), "strides": 3},
    "vqvae": {"bottom_halvings": 2},
}
"""What differs for images of more than 32 x 32 pixels, by the kind of the baseline."""
SIZES_OF_PAPER = {"pic-paper": 256, "rfr-paper": 256, "vqvae-paper": 256}
"""The only image size of some networks of the paper. The paper enlarges smaller images to this size."""
STAGES: dict[str, dict[str, float]] = {
    "vqvae": {"codes": 1.5 / 7, "structure": 3 / 7, "texture": 2.5 / 7},
    "vqvae-paper": {"codes": 0.25, "structure": 0.25, "texture": 0.5},
}
"""Methods, or presets, that are trained in stages: the name of each stage, in order, and its part of the budget."""
