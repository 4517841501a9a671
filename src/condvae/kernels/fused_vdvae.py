"""The same networks out of fused kernels: half-precision weights beside the module's own, and kernels put into its
blocks for as long as a `with` lasts. Outside, and wherever kernels are not available, everything is plain torch.
"""

# mypy: disable-error-code="no-untyped-call"

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

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
from condvae.vdvae.decoder import Decoder, LatentBlock, PriorFeatures
from condvae.vdvae.encoder import Encoder
from condvae.vdvae.model import VDVAE


class FusedGaussian(Gaussian):
    """A Gaussian as the network gave it: what is drawn from it and its KL are one kernel each."""

    raw: Tensor
    """[B, 2 C, H, W] float32"""
    scales: Scales
    dtype: torch.dtype
    """Of what is drawn."""
    base: "FusedGaussian | None"
    """What the network's outputs are differences from."""

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
    """A block's computation by kernels. Gradients of its weights are added to where `Fused` was told to."""

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
        # Autograd asks for gradients of weights only where something that it knows wants one.
        self.anchor = torch.zeros((), device=layers[0].weight.device, requires_grad=trains)

    def trains(self, *inputs: Tensor | None) -> bool:
        """Whether a gradient will be asked for."""
        return torch.is_grad_enabled() and any(x is not None and x.requires_grad for x in (self.anchor, *inputs))

    def whole(self, x: Tensor, beside: Tensor | None) -> Tensor:
        """The block, with its residual but before it pools."""
        x, beside = x.to(self.dtype), None if beside is None else beside.to(self.dtype)
        block = self.block
        if not self.trains(x, beside):
            return without_gradients(x, beside, self.layers, add=block.adds_input, dtype=self.out_dtype)
        y: Tensor = BlockFunction.apply(
            x, beside, self.anchor, self.layers, block.adds_input, block.recompute, self.out_dtype
        )
        return y

    def look(self, state: Tensor, *, prior: bool) -> PriorFeatures:
        """What is made of a state before z is known. Where nobody asks for the prior, half of it: the rest can wait."""
        state = state.to(self.dtype)
        if not prior and not self.trains(state) and self._may_wait(state):
            return PriorFeatures(half_way(state, None, self.layers), half_way=True)
        return PriorFeatures(HiddenFunction.apply(state, None, self.anchor, self.layers[:3], self.block.recompute))

    def _may_wait(self, state: Tensor) -> bool:
        assert self.projection is not None
        return pays(state, self.layers) and self.projection.weight.shape[1] <= WIDEST

    def statistics(self, looked: PriorFeatures, last: int) -> Tensor:
        """Output channels up to `last` in float32."""
        rows = self.layers[3].rows(0, last)
        y: Tensor = OutputFunction.apply(looked.hidden, None, None, self.anchor, rows, None, torch.float32)
        return y

    def merge(self, state: Tensor, looked: PriorFeatures, z: Tensor, *, first: int) -> Tensor:
        """state + output channels from `first` on + projection(z)"""
        rows = self.layers[3].rows(first, len(self.layers[3].weight))
        state, z = state.to(self.dtype), z.to(self.dtype)
        if looked.half_way:
            layers = (*self.layers[:3], rows)
            return second_half(looked.hidden, layers, z=z, projection=self.projection, add=state, dtype=self.dtype)
        y: Tensor = OutputFunction.apply(looked.hidden, z, state, self.anchor, rows, self.projection, self.dtype)
        return y

    def pool(self, y: Tensor, factor: int) -> Tensor:
        """Means over factor x factor pixels."""
        return mean_pool(y, factor)

    def gaussian(self, raw: Tensor, scales: Scales) -> Gaussian:
        """What raw outputs describe."""
        return FusedGaussian.read(raw, scales, self.dtype)


Trained = Mapping[nn.Parameter, tuple[Tensor, Tensor]]
"""Parameters that are trained, each with its half-precision copy and its float32 gradient, both in its layout."""


class Fused:
    """Kernels for all blocks of a model. Frozen weights are copied once; copies of trained ones are their owner's."""

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
        self.blocks: list[tuple[Block, FusedBlock]] = []
        self.decoders = [module for module in model.modules() if isinstance(module, Decoder)]
        self.vaes = [module for module in model.modules() if isinstance(module, VDVAE)]
        device = next(model.parameters()).device
        self.aside, self.ahead = SideStream(device, streams), SideStream(device, int(ahead))
        projections: dict[Block, nn.Conv2d] = {}
        for module in model.modules():
            if isinstance(module, LatentBlock):
                projections[module.prior] = module.projection
        for module in model.modules():
            if isinstance(module, Block):
                layers = tuple(self._weights(layer) for layer in (module.c1, module.c2, module.c3, module.c4))
                projection = self._weights(projections[module]) if module in projections else None
                self.blocks.append((module, FusedBlock(module, layers, dtype=dtype, projection=projection)))
        heads = {head for module in model.modules() if isinstance(module, Encoder) for head in module.heads}
        for block, fused in self.blocks:
            if block in heads:  # means and scales of distributions
                fused.out_dtype = torch.float32

    @contextmanager
    def attached(self) -> Iterator[None]:
        """Inside, the model computes with kernels."""
        for block, fused in self.blocks:
            block.fused = fused
        for decoder in self.decoders:
            decoder.fused = self
        for vae in self.vaes:
            vae.aside, vae.ahead = self.aside, self.ahead
        try:
            yield
        except BaseException:
            self.aside.kept.clear()
            raise
        finally:
            for block, _ in self.blocks:
                block.fused = None
            for decoder in self.decoders:
                decoder.fused = None
            for vae in self.vaes:
                vae.aside, vae.ahead = SideStream(), SideStream()

    def release(self) -> None:
        """Wait for all streams, those of gradients too, and let go of what was kept for them."""
        self.ahead.release()
        self.aside.release()

    def enter(self, start: Tensor, coarser: Tensor | None, factor: int, width: int) -> Tensor:
        """`Decoder.enter` in half precision."""
        start = start.to(self.dtype, memory_format=torch.channels_last)
        if coarser is None:
            return start
        return start + fit_channels(enlarge(coarser, factor), width)

    def _weights(self, layer: nn.Conv2d) -> LayerWeights:
        assert layer.bias is not None
        if layer.weight in self.trained:
            weight, gradient = self.trained[layer.weight]  # type: ignore[index]
            bias_gradient = self.trained[layer.bias][1]  # type: ignore[index]
            return LayerWeights(weight, layer.bias.detach(), gradient, bias_gradient)
        copy = layer.weight.detach().to(self.dtype, memory_format=torch.channels_last, copy=True)
        return LayerWeights(copy, layer.bias.detach())
