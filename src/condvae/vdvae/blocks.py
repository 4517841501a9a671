"""The building block of all VD-VAE networks (Child 2020), and three helper functions."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint


class Block(nn.Module):
    """Four convolutions (1x1, 3x3, 3x3, 1x1), each after a GELU. At resolutions 1 and 2, all four are 1x1."""

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

    def forward(self, x: Tensor, extra_input: Tensor | None = None) -> Tensor:
        """Apply the block: [B, inputs, R, R] -> [B, outputs, R / pool, R / pool].

        extra_input: the last input channels, if GELU has already been applied to them; x then has the first ones. The
        batch of extra_input may be n times smaller than the batch of x. Each of its entries is then used for n
        consecutive entries of x.
        """
        y = self.outputs(self.hidden(x, extra_input))
        if self.adds_input:
            y = x + y
        return y if self.pool == 1 else F.avg_pool2d(y, self.pool)

    def hidden(self, x: Tensor, extra_input: Tensor | None = None) -> Tensor:
        """Compute all layers before the last convolution; `outputs` applies that convolution to the result."""
        if self.recompute and torch.is_grad_enabled():
            hidden: Tensor = checkpoint(self._hidden, x, extra_input, use_reentrant=False, preserve_rng_state=False)
            return hidden
        return self._hidden(x, extra_input)

    def outputs(self, hidden: Tensor, first: int = 0, last: int | None = None) -> Tensor:
        """Compute the output channels first, ..., last - 1 from the result of `hidden`; by default, all channels."""
        if first == 0 and last is None:
            whole: Tensor = self.c4(hidden)
            return whole
        assert self.c4.bias is not None
        return F.conv2d(hidden, self.c4.weight[first:last], self.c4.bias[first:last])

    def _hidden(self, x: Tensor, extra_input: Tensor | None) -> Tensor:
        y = F.gelu(x)
        if extra_input is not None:
            if len(extra_input) != len(x):
                extra_input = extra_input.repeat_interleave(len(x) // len(extra_input), dim=0)
            y = torch.cat((y, extra_input.to(y.dtype)), dim=1)
        for layer in (self.c1, self.c2, self.c3):
            y = F.gelu(layer(y))
        return y


def recompute_activations(module: nn.Module, on: bool = True) -> None:
    """Save memory in training: store only each block's input, and recompute its activations in the backward pass."""
    for block in module.modules():
        if isinstance(block, Block):
            block.recompute = on


def convolution(inputs: int, outputs: int, kernel: int) -> nn.Conv2d:
    """Make a convolution that keeps the resolution and whose bias starts at zero."""
    layer = nn.Conv2d(inputs, outputs, kernel, padding=kernel // 2)
    nn.init.zeros_(layer.bias)  # type: ignore[arg-type]
    return layer


def fit_channels(x: Tensor, width: int) -> Tensor:
    """Drop the last channels of x or append channels of zeros, so that it has `width` channels."""
    missing = width - x.shape[1]
    return F.pad(x, (0, 0, 0, 0, 0, missing)) if missing > 0 else x[:, :width]
