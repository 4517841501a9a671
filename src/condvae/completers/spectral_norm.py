"""Spectral normalisation of convolutions (Miyato et al. 2018, "Spectral normalization for GANs").

torch's own version computes in the precision of autocast, which is too low for the power iteration. This one always
computes in float32. It updates its buffers in place, without the CPU reading a value, so a CUDA graph can record it.
A layer needs many tiny kernels. In `normalised_together`, layers of the same shape share them.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any, NamedTuple, TypeVar

import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize

L = TypeVar("L", nn.Conv2d, nn.ConvTranspose2d)

_FIRST_ITERATIONS = 15
"""Power iterations when a layer is made, so that the first steps of training have a good estimate of sigma."""


class SpectralNorm(nn.Module):
    """Parametrization that divides a weight by sigma, the largest singular value of its kernel matrix.

    The kernel matrix [outputs, k * k * inputs] has one row per output channel. The buffer u [outputs] approximates its
    leading left singular vector. Every forward pass improves u by one power iteration; in training mode, it also stores
    it. In eval mode the iteration is needed, too, since averaged weights have other singular vectors.
    """

    u: Tensor

    def __init__(self, weight: Tensor, *, output_dim: int = 0) -> None:
        super().__init__()
        self.output_dim = output_dim
        self.ready: Tensor | None = None  # the weight that `normalised_together` has computed
        with torch.no_grad():
            matrix = _kernel_matrices([weight], output_dim)
            u = torch.randn_like(matrix[:, :, 0])
            # The meta device, on which networks are made without memory for their weights, is slow and has no values.
            for _ in range(0 if weight.is_meta else _FIRST_ITERATIONS):
                u = _power_iteration(matrix, u).u
        self.register_buffer("u", u[0].clone())

    def forward(self, weight: Tensor) -> Tensor:
        if self.ready is not None:
            return self.ready
        return _normalise([(self, weight)])[0]


def spectral_norm(layer: L) -> L:
    """Normalise the weight of a convolution, so that the largest singular value of its kernel matrix is about 1."""
    output_dim = 1 if isinstance(layer, nn.ConvTranspose2d) else 0
    parametrize.register_parametrization(layer, "weight", SpectralNorm(layer.weight, output_dim=output_dim))
    return layer


@contextmanager
def normalised_together(module: nn.Module) -> Iterator[None]:
    """Context in which all layers of a module use weights that are computed once, at its start.

    Each layer does one power iteration, for which layers with weights of the same shape share their kernels. Under
    autocast, the weights have its data type.
    """
    lists = [part for part in module.modules() if isinstance(part, parametrize.ParametrizationList)]
    pairs = [(norm, part.original) for part in lists if isinstance(norm := part[0], SpectralNorm)]
    try:
        for (norm, _), ready in zip(pairs, _normalise(pairs, cast=True), strict=True):
            norm.ready = ready
        yield
    finally:
        for norm, _ in pairs:
            norm.ready = None


class _Iterated(NamedTuple):
    """The result of a power iteration for n matrices W with left vectors u': t = W^T u', s = W t, u = s / |s|.

    The right singular vectors are v = t / |t|, and sigma = u^T W v = |s| / |t|.
    """

    u: Tensor
    """[n, outputs]."""
    t: Tensor
    """[n, k * k * inputs]."""
    s_norm: Tensor
    """[n, 1, 1]."""
    sigma: Tensor
    """[n, 1, 1]."""


class _Divide(torch.autograd.Function):
    """W / sigma for matrices [n, outputs, k * k * inputs], where the gradient of sigma is u v^T.

    The gradient is G / sigma - <G / sigma, W> u v^T / sigma, and v / sigma = t / |s|.
    """

    @staticmethod
    def forward(ctx: Any, matrices: Tensor, iterated: _Iterated, dtype: torch.dtype) -> Tensor:
        ctx.save_for_backward(matrices, *iterated)
        return torch.div(matrices, iterated.sigma, out=torch.empty_like(matrices, dtype=dtype))

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        matrices, u, t, s_norm, sigma = ctx.saved_tensors
        scaled = gradients[0] / sigma
        factor = (scaled * matrices).sum(dim=(1, 2), keepdim=True) / s_norm
        return torch.addcmul(scaled, factor * u[:, :, None], t[:, None], value=-1), None, None


def _normalise(pairs: Sequence[tuple[SpectralNorm, Tensor]], *, cast: bool = False) -> list[Tensor]:
    """Return the normalised weights of layers. cast: whether to return them in the data type of autocast."""
    groups: dict[tuple[Any, ...], list[int]] = defaultdict(list)
    for place, (norm, weight) in enumerate(pairs):
        groups[weight.shape, norm.output_dim, norm.training, weight.requires_grad].append(place)
    ready: dict[int, Tensor] = {}
    stored: list[Tensor] = []
    better: list[Tensor] = []
    for places in groups.values():
        norms, weights = zip(*(pairs[place] for place in places), strict=True)
        dtype = _compute_dtype(weights[0]) if cast else weights[0].dtype
        # Autocast does not know the meta device.
        with nullcontext() if weights[0].is_meta else torch.autocast(weights[0].device.type, enabled=False):
            matrices = _kernel_matrices(weights, norms[0].output_dim)
            # New tensors for the backward pass: the next forward pass overwrites the buffers.
            iterated = _power_iteration(matrices, _stack([norm.u for norm in norms]))
            normalised: Tensor = _Divide.apply(matrices, iterated, dtype)  # type: ignore[no-untyped-call]
        ready.update(zip(places, _weights(normalised, norms[0].output_dim, weights[0].shape), strict=True))
        if norms[0].training:
            stored += [norm.u for norm in norms]
            better += iterated.u.unbind()
    if stored:
        with torch.no_grad():
            torch._foreach_copy_(stored, better)
    return [ready[place] for place in range(len(pairs))]


def _kernel_matrices(weights: Sequence[Tensor], output_dim: int) -> Tensor:
    """Return the kernel matrices of weights of the same shape, [n, outputs, k * k * inputs].

    The columns are in the order of channels_last, so that weights in this format are copied at most once. The order
    does not matter for singular values.
    """
    last = [weight.permute(0, 2, 3, 1) for weight in weights]
    if output_dim == 0:
        return _stack([weight.flatten(1) for weight in last])
    return _stack([weight.flatten(0, 2) for weight in last]).mT


def _weights(matrices: Tensor, output_dim: int, shape: torch.Size) -> list[Tensor]:
    """Return the weights that have these kernel matrices, in the format channels_last."""
    rows = matrices if output_dim == 0 else matrices.mT
    parts = rows.unbind() if len(rows) > 1 else (rows.squeeze(0),)  # the gradient of unbind is a copy
    return [part.view(shape[0], *shape[2:], shape[1]).permute(0, 3, 1, 2) for part in parts]


def _stack(tensors: Sequence[Tensor]) -> Tensor:
    """Stack tensors, without a copy of a single one."""
    return torch.stack(list(tensors)) if len(tensors) > 1 else tensors[0].unsqueeze(0)


@torch.no_grad()
def _power_iteration(matrices: Tensor, u: Tensor) -> _Iterated:
    """Improve the leading left singular vectors u [n, outputs] of matrices [n, outputs, k * k * inputs]."""
    t = torch.bmm(matrices.mT, u[:, :, None])
    s = torch.bmm(matrices, t)
    t_norm, s_norm = (torch.linalg.vector_norm(x, dim=1, keepdim=True) for x in (t, s))
    return _Iterated((s / s_norm)[:, :, 0], t[:, :, 0], s_norm, s_norm / t_norm)


def _compute_dtype(weight: Tensor) -> torch.dtype:
    """Return the data type in which a convolution uses a weight."""
    kind = weight.device.type
    if weight.is_meta or not torch.is_autocast_enabled(kind):
        return weight.dtype
    return torch.get_autocast_dtype(kind)
