"""Which part of a convolution one program computes, and how: chosen by shape, as measured."""

from typing import NamedTuple


class Tile(NamedTuple):
    """What one program of a kernel computes, and how."""

    rows: int
    columns: int
    depth: int
    """Input channels in a step."""
    depth2: int
    """The same of what stands beside."""
    warps: int
    stages: int
    wide: bool = False
    """All outputs in one program, `columns` at a time."""


WIDEST = 128
"""Inputs that a program of a wide tile holds at once."""


def choose_tile(m: int, n: int, k: int, k2: int, taps: int, *, slope: bool = False, keep: bool = False) -> Tile:
    """Measured on an H200 over the shapes of the public networks, at batches from one image to 128: large tiles where
    there are enough of them for all multiprocessors, and small ones where what else is loaded or stored beside the
    product (slope, keep) leaves no registers for large ones.
    """
    columns, deep, deep2 = block(n), depth(k), depth(k2)
    if keep:  # x is stored as it went through GELU, so one program takes all of it
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
    """Measured as those of `choose_tile`."""
    rows, warps = (128, 8) if m >= 12_000 else (64, 4) if m >= 4_000 else (16, 4)
    return Tile(rows, min(block(n), 64), 0, 0, warps, 2)


class Window(NamedTuple):
    """Pixels of one program of a kernel that looks around in images: of one image, or of several small ones."""

    images: int
    rows: int
    columns: int

    @property
    def pixels(self) -> int:
        return self.images * self.rows * self.columns

    def across(self, images: int, rows: int, columns: int) -> tuple[int, int, int]:
        """How many windows cover images of so many rows and columns, each way."""
        return -(-images // self.images), -(-rows // self.rows), -(-columns // self.columns)


_WIDEST_WINDOW = 16


def choose_depthwise(rows: int, columns: int) -> tuple[Window, int]:
    """Pixels and channels of a program that makes images of that size: 32 numbers for each of 128 threads, 8 channels
    of a pixel in one load.
    """
    return choose_window(rows, columns, 128), 32


def choose_window(rows: int, columns: int, pixels: int) -> Window:
    """So many pixels, a power of two, in a window that is about as high as wide: it shares the fewest neighbours."""
    width = min(next_power_of_two(columns), _WIDEST_WINDOW, pixels)
    height = min(next_power_of_two(rows), pixels // width)
    return Window(pixels // (width * height), height, width)


def block(n: int) -> int:
    """Channels of a tile."""
    return max(16, min(128, next_power_of_two(n)))


def depth(k: int) -> int:
    """Input channels in a step: as many as can be, with the least padding."""
    return min((64, 32, 16), key=lambda size: (-(-max(k, 1) // size) * size, -size))


def next_power_of_two(n: int) -> int:
    """The least that is n or more."""
    return 1 << (n - 1).bit_length()
