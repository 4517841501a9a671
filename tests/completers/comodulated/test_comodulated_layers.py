"""The layers of CoModGAN equal their definitions, which are computed here without any shortcut."""

import math

import pytest
import torch
import torch.nn.functional as F
from helpers.models import generator
from torch import Tensor

from condvae.completers.comodulated.comodulated_layers import (
    GAIN,
    EqualConv,
    EqualDense,
    ModulatedConv,
    StyledLayer,
    ToImage,
    activation,
    down_convolution,
    minibatch_std,
    normalise,
    phase_matrix,
    resample,
    up_convolution,
    up_matrix,
)

TAPS = torch.tensor([1.0, 3.0, 3.0, 1.0]) / 8
FILTER = torch.outer(TAPS, TAPS)


def numbers(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=generator(seed))


def filtered(x: Tensor, *, padding: int) -> Tensor:
    """Each channel of x, filtered by [1, 3, 3, 1] / 8 in both directions."""
    return F.conv2d(x, FILTER.expand(x.shape[1], 1, 4, 4), padding=padding, groups=x.shape[1])


def with_zeros(x: Tensor) -> Tensor:
    """x with a zero after each pixel and each row, so that its resolution is doubled."""
    wide = torch.zeros(*x.shape[:2], 2 * x.shape[2], 2 * x.shape[3])
    wide[:, :, ::2, ::2] = x
    return wide


def plain_up(x: Tensor, weight: Tensor) -> Tensor:
    """Put zeros between the pixels, convolve, and filter by 4 times the filter."""
    wide = F.pad(with_zeros(x), (3, 3, 3, 3))
    return filtered(4 * F.conv2d(wide, weight), padding=0)[:, :, : 2 * x.shape[2], : 2 * x.shape[3]]


def plain_layer(layer: StyledLayer, x: Tensor, style: Tensor, noise: Tensor) -> Tensor:
    """A styled layer with a kernel for each sample, sqrt(2) after the activation, and one sample at a time."""
    images = []
    for image, s, n in zip(x, style, noise, strict=True):
        kernel = layer.conv.weight * s[None, :, None, None] / math.sqrt(layer.conv.weight[0].numel())
        kernel = kernel / (kernel.square().sum(dim=(1, 2, 3), keepdim=True) + 1e-8).sqrt()
        y = plain_up(image[None], kernel) if layer.conv.up else F.conv2d(image[None], kernel, padding=1)
        y = y + layer.noise_strength * n + layer.bias[None, :, None, None]
        images.append(math.sqrt(2) * F.leaky_relu(y, 0.2))
    return torch.cat(images)


def styled_layer(inputs: int, outputs: int, *, up: bool) -> StyledLayer:
    torch.manual_seed(0)
    layer = StyledLayer(inputs, outputs, up=up)
    assert not bool(layer.noise_strength.any()) and not bool(layer.bias.any())
    with torch.no_grad():
        layer.noise_strength.fill_(0.3)
        layer.bias.normal_()
    return layer


@pytest.mark.parametrize("up", [False, True])
def test_modulated_activations_equal_modulated_kernels(up: bool) -> None:
    layer, size = styled_layer(5, 7, up=up), 12 if up else 6
    x, style, noise = numbers(3, 5, 6, 6), 1 + numbers(3, 5, seed=1), numbers(3, 1, size, size, seed=2)
    found, expected = layer(x, style, noise), plain_layer(layer, x, style, noise)
    assert found.shape == (3, 7, size, size)
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)
    cotangent = numbers(*found.shape, seed=3)
    weights = list(layer.parameters())
    gradients = [torch.autograd.grad((y * cotangent).sum(), weights) for y in (found, expected)]
    torch.testing.assert_close(*gradients, rtol=1e-4, atol=1e-4)


