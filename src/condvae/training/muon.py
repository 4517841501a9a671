"""Muon's step for the weights of convolutions: the nearest orthogonal matrix to the momentum (Jordan et al. 2024).

The weights of a convolution are a matrix with one row per output channel. The step has the size that AdamW's steps
typically have (Liu et al. 2025), so that one learning rate and one weight decay serve all weights. Tests compare it
with torch.optim.Muon.
"""

from collections import defaultdict

import torch
from torch import Tensor

from condvae.training.flat_parameters import FlatParameters

MOMENTUM = 0.95
_COEFFICIENTS = (3.4445, -4.7750, 2.0315)  # of the polynomial of Newton-Schulz, from the authors of Muon
_ITERATIONS = 5
_FEWEST_CHANNELS = 8
_SIZE = 0.2  # root mean square of the elements of AdamW's typical step, as a part of the learning rate


class ConvolutionSteps:
    """Replaces the steps of all convolutions with at least eight input and output channels by Muon's."""

    def __init__(self, flat: FlatParameters) -> None:
        self.flat = flat
        self.groups: dict[torch.Size, list[str]] = defaultdict(list)
        for name, parameter in flat.parameters.items():
            if parameter.ndim == 4 and min(parameter.shape[:2]) >= _FEWEST_CHANNELS:
                self.groups[parameter.shape].append(name)
        self.chosen = torch.zeros_like(flat.values, dtype=torch.bool)
        """True for the weights of these convolutions."""
        for part in self._parts(self.chosen):
            part.fill_(True)

    def _parts(self, vector: Tensor) -> list[Tensor]:
        return [self.flat.view(vector, name) for names in self.groups.values() for name in names]

    def write(self, steps: Tensor, momentum: Tensor) -> None:
        """Write the steps of the chosen weights into the vector `steps`, made from the vector `momentum`."""
        for shape, names in self.groups.items():
            matrices = torch.stack([self.flat.view(momentum, name).permute(0, 2, 3, 1).flatten(1) for name in names])
            made = orthogonalised(matrices) * (_SIZE * max(matrices.shape[1:]) ** 0.5)
            made = made.view(-1, shape[0], *shape[2:], shape[1]).permute(0, 1, 4, 2, 3)
            for name, one in zip(names, made, strict=True):
                self.flat.view(steps, name).copy_(one)


def orthogonalised(matrices: Tensor) -> Tensor:
    """Return matrices [N, m, n] whose singular values are all near 1, with the singular vectors of the given ones."""
    tall = matrices.shape[1] > matrices.shape[2]
    x: Tensor = (matrices.mT if tall else matrices).bfloat16()
    x = x / torch.linalg.matrix_norm(x, keepdim=True).clamp(min=1e-7)
    a, b, c = _COEFFICIENTS
    for _ in range(_ITERATIONS):
        gram = x @ x.mT
        x = a * x + (b * gram + c * gram @ gram) @ x
    return (x.mT if tall else x).to(matrices.dtype)
