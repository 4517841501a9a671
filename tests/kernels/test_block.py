"""A block computed by kernels equals the plain block, with all gradients, in the interpreter or on a GPU (float32)."""

from typing import Any

import pytest
import torch
from torch import Tensor

from condvae.training.flat_parameters import FlatParameters
from condvae.vdvae.blocks import Block

pytest.importorskip("triton")
from condvae.kernels.block import (
    BlockFunction,
    HiddenFunction,
    LayerWeights,
    OutputFunction,
    half_way,
    second_half,
    without_gradients,
)
from condvae.kernels.convolution import Shape, check_size
from condvae.kernels.tiles import WIDEST
from condvae.kernels.weight_gradient import WeightGradients

pytestmark = pytest.mark.usefixtures("roomy_tiles")
DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
TOLERANCE: dict[str, Any] = {"rtol": 1e-4, "atol": 1e-4}

# resolution, channels of x, channels of the extra input, inner channels, outputs, whether x is added, batch
SHAPES = [(4, 24, 0, 12, 24, True, 3), (4, 20, 8, 16, 10, False, 2), (1, 16, 16, 8, 8, False, 5)]


def make(shape: tuple[Any, ...]) -> tuple[Block, FlatParameters, tuple[LayerWeights, ...]]:
    resolution, inputs, extra, inner, outputs, adds, _ = shape
    torch.manual_seed(0)
    block = Block(inputs + extra, inner, outputs, resolution=resolution, adds_input=adds).to(DEVICE)
    block = block.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    for parameter in block.parameters():
        parameter.data.add_(0.1 * torch.randn_like(parameter))
    flat = FlatParameters(block)

    def weights(layer: str) -> LayerWeights:
        names = (f"{layer}.weight", f"{layer}.bias")
        values = [flat.parameters[name].detach() for name in names]
        return LayerWeights(*values, *(flat.view(flat.gradients, name) for name in names))

    return block, flat, tuple(weights(layer) for layer in ("c1", "c2", "c3", "c4"))


def inputs_of(shape: tuple[Any, ...]) -> tuple[Tensor, Tensor | None]:
    resolution, inputs, extra, _, _, _, batch = shape
    size = (resolution, resolution)
    x = torch.randn(batch, inputs, *size, device=DEVICE).to(memory_format=torch.channels_last)
    other = torch.randn(batch, extra, *size, device=DEVICE) if extra else None
    return x.requires_grad_(), None if other is None else other.requires_grad_()


@pytest.mark.parametrize("recompute", [False, True])
@pytest.mark.parametrize("in_parts", [False, True])
@pytest.mark.parametrize("shape", SHAPES)
def test_values_and_gradients_are_those_of_the_block(shape: tuple[Any, ...], in_parts: bool, recompute: bool) -> None:
    block, flat, layers = make(shape)
    x, extra = inputs_of(shape)
    wanted = block(x, extra)
    dy = torch.randn_like(wanted)
    flat.gradients.zero_()
    wanted.backward(dy)
    expected = [flat.gradients.clone(), x.grad, None if extra is None else extra.grad]
    flat.gradients.zero_()
    x.grad = None
    if extra is not None:
        extra.grad = None
    anchor = torch.zeros((), device=DEVICE, requires_grad=True)
    if in_parts:
        hidden = HiddenFunction.apply(x, extra, anchor, layers[:3], recompute)  # type: ignore[no-untyped-call]
        add = x if block.adds_input else None
        got = OutputFunction.apply(hidden, None, add, anchor, layers[3], None, None)  # type: ignore[no-untyped-call]
    else:
        got = BlockFunction.apply(x, extra, anchor, layers, block.adds_input, recompute, None)  # type: ignore[no-untyped-call]
    torch.testing.assert_close(got, wanted, **TOLERANCE)
    got.backward(dy)
    for mine, theirs in zip((flat.gradients, x.grad, None if extra is None else extra.grad), expected, strict=True):
        if theirs is not None:
            torch.testing.assert_close(mine, theirs, **TOLERANCE)


@pytest.mark.parametrize("shape", SHAPES)
def test_gradients_add_up_and_frozen_layers_have_none(shape: tuple[Any, ...]) -> None:
    block, flat, layers = make(shape)
    x, extra = inputs_of(shape)
    anchor = torch.zeros((), device=DEVICE, requires_grad=True)
    flat.gradients.zero_()
    for _ in range(2):
        y = BlockFunction.apply(x, extra, anchor, layers, block.adds_input, False, None)  # type: ignore[no-untyped-call]
        y.sum().backward()
    twice = flat.gradients.clone()
    flat.gradients.zero_()
    BlockFunction.apply(x, extra, anchor, layers, block.adds_input, False, None).sum().backward()  # type: ignore[no-untyped-call]
    torch.testing.assert_close(twice, 2 * flat.gradients, **TOLERANCE)
    flat.gradients.zero_()
    frozen = tuple(LayerWeights(layer.weight, layer.bias) for layer in layers)
    y = BlockFunction.apply(x, extra, anchor, frozen, block.adds_input, False, None)  # type: ignore[no-untyped-call]
    y.sum().backward()
    assert not flat.gradients.any()