def test_demodulated_kernels_have_norm_one_for_each_sample_and_output() -> None:
    conv = ModulatedConv(6, 4, 3)
    style = 5 * numbers(3, 6)
    kernels = conv.weight * conv.scale * style[:, None, :, None, None]
    demodulated = kernels * conv.demodulation(style)[:, :, None, None, None]
    torch.testing.assert_close(demodulated.flatten(2).norm(dim=2), torch.ones(3, 4))
    # So the scale of a style does not matter, and a style of zeros makes no NaN.
    x = numbers(3, 6, 8, 8)
    one, ten = (conv(x, c * style) * conv.demodulation(c * style)[:, :, None, None] for c in (1, 10))
    torch.testing.assert_close(one, ten, rtol=1e-4, atol=1e-5)
    assert bool(conv.demodulation(torch.zeros(3, 6)).isfinite().all())


def test_images_are_modulated_without_demodulation() -> None:
    layer = ToImage(6, 3)
    with torch.no_grad():
        layer.bias.copy_(torch.tensor([1.0, 2.0, 3.0]))
    x, style = numbers(2, 6, 4, 4), numbers(2, 6, seed=1)
    expected = torch.einsum("oi,bi,bihw->bohw", layer.conv.weight[:, :, 0, 0], style, x) / math.sqrt(6)
    torch.testing.assert_close(layer(x, style), expected + layer.bias.view(1, 3, 1, 1))


def test_weights_have_an_equalised_rate() -> None:
    torch.manual_seed(0)
    dense, mapping, conv = EqualDense(400, 300), EqualDense(400, 300, rate=0.01), EqualConv(100, 150, 3)
    for stored, std in ((dense.weight, 1.0), (mapping.weight, 100.0), (conv.weight, 1.0)):
        assert stored.std().item() == pytest.approx(std, rel=0.01)
        assert stored.mean().item() == pytest.approx(0, abs=0.02 * std)
    used = [layer.weight * layer.scale for layer in (dense, mapping, conv)]
    for weight, std in zip(used, (1 / 20, 1 / 20, math.sqrt(2) / 30), strict=True):
        assert weight.std().item() == pytest.approx(std, rel=0.01)
    # A rate of 0.01 means that the same change of a stored value changes the output a hundredth as much.
    x = numbers(1, 400)
    before = dense(x), mapping(x)
    for layer in (dense, mapping):
        with torch.no_grad():
            layer.weight.add_(1)
            layer.bias.add_(1)
    changes = [layer(x) - old for layer, old in zip((dense, mapping), before, strict=True)]
    torch.testing.assert_close(changes[1], changes[0] / 100, rtol=1e-2, atol=1e-4)


