"""Make sure that tensor cores of Hopper GPUs read what was copied to shared memory, and not what was there before.

In a pipelined loop, all threads of a program copy parts of a tile to shared memory asynchronously, and tensor cores
read the tile there. They read through another path than the copies take (the "async proxy"). So every thread has to
wait for its copies, write a fence, and meet the others at a barrier, in this order, before the product. If both factors
of a product are copied in this way, Triton 3.6 leaves out the fence, and Triton 3.7 writes it after the barrier, where
it is too late for what other threads have copied. Products are then wrong now and then, while other kernels share the
multiprocessor. After a tile that passes through registers, Triton writes a fence and a barrier, so the workaround is to
send one of the two factors there.
"""

# mypy: disable-error-code="untyped-decorator,no-untyped-def,no-untyped-call,no-any-return"

import os

import triton  # type: ignore[import-untyped, unused-ignore]
import triton.language as tl  # type: ignore[import-untyped, unused-ignore]

_COMPILED: tl.constexpr = tl.constexpr(os.environ.get("TRITON_INTERPRET") != "1")


@triton.jit
def fenced(tile):
    """Return a tile, which was in registers if it is of half precision and the kernel is compiled."""
    if _COMPILED and tile.dtype.primitive_bitwidth == 16:  # products of float32 do not use these tensor cores
        # The compiler cannot see that this instruction, which moves two numbers at a time, changes nothing.
        tile = tl.inline_asm_elementwise("mov.b32 $0, $1;", "=r,r", [tile], dtype=tile.dtype, is_pure=True, pack=2)
    return tile