@pytest.mark.parametrize("fused_end", [False, True])
@pytest.mark.parametrize("shape", SHAPES)
def test_without_gradients(shape: tuple[Any, ...], fused_end: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("condvae.kernels.block._ROWS_THAT_PAY", 0 if fused_end else 10**9)
    block, _, layers = make(shape)
    x, extra = inputs_of(shape)
    with torch.no_grad():
        got = without_gradients(x, extra, layers, add=block.adds_input, dtype=torch.float32)
        torch.testing.assert_close(got, block(x, extra), **TOLERANCE)


def test_only_the_requested_gradients_are_touched() -> None:
    """A prior's last convolution is used in two parts, in two streams: each may write only its own gradients."""
    vector = torch.full((100,), 7.0, device=DEVICE)
    weight, bias = vector[:60].view(10, 6, 1, 1), vector[60:70]
    gradients = WeightGradients([weight[4:], bias[4:]], 20)
    dy, x = torch.randn(20, 6, device=DEVICE), torch.randn(20, 6, device=DEVICE)
    gradients.add(weight[4:], bias[4:], dy, x, shape=Shape(4, 5))
    vector[:24], vector[60:64] = torch.nan, torch.nan  # the other part may hold anything meanwhile
    gradients.finish()
    torch.testing.assert_close(weight[4:, :, 0, 0], 7 + dy.T @ x, **TOLERANCE)
    torch.testing.assert_close(bias[4:], 7 + dy.sum(0), **TOLERANCE)
    assert vector[:24].isnan().all()
    assert vector[60:64].isnan().all()
    assert (vector[70:] == 7).all()


def test_blocks_too_wide_for_the_double_convolution(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("condvae.kernels.block._ROWS_THAT_PAY", 0)
    shape = (1, 16, 0, WIDEST + 8, 16, True, 2)
    block, _, layers = make(shape)
    x, _ = inputs_of(shape)
    with torch.no_grad():
        got = without_gradients(x, None, layers, add=True, dtype=torch.float32)
        torch.testing.assert_close(got, block(x), **TOLERANCE)


def test_tensors_too_large_for_int32_are_refused() -> None:
    with pytest.raises(ValueError, match="smaller micro-batch"):
        check_size(2**22, 512)
    check_size(2**22 - 1, 512)


def test_one_extra_image_serves_several_images() -> None:
    shape = (4, 20, 8, 16, 10, False, 6)
    block, _, layers = make(shape)
    x, extra = inputs_of(shape)
    assert extra is not None
    with torch.no_grad():
        got = without_gradients(x, extra[:2], layers, add=False, dtype=torch.float32)
        torch.testing.assert_close(got, block(x, extra[:2].repeat_interleave(3, dim=0)), **TOLERANCE)


def test_latents_are_added_by_the_last_convolution() -> None:
    shape = (4, 24, 0, 12, 24, True, 3)
    block, _, layers = make(shape)
    x, _ = inputs_of(shape)
    z = torch.randn(3, 5, 4, 4, device=DEVICE).to(memory_format=torch.channels_last).requires_grad_()
    projection = torch.nn.Conv2d(5, 14, 1, device=DEVICE)
    weight_gradient, bias_gradient = torch.zeros(14 * 5 + 14, device=DEVICE).split((14 * 5, 14))
    mine = LayerWeights(projection.weight.detach(), projection.bias.detach())  # type: ignore[union-attr]
    rows, some = layers[3].rows(10, 24), x[:, 10:]
    wanted = some + block.outputs(block.hidden(x), 10) + projection(z)
    with torch.no_grad():
        half = half_way(x, None, layers)
        got = second_half(half, (*layers[:3], rows), z=z, projection=mine, add=some, dtype=torch.float32)
        torch.testing.assert_close(got, wanted, **TOLERANCE)
    anchor = torch.zeros((), device=DEVICE, requires_grad=True)
    frozen = tuple(LayerWeights(layer.weight, layer.bias) for layer in (*layers[:3], rows))
    mine = LayerWeights(mine.weight, mine.bias, weight_gradient.view(14, 5, 1, 1), bias_gradient)
    hidden = HiddenFunction.apply(x, None, anchor, frozen[:3], False)  # type: ignore[no-untyped-call]
    got = OutputFunction.apply(hidden, z, some, anchor, frozen[3], mine, None)  # type: ignore[no-untyped-call]
    torch.testing.assert_close(got, wanted, **TOLERANCE)
    dy = torch.randn_like(wanted)
    (wanted_z,) = torch.autograd.grad(wanted, z, dy, retain_graph=True)
    wanted_weight, wanted_bias = torch.autograd.grad(wanted, tuple(projection.parameters()), dy)
    (got_z,) = torch.autograd.grad(got, z, dy)
    torch.testing.assert_close(got_z, wanted_z, **TOLERANCE)
    torch.testing.assert_close(weight_gradient.view(14, 5, 1, 1), wanted_weight, **TOLERANCE)
    torch.testing.assert_close(bias_gradient, wanted_bias, **TOLERANCE)
