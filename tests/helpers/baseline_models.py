"""Random models of the learned baselines with tiny networks, for images of 16 x 16 pixels or 32 x 32."""

from pathlib import Path
from typing import Any

import torch
from helpers.models import randomise
from torch import nn

from condvae import save
from condvae.completers.learned_baselines import config_from, make_completer
from condvae.completers.learned_completer import LearnedCompleter
from condvae.observe import Boxes
from condvae.weights.precision import WeightBits

CONFIGS: dict[str, dict[str, Any]] = {
    "ce": {"kind": "ce", "bottleneck": 12, "width": 4},
    "anp": {"kind": "anp", "width": 8, "heads": 2, "self_attention_blocks": 1, "cross_attention_blocks": 1},
    "pic": {
        "kind": "pic", "width": 4, "max_width": 8, "latent_channels": 4, "prior_blocks": 1, "attention_size": 8,
        "output_scales": 2,
    },
    "rfr": {
        "kind": "rfr", "widths": [4, 4, 8, 8], "kernels": [5, 3], "strides": 1, "head_width": 4,
        "perceptual_weight": 0.0, "style_weight": 0.0,
    },
    "comodgan": {"kind": "comodgan", "max_width": 8, "latent_features": 4, "mapping_layers": 2, "code_features": 8},
    "vqvae": {
        "kind": "vqvae", "codes": 8, "code_width": 4, "codes_width": 8, "structure_width": 8, "structure_blocks": 2,
        "structure_attentions": 1, "output_blocks": 1, "attention_heads": 1, "key_width": 4, "value_width": 4,
        "condition_width": 8, "condition_blocks": 2, "max_dilation": 2, "texture_width": 8, "critic_layers": 2,
    },
    "diffusion": {
        "kind": "diffusion", "widths": [8, 12], "level_blocks": 1, "attention_sizes": [8], "embedding": 8,
        "sampling_steps": 3,
    },
}  # fmt: skip
"""Configurations by kind, as in JSON files. The loss of rfr compares no features."""


def small_baseline(kind: str, *, size: int = 16, channels: int = 3, seed: int = 0, **changes: Any) -> LearnedCompleter:
    """A baseline in eval mode. All values of its state are random, also the statistics of BatchNorm."""
    torch.manual_seed(seed)
    model = make_completer(config_from({**CONFIGS[kind], "image_size": size, "channels": channels, **changes}))
    randomise(model, seed)
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):
            assert module.running_mean is not None and module.running_var is not None
            module.running_mean.normal_(std=0.1)
            module.running_var.uniform_(0.5, 1.5)
    return model.eval()


def baseline_file(folder: Path, kind: str, *, size: int = 16, seed: int = 0, bits: WeightBits = 32) -> Path:
    """Save a baseline, as if it were trained with boxes, as KIND.safetensors."""
    model = small_baseline(kind, size=size, seed=seed)
    model.process = Boxes()
    path = folder / f"{kind}.safetensors"
    save(model, path, bits=bits, record={"minutes": 1.5, "data": "faces"})
    return path
