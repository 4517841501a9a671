import copy
from collections.abc import Callable
from typing import TypeAlias

import pytest
import torch
from helpers.models import generator
from torch import Tensor, nn

from condvae.completers.spectral_norm import SpectralNorm, normalised_together, spectral_norm

Convolution: TypeAlias = nn.Conv2d | nn.ConvTranspose2d


def plain() -> Convolution:
    return spectral_norm(nn.Conv2d(5, 7, 3))


def transposed() -> Convolution:
    return spectral_norm(nn.ConvTranspose2d(5, 7, 3))


def norm_of(layer: nn.Module) -> SpectralNorm:
    (norm,) = (module for module in layer.modules() if isinstance(module, SpectralNorm))
    return norm


def original(layer: nn.Module) -> nn.Parameter:
    (weight,) = (parameter for name, parameter in layer.named_parameters() if name.endswith("weight.original"))
    return weight


def largest(layer: Convolution) -> float:
    """The largest singular value of the effective kernel matrix, with one row per output channel."""
    weight = layer.weight if isinstance(layer, nn.Conv2d) else layer.weight.transpose(0, 1)
    return float(torch.linalg.svdvals(weight.detach().reshape(7, 45))[0])


@pytest.mark.parametrize("kind", [plain, transposed])
def test_the_largest_singular_value_tends_to_one(kind: Callable[[], Convolution]) -> None:
    torch.manual_seed(0)
    layer = kind()
    assert largest(layer.eval()) == pytest.approx(1, abs=0.05)  # already when it is made
    with torch.no_grad():
        original(layer).copy_(3 * torch.randn(original(layer).shape, generator=generator(1)))
    assert abs(largest(layer) - 1) > 0.1  # one iteration is too little for quite another weight
    layer.train()
    for _ in range(200):
        layer.weight  # noqa: B018
    assert largest(layer.eval()) == pytest.approx(1, abs=1e-4)


def test_a_pass_does_one_power_iteration_and_stores_it_in_training_only() -> None:
    layer = plain()
    norm, matrix = norm_of(layer), original(layer).detach().flatten(1)
    norm.u.copy_(torch.nn.functional.normalize(torch.randn(7, generator=generator()), dim=0))
    v = matrix.T @ norm.u / (matrix.T @ norm.u).norm()
    u = matrix @ v / (matrix @ v).norm()
    pointer = norm.u.data_ptr()
    layer(torch.zeros(1, 5, 4, 4))
    torch.testing.assert_close(norm.u, u)
    assert norm.u.data_ptr() == pointer  # a CUDA graph needs a fixed address
    layer.eval()
    before = norm.u.clone()
    first = layer(torch.ones(1, 5, 4, 4))
    assert torch.equal(first, layer(torch.ones(1, 5, 4, 4)))
    assert torch.equal(norm.u, before)


def test_the_gradient_includes_sigma() -> None:
    """L = <G, W / sigma> with sigma = u^T W v has the gradient G / sigma - <G, W> u v^T / sigma^2."""
    torch.manual_seed(0)
    layer = plain().eval()
    norm, weight = norm_of(layer), original(layer)
    g = torch.randn(weight.shape)
    (g * layer.weight).sum().backward()
    matrix = weight.detach().flatten(1)
    v = torch.nn.functional.normalize(matrix.T @ norm.u, dim=0)
    u = torch.nn.functional.normalize(matrix @ v, dim=0)
    sigma = u @ matrix @ v
    expected = g / sigma - (g * weight.detach()).sum() / sigma**2 * torch.outer(u, v).view_as(g)
    assert weight.grad is not None
    torch.testing.assert_close(weight.grad, expected)


def test_one_backward_pass_for_several_forward_passes() -> None:
    layer = plain()
    x = torch.ones(1, 5, 4, 4)
    (layer(x).sum() + layer(2 * x).sum()).backward()  # the second pass must not overwrite what the first one saved
    assert original(layer).grad is not None


