"""Tile sizes and launch settings of the convolution kernels, chosen by shape from measurements."""

from typing import NamedTuple


class Tile(NamedTuple):
    """The part of a convolution that one program computes, and the launch settings."""

    rows: int
    columns: int
    depth: int
    """Input channels per step."""
    depth2: int
    """Input channels per step, for the extra input."""
    warps: int
    stages: int
    wide: bool = False
    """Whether one program computes all outputs, `columns` at a time."""


WIDEST = 128
"""Most input channels that a program with a wide tile can hold."""


def choose_tile(m: int, n: int, k: int, k2: int, taps: int, *, slope: bool = False, keep: bool = False) -> Tile:
    """Choose the tile for m pixels, n outputs, and k inputs plus k2 extra inputs.

    The rules were measured on an H200 over the shapes of the public networks, for batches of 1 to 128 images. Tiles are
    large if there are enough of them for all multiprocessors. They are small if additional loads or stores (slope,
    keep) leave too few registers for large ones.
    """
    columns, deep, deep2 = block(n), depth(k), depth(k2)
    if keep:  # GELU(x) is stored as well, so one program reads all channels of x
        rows = 64 if m >= 2_000 else 16
        return Tile(rows, columns, next_power_of_two(max(k, 16)), next_power_of_two(max(k2, 16)), 4, 2, wide=True)
    if taps > 1:
        if m >= 12_000:
            return Tile(128, columns, deep, deep2, 4, 2) if deep < 64 else Tile(128, columns, deep, deep2, 8, 3)
        if m >= 2_000:
            return Tile(64, min(columns, 64), deep, deep2, 4, 3)
        return Tile(64, min(columns, 32), deep, deep2, 4, 3) if m >= 500 else Tile(16, 32, deep, deep2, 2, 3)
    if m < 2_000:
        return Tile(16, 32, 128, deep2, 1, 4) if k > 128 else Tile(16, min(columns, 32), deep, deep2, 1, 4)
    if k > 128:
        if m >= 24_000 and not slope:
            return Tile(128, columns, deep, deep2, 8, 3)
        return Tile(64, columns, deep, deep2, 4, 3)
    if slope:
        return Tile(64, min(columns, 64), min(deep, 32), deep2, 4, 4)
    if n > 128 and m >= 24_000 and k2:
        return Tile(128, 64, next_power_of_two(max(k, 16)), next_power_of_two(max(k2, 16)), 4, 2, wide=True)
    return Tile(64, columns, min(deep, 32), deep2, 4, 3)


def choose_tile_twice(m: int, n: int, c: int) -> Tile:
    """Choose the tile of `convolve_twice`, by rules measured in the same way as those of `choose_tile`."""
    rows, warps = (128, 8) if m >= 12_000 else (64, 4) if m >= 4_000 else (16, 4)
    return Tile(rows, min(block(n), 64), 0, 0, warps, 2)


class Window(NamedTuple):
    """The pixels that one program of `depthwise` or `stem` computes: a part of one image, or several small images."""

    images: int
    rows: int
    columns: int

    @property
    def pixels(self) -> int:
        return self.images * self.rows * self.columns

    def across(self, images: int, rows: int, columns: int) -> tuple[int, int, int]:
        """Return how many windows are needed along images, along rows and along columns."""
        return -(-images // self.images), -(-rows // self.rows), -(-columns // self.columns)


_WIDEST_WINDOW = 16


def choose_depthwise(rows: int, columns: int) -> tuple[Window, int]:
    """Choose the window and the number of channels of a program, for output images of this size.

    Each of 128 threads computes 32 numbers, and loads 8 channels of a pixel at once.
    """
    return choose_window(rows, columns, 128), 32


def choose_window(rows: int, columns: int, pixels: int) -> Window:
    """Choose a nearly square window, which needs the fewest neighbours; pixels: its size, a power of two."""
    width = min(next_power_of_two(columns), _WIDEST_WINDOW, pixels)
    height = min(next_power_of_two(rows), pixels // width)
    return Window(pixels // (width * height), height, width)


def block(n: int) -> int:
    """Return the number of output channels in a tile."""
    return max(16, min(128, next_power_of_two(n)))


def depth(k: int) -> int:
    """Return the input channels per step: the most among 16, 32 and 64 with the least padding."""
    return min((64, 32, 16), key=lambda size: (-(-max(k, 1) // size) * size, -size))


def next_power_of_two(n: int) -> int:
    """Return the smallest power of two that is at least n."""
    return 1 << (n - 1).bit_length()
