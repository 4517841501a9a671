"""Make sure that tensor cores of Hopper GPUs read what was copied to shared memory, and not what was there before.

In a pipelined loop, tiles are copied to shared memory asynchronously, and tensor cores read them there. They read
through another path than the copies take (the "async proxy"), so a fence must separate the two. Triton 3.6 and earlier
leave it out if both factors of a product are copied in this way; Triton 3.7 has it. Without the fence, products are
wrong now and then while other kernels share the multiprocessor. Triton always writes the fence after a tile that
passes through registers, so the workaround is to send one of the two factors there.
"""

# mypy: disable-error-code="untyped-decorator,no-untyped-def,no-untyped-call,no-any-return"

import os

import triton  # type: ignore[import-untyped, unused-ignore]
import triton.language as tl  # type: ignore[import-untyped, unused-ignore]


def lacks_fences(version: str, environment: dict[str, str]) -> bool:
    """Return whether this version of Triton leaves out fences. Its interpreter needs none."""
    major, minor = (int(part) for part in version.split(".")[:2])
    return (major, minor) < (3, 7) and environment.get("TRITON_INTERPRET") != "1"


_NEEDED: tl.constexpr = tl.constexpr(lacks_fences(triton.__version__, dict(os.environ)))


@triton.jit
def fenced(tile):
    """Return a tile; if Triton would leave out the fence otherwise, a tile in half precision that was in registers."""
    if _NEEDED and tile.dtype.primitive_bitwidth == 16:  # products of float32 do not use these tensor cores
        # The compiler cannot see that this instruction, which moves two numbers at a time, changes nothing.
        tile = tl.inline_asm_elementwise("mov.b32 $0, $1;", "=r,r", [tile], dtype=tile.dtype, is_pure=True, pack=2)
    return tile
