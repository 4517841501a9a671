import pytest
import torch
import torch.nn.functional as F
from helpers.models import generator
from torch import Tensor

from condvae.completers.feature_reasoning.partial_convolution import (
    HoleShrinking,
    PartialConvolution,
    PartialHead,
    PartialStem,
    growth,
)


def normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=generator(seed))


def one_known(size: int, row: int, column: int) -> Tensor:
    known = torch.zeros(1, 1, size, size)
    known[..., row, column] = 1
    return known


@pytest.mark.parametrize("kernel", [3, 7])
def test_with_everything_known_only_the_border_differs_from_a_convolution(kernel: int) -> None:
    layer, x, pad = PartialConvolution(4, 5, kernel), normal(2, 4, 12, 12), kernel // 2
    found, known = layer(x, torch.ones(2, 1, 12, 12))
    plain = F.conv2d(x, layer.convolution.weight, padding=pad)
    inside = slice(pad, 12 - pad)
    torch.testing.assert_close(found[..., inside, inside], plain[..., inside, inside])
    # In a corner, (kernel - pad)^2 of the kernel^2 positions of the window lie in the image.
    corner = kernel**2 / (kernel - pad) ** 2
    torch.testing.assert_close(found[..., 0, 0], plain[..., 0, 0] * corner)
    torch.testing.assert_close(found[..., 0, 6], plain[..., 0, 6] * kernel / (kernel - pad))
    assert bool((known == 1).all())


@pytest.mark.parametrize("stride", [1, 2])
def test_result_equals_the_definition(stride: int) -> None:
    layer, x = PartialConvolution(3, 2, 3, stride=stride), normal(2, 3, 8, 8)
    known = (torch.rand(2, 3, 8, 8, generator=generator()) < 0.1).float()  # differs between channels
    found, now_known = layer(x, known)
    xs, ms = (F.pad(t, (1, 1, 1, 1)) for t in (x * known, known))
    for row in range(found.shape[2]):
        for column in range(found.shape[3]):
            rows, columns = (slice(at * stride, at * stride + 3) for at in (row, column))
            count = ms[..., rows, columns].sum(dim=(1, 2, 3))
            dot = torch.einsum("bchw,ochw->bo", xs[..., rows, columns], layer.convolution.weight)
            expected = torch.where(count[:, None] > 0, dot * 27 / count.clamp(min=1)[:, None], 0.0)
            torch.testing.assert_close(found[..., row, column], expected)
            assert now_known[:, 0, row, column].tolist() == (count > 0).float().tolist()


def test_one_mask_for_all_channels_equals_the_repeated_mask() -> None:
    layer, x = PartialConvolution(4, 2, 5), normal(1, 4, 9, 9)
    known = (torch.rand(1, 1, 9, 9, generator=generator()) < 0.2).float()
    torch.testing.assert_close(layer(x, known), layer(x, known.expand(-1, 4, -1, -1)))


def test_unknown_values_do_not_matter() -> None:
    layer, known = PartialConvolution(2, 2, 3), one_known(8, 3, 3)
    x = normal(1, 2, 8, 8)
    assert torch.equal(layer(x, known)[0], layer(torch.where(known > 0, x, 100.0), known)[0])


def test_constant_image_stays_constant_at_any_hole() -> None:
    """With equal weights, the factor makes up exactly for the missing values."""
    layer = PartialConvolution(2, 1, 5)
    torch.nn.init.constant_(layer.convolution.weight, 1 / 50)
    known = (torch.rand(3, 1, 16, 16, generator=generator()) < 0.1).float()
    found, now_known = layer(torch.full((3, 2, 16, 16), 0.7), known)
    torch.testing.assert_close(found, 0.7 * now_known)
    assert 0 < float(now_known.mean()) < 1


@pytest.mark.parametrize("kernels", [(7, 7), (5, 3), (3, 3)])
def test_a_round_extends_the_known_region_by_the_growth(kernels: tuple[int, int]) -> None:
    before = one_known(21, 10, 8)
    _, known = HoleShrinking(2, kernels)(normal(1, 2, 21, 21), before)
    n = growth(kernels)
    expected = torch.zeros_like(before)
    expected[..., 10 - n : 10 + n + 1, 8 - n : 8 + n + 1] = 1
    assert torch.equal(known, expected)


def test_growth_is_six_pixels_in_the_paper() -> None:
    assert growth((7, 7)) == 6


def test_known_regions_only_grow() -> None:
    shrink, x = HoleShrinking(2, (5, 3)), normal(4, 2, 24, 24)
    known = (torch.rand(4, 1, 24, 24, generator=generator()) < 0.005).float()
    for _ in range(4):
        x, now_known = shrink(x, known)
        assert bool((now_known >= known).all())
        known = now_known


@pytest.mark.parametrize("place", [(0, 0), (15, 15), (7, 8), (0, 15)])
def test_the_stem_keeps_every_known_pixel(place: tuple[int, int]) -> None:
    stem = PartialStem(3, 4, (3, 3))
    features, known = stem(normal(1, 3, 16, 16), one_known(16, *place))
    assert features.shape == (1, 4, 8, 8)
    assert float(known[0, 0, place[0] // 2, place[1] // 2]) == 1
    assert float(known.min()) == 0


def test_nothing_known_gives_zeros_and_finite_gradients() -> None:
    layer, x = PartialConvolution(2, 3, 3), normal(1, 2, 6, 6).requires_grad_()
    found, known = layer(x, torch.zeros(1, 1, 6, 6))
    assert not bool(found.any()) and not bool(known.any())
    found.square().sum().backward()
    assert x.grad is not None and not bool(x.grad.any())
    weight_gradient = layer.convolution.weight.grad
    assert weight_gradient is not None and not bool(weight_gradient.any())


def test_the_head_ignores_unknown_features_and_pixels() -> None:
    head = PartialHead(4, 8, 3).eval()
    features, image = normal(1, 4, 6, 6), normal(1, 3, 12, 12, seed=1)
    known = one_known(12, 5, 5)
    features_known = one_known(6, 2, 2)
    found = head(features, features_known, image, known)
    assert torch.equal(found, head(features, features_known, torch.where(known > 0, image, 9.0), known))
    # The transposed convolution spreads features by one pixel, so features two pixels away cannot be seen.
    far = features.clone()
    far[..., 4:, 4:] = 9.0
    assert torch.equal(found, head(far, features_known, image, known))
    assert not torch.equal(found, head(features + 1, features_known, image, known))
