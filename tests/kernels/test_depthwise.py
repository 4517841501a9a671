"""Depthwise convolutions and a classifier's first convolution are compared with torch's."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

pytest.importorskip("triton")
from condvae.kernels import depthwise as module
from condvae.kernels.convolution import Shape
from condvae.kernels.depthwise import ConvGeometry, depthwise, taps_of
from condvae.kernels.stem import stem, stem_weight
from condvae.kernels.tiles import Window, choose_window

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
LOOKS = [
    ConvGeometry(3, 1, 1, 1),
    ConvGeometry(5, 1, 2, 2),
    ConvGeometry(3, 2, 0, 1),
    ConvGeometry(5, 2, 1, 2),
    ConvGeometry(5, 2, 2, 2),
    ConvGeometry(3, 1, 0, 2),
]


def rows(images: Tensor) -> Tensor:
    return images.permute(0, 2, 3, 1).reshape(-1, images.shape[1]).contiguous()


def reference(x: Tensor, weight: Tensor, bias: Tensor, look: ConvGeometry, groups: int) -> Tensor:
    padded = F.pad(x, (look.before, look.behind, look.before, look.behind))
    return F.conv2d(padded, weight, bias, stride=look.stride, groups=groups)


def layer(channels: int, side: int) -> tuple[Tensor, Tensor]:
    """Weights and biases for which some sums are below 0 and some above 6."""
    return 3 * torch.randn(channels, 1, side, side, device=DEVICE), torch.randn(channels, device=DEVICE)


@pytest.mark.parametrize("look", LOOKS)
def test_any_padding_and_stride(look: ConvGeometry) -> None:
    check(look)


@pytest.mark.parametrize("window", [Window(1, 4, 4), Window(2, 2, 8)])
def test_any_window(window: Window, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "choose_depthwise", lambda *_: (window, 16))
    check(ConvGeometry(3, 2, 0, 1))


def check(look: ConvGeometry) -> None:
    torch.manual_seed(2)
    shape = Shape(7, 6)  # not square, and not a multiple of any window
    x, (weight, bias) = torch.randn(3, 21, *shape, device=DEVICE), layer(21, look.side)
    expected = reference(x, weight, bias, look, 21)
    made = depthwise(rows(x), taps_of(weight), bias, shape=shape, look=look)
    torch.testing.assert_close(made, rows(F.relu6(expected)), rtol=1e-4, atol=1e-4)
    assert (made == 0).any() and (made == 6).any() and ((made > 0) & (made < 6)).any()
    assert tuple(look.out(shape)) == tuple(expected.shape[2:])


@pytest.mark.parametrize(("dtype", "bits"), [(torch.float16, 11), (torch.bfloat16, 7), (torch.float32, 18)])
def test_sums_are_rounded_once(dtype: torch.dtype, bits: int) -> None:
    torch.manual_seed(3)
    look, (weight, bias) = ConvGeometry(5, 1, 2, 2), layer(40, 5)
    x = torch.randn(2, 40, 4, 4, device=DEVICE).to(dtype)
    made = depthwise(rows(x), taps_of(weight), bias, shape=Shape(4, 4), look=look, relu6_out=False)
    expected = rows(reference(x.double(), weight.double(), bias.double(), look, 40))
    assert made.dtype == dtype
    # Allow half a unit in the last bit (a whole unit in bfloat16, which the interpreter truncates), and cancellation in
    # float32.
    assert ((made.double() - expected).abs() <= 1.01 * 2.0**-bits * expected.abs() + 1e-4).all()


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("stride", [1, 2])
def test_the_first_convolution_sees_only_known_pixels(channels: int, stride: int) -> None:
    torch.manual_seed(4)
    shape, look = (7, 10), ConvGeometry(3, stride, 1, 1)
    pixels, known = torch.rand(3, channels, *shape, device=DEVICE), torch.rand(3, 1, *shape, device=DEVICE) < 0.4
    weight, bias = torch.randn(20, channels + 1, 3, 3, device=DEVICE), torch.randn(20, device=DEVICE)
    y = torch.cat((torch.where(known, 2 * pixels - 0.3, 0.0), known.float()), dim=1)
    expected = F.relu6(reference(y, weight, bias, look, 1))
    hidden = torch.where(known, pixels, torch.nan)  # NaN must not reach the output
    for kind, rounding in ((torch.float32, 1e-4), (torch.float16, 1e-2)):
        made = stem(hidden, known, stem_weight(weight, kind), bias, scale=2.0, shift=-0.3, look=look)
        assert made.dtype == kind
        torch.testing.assert_close(made.float(), rows(expected), rtol=rounding, atol=rounding)


@pytest.mark.parametrize("pixels", [64, 128])
@pytest.mark.parametrize("size", [1, 2, 3, 4, 7, 8, 16, 28, 32, 64])
def test_triton_accepts_the_windows(size: int, pixels: int) -> None:
    window = choose_window(size, size, pixels)
    assert window.pixels == pixels and all(side & (side - 1) == 0 for side in window)
    images, down, right = window.across(9, size, size)
    assert images * window.images >= 9 and down * window.rows >= size and right * window.columns >= size
    assert window.images == 1 or down == right == 1  # part of one image, or several small images as a whole
