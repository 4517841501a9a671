"""In compiled kernels, a fence and a barrier separate asynchronous copies from the tensor cores that read them."""

import json
import os
import subprocess
import sys

# Kernels are compiled for an H100 with the tiles of real layers: the width and inner width of a block, and its pixels.
COMPILE = """
import json
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from condvae.kernels import convolution, double_convolution, tiles, weight_gradient

FLOATS, HALVES = ("bias", "bias2", "weight"), "x w x2 w2 slope_of add out pre kept v z u dy".split()
KINDS = {**dict.fromkeys(FLOATS, "*fp32"), **dict.fromkeys(HALVES, "*bf16")}
ONES, MULTIPLES = ("w_k", "w2_k", "v_k", "u_k"), ("w_n", "w_tap", "w2_n", "v_n", "u_n")  # strides of channels_last

def assembly(kernel, warps, stages, **constants):
    names = kernel.arg_names
    constants |= {name: 1 for name in ONES if name in names}
    signature = {name: "constexpr" if name in constants else KINDS.get(name, "i32") for name in names}
    values = {(names.index(name),): value for name, value in constants.items()}
    aligned = {(i,): [["tt.divisibility", 16]] for i, name in enumerate(names) if name in KINDS or name in MULTIPLES}
    source = ASTSource(kernel, signature=signature, constexprs=values, attrs=aligned)
    options = {"num_warps": warps, "num_stages": stages}
    return triton.compile(source, target=GPUTarget("cuda", 90, 32), options=options).asm["ptx"]

def convolution_of(m, n, k, k2, taps):
    tile = tiles.choose_tile(m, n, k, k2, taps)
    kernel = convolution._convolve_wide if tile.wide else convolution._convolve
    flags = dict(GELU=taps == 1, GELU_OUT=True, RELU6_OUT=False, BIAS=True, SLOPE=False, ADD=False, PRE=False)
    sizes = dict(BM=tile.rows, BN=tile.columns, BK=tile.depth, BK2=tile.depth2)
    return assembly(kernel, tile.warps, tile.stages, N=n, K=k, K2=k2, TAPS=taps, KEEP=False, **flags, **sizes)

def twice(m, n, c):
    tile = tiles.choose_tile_twice(m, n, c)
    sizes = dict(BM=tile.rows, BN=tile.columns, BC=tiles.block(c), BK=tiles.depth(c), BZ=16)
    kernel = double_convolution._convolve_twice
    return assembly(kernel, tile.warps, tile.stages, N=n, K=c, C=c, CZ=16, TAPS=9, ADD=True, **sizes)

def gradient(n, k, taps):
    sizes = dict(BM=64, BN=tiles.block(n), BK=tiles.block(k))
    return assembly(weight_gradient._weight_gradient, 4, 3, N=n, K=k, ROW=taps * k, TAPS=taps, BIAS=True, **sizes)

found = {}
for width, inner, m in ((48, 32, 524_288), (256, 64, 32_768)):
    made = {"3x3": convolution_of(m, inner, inner, 0, 9), "two inputs": convolution_of(m, inner, width, width, 1)}
    made |= {"twice": twice(m, width, inner), "weights": gradient(width, inner, 1)}
    found |= {f"{name}, {width}": text for name, text in made.items()}
print(json.dumps(found))
"""


def products(assembly: str) -> tuple[int, int]:
    """Count the products of tensor cores, and those that do not follow a fence and then a barrier since the last wait.

    The wait is the one for asynchronous copies.
    """
    missing, count, unsafe = list[str](), 0, 0
    for line in assembly.splitlines():
        if "cp.async.wait_group" in line:
            missing = ["fence.proxy.async", "bar.sync"]
        elif missing and missing[0] in line:
            del missing[0]
        elif "wgmma.mma_async" in line:
            count, unsafe = count + 1, unsafe + bool(missing)
    return count, unsafe


def test_products_follow_a_fence_and_a_barrier() -> None:
    plain = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    done = subprocess.run([sys.executable, "-c", COMPILE], env=plain, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = {name: products(text) for name, text in json.loads(done.stdout).items()}
    assert len(found) == 8 and all(count > 0 for count, _ in found.values()), found
    assert {name for name, (_, unsafe) in found.items() if unsafe} == set()
