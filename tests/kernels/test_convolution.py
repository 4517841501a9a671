"""Convolutions are compared with torch's, for every kind of tile, and GELU with its definition."""

import subprocess
import sys
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

pytest.importorskip("triton")
import triton
import triton.language as tl

from condvae.kernels import convolution
from condvae.kernels.convolution import ConvInput, Kernel, Shape, convolve, gelu, gelu_slope
from condvae.kernels.tiles import WIDEST, Tile, block, choose_tile, depth

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
TILES = [Tile(16, 16, 16, 16, 4, 2), Tile(64, 64, 32, 16, 4, 2), Tile(32, 16, 32, 16, 4, 2, wide=True)]


def rows(images: Tensor) -> Tensor:
    return images.permute(0, 2, 3, 1).reshape(-1, images.shape[1]).contiguous()


@triton.jit  # type: ignore[untyped-decorator]
def _apply(x, y, slope, count, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]  # noqa: N803
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    values = tl.load(x + at, mask=at < count)
    tl.store(y + at, gelu(values), mask=at < count)
    tl.store(slope + at, gelu_slope(values), mask=at < count)


def test_gelu_and_its_slope_are_right_to_a_millionth() -> None:
    x = torch.cat((torch.linspace(-12, 12, 40_001), torch.tensor([-1e4, -100.0, 100.0, 1e4]))).to(DEVICE)
    y, slope = torch.empty_like(x), torch.empty_like(x)
    _apply[(triton.cdiv(len(x), 8192),)](x, y, slope, len(x), BLOCK=8192)
    exact = x.double().requires_grad_()
    values = F.gelu(exact)
    values.sum().backward()
    assert (y - values).abs().max() < 4e-6
    assert exact.grad is not None
    assert (slope - exact.grad).abs().max() < 1e-5


