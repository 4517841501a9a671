"""The one building block of VD-VAE (Child 2020), and three small helpers."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint


class Block(nn.Module):
    """Four convolutions 1x1, 3x3, 3x3, 1x1 with GELU before each; at resolutions up to 2 all are 1x1."""

    def __init__(
        self, inputs: int, inner: int, outputs: int, *, resolution: int, adds_input: bool = False, pool: int = 1
    ) -> None:
        super().__init__()
        kernel = 3 if resolution > 2 else 1
        self.adds_input = adds_input
        self.pool = pool
        self.recompute = False
        self.c1 = convolution(inputs, inner, 1)
        self.c2 = convolution(inner, inner, kernel)
        self.c3 = convolution(inner, inner, kernel)
        self.c4 = convolution(inner, outputs, 1)

    def forward(self, x: Tensor) -> Tensor:
        """[B, inputs, R, R] -> [B, outputs, R / pool, R / pool]"""
        if self.recompute and torch.is_grad_enabled():
            y: Tensor = checkpoint(self._branch, x, use_reentrant=False, preserve_rng_state=False)
        else:
            y = self._branch(x)
        if self.adds_input:
            y = x + y
        return F.avg_pool2d(y, self.pool) if self.pool > 1 else y

    def _branch(self, x: Tensor) -> Tensor:
        y = x
        for layer in (self.c1, self.c2, self.c3, self.c4):
            y = layer(F.gelu(y))
        return y


def recompute_activations(module: nn.Module, on: bool = True) -> None:
    """Keep only the input of every block for the backward pass and compute what is inside again: slower, smaller."""
    for block in module.modules():
        if isinstance(block, Block):
            block.recompute = on


def convolution(inputs: int, outputs: int, kernel: int) -> nn.Conv2d:
    """A convolution that keeps the resolution; its bias starts at zero."""
    layer = nn.Conv2d(inputs, outputs, kernel, padding=kernel // 2)
    nn.init.zeros_(layer.bias)  # type: ignore[arg-type]
    return layer


def fit_channels(x: Tensor, width: int) -> Tensor:
    """Cut surplus channels, or append zeros: how states cross between resolutions of different width."""
    missing = width - x.shape[1]
    return F.pad(x, (0, 0, 0, 0, 0, missing)) if missing > 0 else x[:, :width]
