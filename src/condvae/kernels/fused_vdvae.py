"""VD-VAE networks computed by fused kernels.

Inside the `with` block of `Fused.attached`, methods of the model's modules are replaced by functions that call kernels
with half-precision copies of the weights. Outside it, and where kernels are not available, everything is plain torch.
"""

# mypy: disable-error-code="no-untyped-call"

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from condvae.gaussian import Gaussian, Scales
from condvae.kernels import latents
from condvae.kernels.block import (
    BlockFunction,
    HiddenFunction,
    LayerWeights,
    OutputFunction,
    half_way,
    pays,
    second_half,
    without_gradients,
)
from condvae.kernels.resample import enlarge, mean_pool
from condvae.kernels.side_stream import SideStream
from condvae.kernels.tiles import WIDEST
from condvae.noise import DeviceSeeds, Noise
from condvae.vdvae.blocks import Block, fit_channels
from condvae.vdvae.config import Stage
from condvae.vdvae.decoder import Decoder, LatentBlock, PriorFeatures
from condvae.vdvae.encoder import Encoder
from condvae.vdvae.model import VDVAE


class FusedGaussian(Gaussian):
    """A Gaussian that keeps the network's raw outputs, so that one kernel draws from it and another computes a KL."""

    raw: Tensor
    """[B, 2 C, H, W] float32: the network's outputs, C means and then C scales."""
    scales: Scales
    dtype: torch.dtype
    """The dtype of latents that are drawn from this Gaussian."""
    base: "FusedGaussian | None"
    """If given, the network's outputs are differences from the mean and log-std of this Gaussian."""

    @classmethod
    def read(
        cls, raw: Tensor, scales: Scales, dtype: torch.dtype, base: "FusedGaussian | None" = None
    ) -> "FusedGaussian":
        self = cls(*raw.chunk(2, dim=1))
        self.raw, self.scales, self.dtype, self.base = raw, scales, dtype, base
        return self

    @property
    def _plain(self) -> Gaussian:
        own = Gaussian.from_network(self.raw, self.scales)
        return self.base._plain.shifted_by(own) if self.base else own

    @property
    def mean(self) -> Tensor:
        return self._plain.mean

    @property
    def log_std(self) -> Tensor:
        return self._plain.log_std

    @property
    def shape(self) -> torch.Size:
        return torch.Size((len(self.raw), self.raw.shape[1] // 2, *self.raw.shape[2:]))

    def draw(self, noise: Noise, stream: int, temperature: float | Tensor = 1.0) -> Tensor:
        if self.base:
            return self._plain.draw(noise, stream, temperature).to(self.dtype)
        softplus, raw = self.scales == "softplus", self.raw
        if isinstance(noise, DeviceSeeds) and not (raw.requires_grad and torch.is_grad_enabled()):
            return latents.draw_seeded(
                raw, noise.seeds, stream, softplus=softplus, temperature=temperature, dtype=self.dtype
            )
        numbers = noise.normal(stream, self.shape, raw.device)
        return latents.draw(raw, numbers, softplus=softplus, temperature=temperature, dtype=self.dtype)

    def total_kl_to(self, other: Gaussian) -> Tensor:
        if self.base or not isinstance(other, FusedGaussian) or (other.base and other.base.raw.requires_grad):
            return self._plain.total_kl_to(other)
        base = None if other.base is None else other.base.raw
        return latents.kl(self.raw, other.raw, softplus=self.scales == "softplus", base_raw=base)

    def shifted_by(self, difference: Gaussian) -> Gaussian:
        if self.base or not isinstance(difference, FusedGaussian) or difference.base:
            return self._plain.shifted_by(difference)
        return FusedGaussian.read(difference.raw, difference.scales, self.dtype, base=self)


class FusedBlock:
    """A block computed by kernels, which add weight gradients to the tensors that were given to `Fused`."""

    def __init__(
        self,
        block: Block,
        layers: tuple[LayerWeights, ...],
        *,
        dtype: torch.dtype,
        projection: LayerWeights | None = None,
    ) -> None:
        self.block, self.layers, self.dtype, self.projection = block, layers, dtype, projection
        self.out_dtype: torch.dtype = dtype
        trains = any(layer.weight_gradient is not None for layer in layers)
        # Autograd does not know the weights. This input makes it run the backward pass even if no other input needs it.
        self.anchor = torch.zeros((), device=layers[0].weight.device, requires_grad=trains)

    def trains(self, *inputs: Tensor | None) -> bool:
        """Return whether a backward pass through this block may follow."""
        return torch.is_grad_enabled() and any(x is not None and x.requires_grad for x in (self.anchor, *inputs))

    def whole(self, x: Tensor, extra_input: Tensor | None) -> Tensor:
        """Compute the block, including its residual but not its pooling."""
        x, extra_input = x.to(self.dtype), None if extra_input is None else extra_input.to(self.dtype)
        block = self.block
        if not self.trains(x, extra_input):
            return without_gradients(x, extra_input, self.layers, add=block.adds_input, dtype=self.out_dtype)
        y: Tensor = BlockFunction.apply(
            x, extra_input, self.anchor, self.layers, block.adds_input, block.recompute, self.out_dtype
        )
        return y

    def forward(self, x: Tensor, extra_input: Tensor | None = None) -> Tensor:
        """Compute the block. This replaces `Block.forward`."""
        y = self.whole(x, extra_input)
        return y if self.block.pool == 1 else mean_pool(y, self.block.pool)

    def features(self, state: Tensor, *, prior: bool) -> PriorFeatures:
        """Compute the part of a latent block that does not need z. This replaces `LatentBlock.features`.

        prior: whether the prior will be needed. If not, half of the computation may be left to `merge`.
        """
        state = state.to(self.dtype)
        if not prior and not self.trains(state) and self._may_wait(state):
            return PriorFeatures(half_way(state, None, self.layers), half_way=True)
        return PriorFeatures(HiddenFunction.apply(state, None, self.anchor, self.layers[:3], self.block.recompute))

    def _may_wait(self, state: Tensor) -> bool:
        assert self.projection is not None
        return pays(state, self.layers) and self.projection.weight.shape[1] <= WIDEST

    def statistics(self, features: PriorFeatures, last: int) -> Tensor:
        """Return the means and scales of the prior in float32: the output channels 0, ..., last - 1 of the block."""
        rows = self.layers[3].rows(0, last)
        y: Tensor = OutputFunction.apply(features.hidden, None, None, self.anchor, rows, None, torch.float32)
        return y

    def merge(self, state: Tensor, features: PriorFeatures, z: Tensor, *, first: int) -> Tensor:
        """Return state + f + projection(z), where f are the block's output channels from number `first` on."""
        rows = self.layers[3].rows(first, len(self.layers[3].weight))
        state, z = state.to(self.dtype), z.to(self.dtype)
        if features.half_way:
            layers = (*self.layers[:3], rows)
            return second_half(features.hidden, layers, z=z, projection=self.projection, add=state, dtype=self.dtype)
        y: Tensor = OutputFunction.apply(features.hidden, z, state, self.anchor, rows, self.projection, self.dtype)
        return y


class FusedLatentBlock:
    """A latent block computed by kernels. The part that does not depend on its latents runs ahead in a side stream."""

    def __init__(self, block: LatentBlock, prior: FusedBlock, ahead: SideStream) -> None:
        self.block, self.prior, self.ahead = block, prior, ahead

    def features(self, state: Tensor, *, prior: bool = True) -> PriorFeatures:
        with self.ahead():
            return self.prior.features(state, prior=prior)

    def prior_of(self, features: PriorFeatures) -> Gaussian:
        assert not features.half_way, "`features` was called with prior=False, so the prior is unknown"
        self.ahead.join()
        raw = self.prior.statistics(features, self.block.split[0])
        return FusedGaussian.read(raw, self.block.scales, self.prior.dtype)

    def merge(self, state: Tensor, features: PriorFeatures, z: Tensor) -> Tensor:
        self.ahead.join()
        after: Tensor = self.block.residual(self.prior.merge(state, features, z, first=self.block.split[0]))
        return after


class FusedDecoder:
    """The decoder's steps between two resolutions, and after its last block, computed by kernels."""

    def __init__(self, decoder: Decoder, dtype: torch.dtype, aside: SideStream) -> None:
        self.decoder, self.dtype, self.aside = decoder, dtype, aside

    def enter(self, stage: Stage, coarser: Tensor | None, batch: int) -> Tensor:
        start = self.decoder.start(stage, batch).to(self.dtype, memory_format=torch.channels_last)
        if coarser is None:
            return start
        return start + fit_channels(enlarge(coarser, stage.resolution // coarser.shape[-1]), stage.width)

    def leave(self, state: Tensor) -> Tensor:
        self.aside.join()  # the pass is complete, and the results of side streams will be read
        return Decoder.leave(self.decoder, state)


Trained = Mapping[nn.Parameter, tuple[Tensor, Tensor]]
"""For each trained parameter, its half-precision copy and its float32 gradient, which have the same memory layout."""


class Fused:
    """Kernels for all blocks of a model.

    Frozen weights are copied to half precision once. The caller provides and updates the copies of trained weights.
    """

    def __init__(
        self,
        model: nn.Module,
        dtype: torch.dtype,
        trained: Trained | None = None,
        *,
        streams: int = 0,
        ahead: bool = True,
    ) -> None:
        self.dtype, self.trained = dtype, trained or {}
        device = next(model.parameters()).device
        self.aside, self.ahead = SideStream(device, streams), SideStream(device, int(ahead))
        self.blocks: list[tuple[Block, FusedBlock]] = []
        self.methods: list[tuple[nn.Module, str, Callable[..., Any]]] = []
        """Each entry is (module, method name, function). Inside `attached`, the function replaces the method."""
        modules = list(model.modules())
        projections = {m.prior: m.projection for m in modules if isinstance(m, LatentBlock)}
        heads = {head for m in modules if isinstance(m, Encoder) for head in m.heads}
        for module in modules:
            if isinstance(module, Block):
                layers = tuple(self._weights(layer) for layer in (module.c1, module.c2, module.c3, module.c4))
                projection = self._weights(projections[module]) if module in projections else None
                fused = FusedBlock(module, layers, dtype=dtype, projection=projection)
                if module in heads:  # its outputs are means and scales of Gaussians
                    fused.out_dtype = torch.float32
                self.blocks.append((module, fused))
        by_block = dict(self.blocks)
        for module in modules:
            if isinstance(module, Block):
                self._replace(module, by_block[module], "forward")
            elif isinstance(module, LatentBlock):
                latent = FusedLatentBlock(module, by_block[module.prior], self.ahead)
                self._replace(module, latent, "features", "prior_of", "merge")
            elif isinstance(module, Decoder):
                self._replace(module, FusedDecoder(module, dtype, self.aside), "enter", "leave")
            elif isinstance(module, Encoder):
                self._replace(module, self, "read")
            elif isinstance(module, VDVAE):
                self.methods.append((module, "aside", self.aside.run))

    def _replace(self, module: nn.Module, by: object, *names: str) -> None:
        self.methods.extend((module, name, getattr(by, name)) for name in names)

    def read(self, raw: Tensor, scales: Scales) -> Gaussian:
        """Make a Gaussian from a network's outputs. This replaces `Encoder.read`."""
        return FusedGaussian.read(raw, scales, self.dtype)

    @contextmanager
    def attached(self) -> Iterator[None]:
        """Make the model use kernels inside the `with` block."""
        for module, name, method in self.methods:
            setattr(module, name, method)
        try:
            yield
        except BaseException:
            self.aside.kept.clear()
            raise
        finally:
            for module, name, _ in self.methods:
                vars(module).pop(name, None)

    def release(self) -> None:
        """Wait for all side streams, and free the tensors kept for them. Call this after the backward pass."""
        self.ahead.release()
        self.aside.release()

    def _weights(self, layer: nn.Conv2d) -> LayerWeights:
        assert layer.bias is not None
        if layer.weight in self.trained:
            weight, gradient = self.trained[layer.weight]  # type: ignore[index]
            bias_gradient = self.trained[layer.bias][1]  # type: ignore[index]
            return LayerWeights(weight, layer.bias.detach(), gradient, bias_gradient)
        copy = layer.weight.detach().to(self.dtype, memory_format=torch.channels_last, copy=True)
        return LayerWeights(copy, layer.bias.detach())