@pytest.mark.parametrize("kernel", [1, 3])
def test_the_gain_in_front_of_the_activation_equals_a_factor_behind_it(kernel: int) -> None:
    torch.manual_seed(0)
    conv = EqualConv(4, 5, kernel)
    assert conv.bias is not None
    torch.nn.init.normal_(conv.bias)
    x = numbers(2, 4, 6, 6)
    plain = F.conv2d(x, conv.weight / math.sqrt(4 * kernel**2), conv.bias, padding=kernel // 2)
    torch.testing.assert_close(activation(conv(x)), GAIN * F.leaky_relu(plain, 0.2), rtol=1e-5, atol=1e-5)


def test_convolutions_that_change_the_resolution_equal_a_filter_and_a_convolution() -> None:
    x, weight = numbers(2, 3, 8, 8), numbers(5, 3, 3, 3, seed=1)
    down = F.conv2d(filtered(x, padding=2), weight, stride=2)
    torch.testing.assert_close(down_convolution(x, weight, phase_matrix("down")), down, rtol=1e-5, atol=1e-5)
    up = plain_up(x, weight)
    torch.testing.assert_close(up_convolution(x, weight, phase_matrix("up")), up, rtol=1e-5, atol=1e-5)
    # Up and down are adjoint, apart from the order of the kernel's taps and a factor of 4.
    y = numbers(2, 5, 16, 16, seed=2)
    back = down_convolution(y, weight.transpose(0, 1).flip(2, 3), phase_matrix("down"))
    torch.testing.assert_close((up * y).sum(), 4 * (x * back).sum(), rtol=1e-4, atol=1e-3)


def test_the_filter_preserves_constants_and_the_total_weight() -> None:
    up = up_matrix(8)
    down = up_matrix(4).mT / 2
    assert up.shape == (16, 8) and down.shape == (4, 8)
    torch.testing.assert_close(down[1], torch.tensor([0, 1, 3, 3, 1, 0, 0, 0]) / 8)
    constant = torch.full((1, 2, 8, 8), 3.0)
    doubled = resample(constant, up)
    torch.testing.assert_close(doubled[:, :, 1:-1, 1:-1], torch.full((1, 2, 14, 14), 3.0))
    torch.testing.assert_close(resample(constant, down)[:, :, 1:-1, 1:-1], torch.full((1, 2, 2, 2), 3.0))
    back = resample(doubled, up_matrix(8).mT / 2)
    torch.testing.assert_close(back[:, :, 1:-1, 1:-1], torch.full((1, 2, 6, 6), 3.0))

    dot = torch.zeros(1, 2, 8, 8)
    dot[0, 0, 3, 4] = 1
    spread = resample(dot, up)
    assert spread.sum().item() == pytest.approx(4) and not bool(spread[0, 1].any())
    torch.testing.assert_close(spread[0, 0, 5:9, 7:11], 4 * FILTER)
    assert resample(dot, down).sum().item() == pytest.approx(1 / 4)
    assert resample(spread, up.mT / 2).sum().item() == pytest.approx(1)


def test_resampling_equals_filtering_each_channel() -> None:
    x = numbers(2, 3, 8, 8)
    torch.testing.assert_close(resample(x, up_matrix(4).mT / 2), filtered(x, padding=1)[:, :, ::2, ::2])
    wide = F.pad(with_zeros(x), (2, 1, 2, 1))
    torch.testing.assert_close(resample(x, up_matrix(8)), 4 * filtered(wide, padding=0))


def test_normalised_vectors_have_a_mean_square_of_one() -> None:
    z = 7 * numbers(3, 10)
    torch.testing.assert_close(normalise(z).square().mean(dim=1), torch.ones(3))
    assert bool(normalise(torch.zeros(2, 4)).isfinite().all())


def test_minibatch_standard_deviation_of_a_hand_made_batch() -> None:
    x = torch.zeros(8, 2, 4, 4)
    x[:4, 0] = torch.tensor([1.0, 1.0, 3.0, 3.0]).view(4, 1, 1)  # the standard deviation is 1 in half of the channels
    x[4:, 1, 0, 0] = torch.tensor([0.0, 0.0, 0.0, 4.0])  # sqrt(3) at one of 32 places
    y = minibatch_std(x)
    assert y.shape == (8, 3, 4, 4) and torch.equal(y[:, :2], x)
    expected = torch.tensor([1 / 2] * 4 + [math.sqrt(3) / 32] * 4)
    torch.testing.assert_close(y[:, 2], expected.view(8, 1, 1).expand(8, 4, 4), rtol=0, atol=2e-4)


@pytest.mark.parametrize(("batch", "group"), [(1, 1), (2, 2), (3, 3), (4, 4), (5, 1), (6, 3), (7, 1), (8, 4), (10, 2)])
def test_groups_divide_the_batch(batch: int, group: int) -> None:
    x = numbers(batch, 2, 4, 4)
    parts = x.split(group)
    expected = [part.std(dim=0, correction=0).mean() if group > 1 else torch.tensor(1e-4) for part in parts]
    found = minibatch_std(x)[:, 2, 0, 0]
    torch.testing.assert_close(found, torch.stack(expected).repeat_interleave(group), rtol=1e-4, atol=1e-6)
    both = minibatch_std(torch.cat((x, 3 * x)), batches=2)
    torch.testing.assert_close(both[:batch], minibatch_std(x))
    torch.testing.assert_close(both[batch:], minibatch_std(3 * x))
