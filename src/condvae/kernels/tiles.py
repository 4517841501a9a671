"""Rules that choose tile sizes and launch settings of the convolution kernels for given shapes, from measurements."""

from typing import NamedTuple


class Tile(NamedTuple):
    """Launch settings of a convolution kernel. One program computes a tile of `rows` pixels and `columns` outputs."""

    rows: int
    columns: int
    depth: int
    """Number of input channels that a program reads per step."""
    depth2: int
    """Number of channels of the extra input that a program reads per step."""
    warps: int
    stages: int
    wide: bool = False
    """Whether one program computes all outputs of its pixels, `columns` at a time."""


WIDEST = 128
"""Maximum number of input channels that a program with a wide tile can hold in registers."""


def choose_tile(m: int, n: int, k: int, k2: int, taps: int, *, slope: bool = False, keep: bool = False) -> Tile:
    """Choose the tile of a convolution for m pixels, n outputs, k input channels, and k2 channels of an extra input.

    The rules come from measurements on an H200 with the layers of the public networks and batches of 1 to 128 images.
    Tiles are large if there still are enough of them for all multiprocessors. They are smaller if the kernel also
    multiplies by GELU's slope (slope) or stores GELU(x) (keep), because registers are then short.
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
    """Choose the tile of `convolve_twice` for m pixels and n outputs. The rules were measured as in `choose_tile`."""
    rows, warps = (128, 8) if m >= 12_000 else (64, 4) if m >= 4_000 else (16, 4)
    return Tile(rows, min(block(n), 64), 0, 0, warps, 2)


class Window(NamedTuple):
    """Output pixels that one program of `depthwise` or `stem` computes: a part of an image, or several small images."""

    images: int
    rows: int
    columns: int

    @property
    def pixels(self) -> int:
        return self.images * self.rows * self.columns

    def across(self, images: int, rows: int, columns: int) -> tuple[int, int, int]:
        """Return the numbers of windows that cover all images, all rows of an image, and all its columns."""
        return -(-images // self.images), -(-rows // self.rows), -(-columns // self.columns)


_WIDEST_WINDOW = 16


def choose_depthwise(rows: int, columns: int) -> tuple[Window, int]:
    """Choose the window and the number of channels that one program computes, for output images of this size.

    With this choice, each of 128 threads computes 32 numbers, and loads 8 channels of a pixel at once.
    """
    return choose_window(rows, columns, 128), 32


def choose_window(rows: int, columns: int, pixels: int) -> Window:
    """Choose a nearly square window of `pixels` pixels (a power of two); squares need the fewest neighbours."""
    width = min(next_power_of_two(columns), _WIDEST_WINDOW, pixels)
    height = min(next_power_of_two(rows), pixels // width)
    return Window(pixels // (width * height), height, width)


def block(n: int) -> int:
    """Return the number of output channels in a tile, if the convolution has n of them."""
    return max(16, min(128, next_power_of_two(n)))


def depth(k: int) -> int:
    """Return how many of k input channels to read per step: 16, 32 or 64, with the least padding, and then the most."""
    return min((64, 32, 16), key=lambda size: (-(-max(k, 1) // size) * size, -size))


def next_power_of_two(n: int) -> int:
    """Return the smallest power of two that is at least n."""
    return 1 << (n - 1).bit_length()
