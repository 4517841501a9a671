"""The building block of the classifiers' trunks: a convolution and a batch normalisation, which can be merged."""

import copy
from typing import Literal, TypeAlias, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

Activation: TypeAlias = Literal["relu", "relu6", "none"]
M = TypeVar("M", bound=nn.Module)


class Norm(nn.Module):
    """Batch normalisation as in torch, but without the buffer that counts batches."""

    def __init__(self, channels: int, *, eps: float = 1e-3, momentum: float = 0.01) -> None:
        super().__init__()
        self.eps, self.momentum = eps, momentum
        self.weight, self.bias = nn.Parameter(torch.ones(channels)), nn.Parameter(torch.zeros(channels))
        self.running_mean: Tensor
        self.running_var: Tensor
        self.register_buffer("running_mean", torch.zeros(channels))
        self.register_buffer("running_var", torch.ones(channels))

    def forward(self, x: Tensor) -> Tensor:
        moments = (self.running_mean, self.running_var)
        return F.batch_norm(x, *moments, self.weight, self.bias, self.training, self.momentum, self.eps)


class ConvNorm(nn.Module):
    """A padded convolution, a batch normalisation and an activation. The stride divides the height and the width."""

    def __init__(
        self,
        inputs: int,
        outputs: int,
        kernel: int,
        *,
        stride: int = 1,
        groups: int = 1,
        activation: Activation,
        momentum: float = 0.01,
    ) -> None:
        super().__init__()
        padding = kernel // 2
        self.conv = nn.Conv2d(inputs, outputs, kernel, stride=stride, padding=padding, groups=groups, bias=False)
        self.norm: Norm | None = Norm(outputs, momentum=momentum)
        self.activation = activation

    def forward(self, x: Tensor) -> Tensor:
        x = self.conv(x)
        if self.norm is not None:
            x = self.norm(x)
        if self.activation == "none":
            return x
        return F.relu(x, inplace=True) if self.activation == "relu" else F.relu6(x, inplace=True)

    @torch.no_grad()
    def fold(self) -> None:
        """Merge the normalisation, as it is in evaluation mode, into the convolution's weights. Compute in float64."""
        if self.norm is None:
            return
        norm, kernel = self.norm, self.conv.weight
        gain = norm.weight.double() * (norm.running_var.double() + norm.eps).rsqrt()
        bias = norm.bias.double() - norm.running_mean.double() * gain
        self.conv.weight = nn.Parameter((kernel.double() * gain.view(-1, 1, 1, 1)).to(kernel.dtype))
        self.conv.bias = nn.Parameter(bias.to(kernel.dtype))
        self.norm = None


def folded(module: M) -> M:
    """Return a copy of a module for evaluation without gradients, with normalisations merged into convolutions."""
    made = copy.deepcopy(module).eval().requires_grad_(False)
    for layer in made.modules():
        if isinstance(layer, ConvNorm):
            layer.fold()
    return made.requires_grad_(False)