@pytest.mark.parametrize("tile", TILES)
@pytest.mark.parametrize("taps", [1, 3])
def test_operations_fused_with_a_convolution(tile: Tile, taps: int, monkeypatch: pytest.MonkeyPatch) -> None:
    if tile.wide and taps == 3:
        pytest.skip("wide tiles are for 1x1 convolutions")
    monkeypatch.setattr(convolution, "choose_tile", lambda *_, **__: tile)
    torch.manual_seed(1)
    x, weight = torch.randn(3, 13, 4, 5, device=DEVICE), torch.randn(21, 13, taps, taps, device=DEVICE)
    weight = weight.to(memory_format=torch.channels_last)
    z, projection = torch.randn(3, 5, 4, 5, device=DEVICE), torch.randn(21, 5, 1, 1, device=DEVICE)
    bias, add, other = torch.randn(21, device=DEVICE), *torch.randn(2, 3, 21, 4, 5, device=DEVICE)
    before = F.conv2d(F.gelu(x), weight, bias, padding=taps // 2) + F.conv2d(z, projection)
    slope = torch.autograd.functional.vjp(F.gelu, other, torch.ones_like(other))[1]
    options: dict[str, Any] = {"shape": Shape(4, 5), "bias": bias}
    result = convolve(
        ConvInput(rows(x), Kernel.of(weight), gelu=True), ConvInput(rows(z), Kernel.of(projection)), **options,
        gelu_out=True, keep_pre=True, keep_activated=tile.wide, slope_of=rows(other), add=rows(add),
    )  # fmt: skip
    assert result.pre is not None
    torch.testing.assert_close(result.pre, rows(before), rtol=1e-4, atol=1e-4)
    if tile.wide:
        torch.testing.assert_close(result.activated, rows(F.gelu(x)), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(result.out, rows(F.gelu(before) * slope + add), rtol=1e-4, atol=1e-4)
    capped = convolve(ConvInput(rows(x), Kernel.of(weight)), **options, relu6_out=True, add=rows(add)).out
    reached = F.relu6(F.conv2d(x, weight, bias, padding=taps // 2))
    assert ((reached == 0) | (reached == 6)).any() and ((reached > 0) & (reached < 6)).any()
    torch.testing.assert_close(capped, rows(reached + add), rtol=1e-4, atol=1e-4)
    # The plain convolution and its transpose satisfy <W x, y> = <x, W' y>.
    plain = convolve(ConvInput(rows(x), Kernel.of(weight)), shape=Shape(4, 5)).out
    torch.testing.assert_close(plain, rows(F.conv2d(x, weight, padding=taps // 2)), rtol=1e-4, atol=1e-4)
    back = convolve(ConvInput(rows(add), Kernel.of(weight).transposed), shape=Shape(4, 5)).out
    torch.testing.assert_close((plain * rows(add)).sum(), (rows(x) * back).sum(), rtol=1e-4, atol=1e-3)


def test_gelu_of_the_input_is_kept_for_many_channels_too() -> None:
    x, weight = torch.randn(20, WIDEST + 9, device=DEVICE), torch.randn(8, WIDEST + 9, 1, 1, device=DEVICE)
    result = convolve(ConvInput(x, Kernel.of(weight), gelu=True), shape=Shape(4, 5), keep_activated=True)
    torch.testing.assert_close(result.activated, F.gelu(x), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(result.out, F.gelu(x) @ weight[:, :, 0, 0].T, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("m", [1, 100, 1024, 3000, 8000, 30_720, 131_072])
@pytest.mark.parametrize("k", [8, 16, 36, 96, 128, 144, 384, 512])
@pytest.mark.parametrize("n", [8, 32, 48, 96, 384, 512])
def test_triton_accepts_the_tiles(m: int, k: int, n: int) -> None:
    for taps in (1, 9):
        for beside in (0, 8, k):
            for slope in (False, True):
                keep = not slope and taps == 1 and k <= WIDEST
                tile = choose_tile(m, n, k, beside, taps, slope=slope, keep=keep)
                assert tile.wide or not keep
                sizes = tile[:4] if beside else tile[:3]
                assert all(size >= 16 and size & (size - 1) == 0 for size in sizes)
                assert not tile.wide or (taps == 1 and tile.depth >= k and tile.depth2 >= beside)
    assert block(n) == 128 or block(n) >= n
    assert -(-k // depth(k)) * depth(k) - k < 16


# Kernels are also compiled for common GPUs, since the interpreter accepts code that the compiler rejects.
COMPILE = """
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from condvae.kernels import convolution, depthwise, double_convolution, resample, stem, weight_gradient

def compiled(kernel, **constants):
    floats = ("bias", "bias2", "weight", "partial", "total")
    pointers = "x w x2 w2 slope_of add out pre kept dy v z u fine coarse".split()
    kinds = {**dict.fromkeys(floats, "*fp32"), **dict.fromkeys(pointers, "*bf16"), "known": "*u8"}
    kinds |= {"scale": "fp32", "shift": "fp32"}
    names = kernel.arg_names
    signature = {name: "constexpr" if name in constants else kinds.get(name, "i32") for name in names}
    values = {(names.index(name),): value for name, value in constants.items()}
    triton.compile(ASTSource(kernel, signature=signature, constexprs=values), target=GPUTarget("cuda", 90, 32))

size = dict(BM=32, BN=32, BK=32)
around = dict(GELU_OUT=False, RELU6_OUT=True, BIAS=True, SLOPE=True, ADD=True, PRE=False)
compiled(convolution._convolve, N=96, K=96, K2=0, TAPS=9, GELU=False, KEEP=False, BK2=16, **around, **size)
compiled(convolution._convolve, N=96, K=384, K2=384, TAPS=1, GELU=True, KEEP=True, BK2=32, **around, **size)
compiled(convolution._convolve_wide, N=96, K=32, K2=16, TAPS=1, GELU=True, KEEP=True, BK2=16, **around, **size)
compiled(double_convolution._convolve_twice, N=96, K=32, C=32, CZ=16, TAPS=9, ADD=True, BC=32, BZ=16, **size)
for bias in (True, False):
    compiled(weight_gradient._weight_gradient, N=96, K=96, ROW=864, TAPS=9, BIAS=bias, **size)
compiled(weight_gradient._add_splits, BLOCK=1024)
compiled(resample._gather, BLOCK=1024)
compiled(resample._spread, BLOCK=1024)
look = dict(SIDE=3, STRIDE=2, BEFORE=1, BI=1, BH=4, BW=8)
compiled(depthwise._depthwise, C=48, RELU6=True, BC=32, **look)
compiled(stem._stem, CHANNELS=1, N=32, BK=32, BN=32, **look)
"""


def test_kernels_compile_for_a_gpu_without_one() -> None:
    import os

    plain = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    done = subprocess.run([sys.executable, "-c", COMPILE], env=plain, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