@pytest.mark.parametrize("kind", [plain, transposed])
def test_autocast_leaves_the_normalised_weight_in_float32(kind: Callable[[], Convolution]) -> None:
    layer = kind()
    twin = copy.deepcopy(layer)
    with torch.autocast("cpu", torch.bfloat16):
        low = layer.weight
        assert layer(torch.zeros(1, 5, 4, 4)).dtype == torch.bfloat16
    assert low.dtype == torch.float32
    assert torch.equal(low, twin.weight)


def test_a_layer_without_memory_can_be_loaded() -> None:
    layer = plain().eval()
    with torch.device("meta"):
        empty = plain().eval()
    assert all(tensor.is_meta for tensor in empty.state_dict().values())
    empty.load_state_dict(layer.state_dict(), assign=True)
    x = torch.randn(2, 5, 4, 4, generator=generator())
    assert torch.equal(empty(x), layer(x))
    assert all(tensor.is_floating_point() for tensor in layer.state_dict().values())
    empty.train()(x)
    assert norm_of(empty).u.shape == (7,)


@pytest.mark.parametrize("kind", [plain, transposed])
def test_channels_last_and_weights_in_another_place_give_the_same_result(kind: Callable[[], Convolution]) -> None:
    layer = kind()
    moved: Convolution = copy.deepcopy(layer).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    x = torch.randn(2, 5, 4, 4, generator=generator())
    torch.testing.assert_close(moved(x.contiguous(memory_format=torch.channels_last)), layer(x))

    weight = original(moved)
    assert weight.is_contiguous(memory_format=torch.channels_last)
    flat = torch.empty(weight.numel())
    view: Tensor = flat.as_strided(weight.shape, weight.stride())
    view.copy_(weight.data)
    weight.data = view
    torch.testing.assert_close(moved(x), layer(x))
    view *= 0.5  # the layer now reads the new place, and its scale does not matter
    moved(x), layer(x)
    torch.testing.assert_close(moved(x), layer(x), rtol=1e-4, atol=1e-5)
    moved(x).sum().backward()
    assert weight.grad is not None and weight.grad.shape == weight.shape


@pytest.mark.parametrize("memory_format", [torch.contiguous_format, torch.channels_last])
def test_layers_that_are_normalised_together_compute_the_same(memory_format: torch.memory_format) -> None:
    torch.manual_seed(0)
    layers = nn.ModuleList([plain(), transposed(), plain(), transposed(), spectral_norm(nn.Conv2d(5, 4, 1))])
    layers.to(memory_format=memory_format)  # type: ignore[call-overload]
    original(layers[2]).requires_grad_(False)
    twins = copy.deepcopy(layers)
    x = torch.randn(2, 5, 4, 4, generator=generator()).contiguous(memory_format=memory_format)
    with normalised_together(layers):
        together = [layer(x) for layer in layers]
    alone = [layer(x) for layer in twins]
    torch.testing.assert_close(together, alone)
    for outputs in (together, alone):
        torch.stack([output.square().sum() for output in outputs]).sum().backward()
    for layer, twin in zip(layers, twins, strict=True):
        torch.testing.assert_close(norm_of(layer).u, norm_of(twin).u)
        torch.testing.assert_close(original(layer).grad, original(twin).grad)
        assert norm_of(layer).ready is None


def test_layers_that_are_normalised_together_have_the_data_type_of_autocast() -> None:
    layers = [plain(), transposed()]
    twins = copy.deepcopy(layers)
    with torch.autocast("cpu", torch.bfloat16), normalised_together(nn.ModuleList(layers)):
        weights = [layer.weight for layer in layers]
    for layer, twin, weight in zip(layers, twins, weights, strict=True):
        assert torch.equal(weight, twin.weight.bfloat16())
        weight.sum().backward()
        gradient = original(layer).grad
        assert gradient is not None and gradient.dtype == torch.float32
