"""Canny's edge detector: closed forms, invariances, and a slow reference implementation pixel by pixel."""

import math

import numpy as np
import pytest
import torch
from helpers.models import generator
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

from condvae.observe.canny import blur, canny, grown, slopes

Floats = NDArray[np.float64]


def smooth_images(n: int, size: int, seed: int = 0) -> Tensor:
    """Random smooth grey images with some noise, [n, 1, size, size] float64 in [0, 1]."""
    coarse = torch.rand(n, 1, size // 4, size // 4, dtype=torch.float64, generator=generator(seed))
    fine = torch.rand(n, 1, size, size, dtype=torch.float64, generator=generator(seed + 1))
    return 0.9 * F.interpolate(coarse, size=size, mode="bilinear") + 0.1 * fine


def plain_canny(grey: Floats, sigma: float, low: float, high: float) -> NDArray[np.bool_]:
    """The reference implementation: the edges of one image [H, W], computed pixel by pixel."""
    height, width = grey.shape
    radius = math.ceil(3 * sigma)
    kernel = np.exp(-0.5 * (np.arange(-radius, radius + 1) / sigma) ** 2)
    kernel /= kernel.sum()
    for axis in (0, 1):
        padded = np.pad(grey, [(radius, radius) if a == axis else (0, 0) for a in (0, 1)], mode="edge")
        grey = np.apply_along_axis(lambda line: np.convolve(line, kernel, mode="valid"), axis, padded)
    p = np.pad(grey, 1, mode="edge")
    gx, gy, slope = np.zeros_like(grey), np.zeros_like(grey), np.zeros((height + 2, width + 2))
    for y in range(height):
        for x in range(width):
            window = p[y : y + 3, x : x + 3]
            gx[y, x] = (window[:, 2] - window[:, 0]) @ (1, 2, 1) / 4
            gy[y, x] = (window[2] - window[0]) @ (1, 2, 1) / 4
            slope[y + 1, x + 1] = math.hypot(gx[y, x], gy[y, x])
    thin = np.zeros((height, width), dtype=bool)
    for y in range(height):
        for x in range(width):
            a, b, here = gx[y, x], gy[y, x], slope[y + 1, x + 1]
            if here == 0:
                continue
            sides = []
            for way in (1, -1):
                sx, sy = int(way * np.sign(a)), int(way * np.sign(b))
                beside = slope[y + 1, x + 1 + sx] if abs(a) >= abs(b) else slope[y + 1 + sy, x + 1]
                share = min(abs(a), abs(b)) / max(abs(a), abs(b))
                sides.append((1 - share) * beside + share * slope[y + 1 + sy, x + 1 + sx])
            thin[y, x] = here > sides[0] and here >= sides[1]
    weak, inner = thin & (slope[1:-1, 1:-1] > low), slope[1:-1, 1:-1]
    found = np.zeros_like(weak)
    queue = [(y, x) for y in range(height) for x in range(width) if weak[y, x] and inner[y, x] > high]
    while queue:
        y, x = queue.pop()
        if 0 <= y < height and 0 <= x < width and weak[y, x] and not found[y, x]:
            found[y, x] = True
            queue += [(y + i, x + j) for i in (-1, 0, 1) for j in (-1, 0, 1)]
    return found


def test_edges_match_the_slow_reference() -> None:
    grey = smooth_images(6, 32)
    for sigma, low, high in ((1.0, 0.05, 0.15), (0.7, 0.02, 0.2), (2.0, 0.02, 0.05)):
        ours = canny(grey, sigma=sigma, low=low, high=high)
        assert 0.01 < float(ours.double().mean()) < 0.4
        for image, edges in zip(grey, ours, strict=True):
            assert np.array_equal(edges[0].numpy(), plain_canny(image[0].numpy(), sigma, low, high))


def test_the_edge_of_a_step_is_one_line_of_pixels_on_the_brighter_side() -> None:
    for sigma in (0.0, 0.8, 1.0, 2.0):
        grey = (torch.arange(32) >= 12).float().expand(1, 1, 32, 32)
        edges = canny(grey, sigma=sigma, low=0.05, high=0.1)
        assert torch.equal(edges[0, 0], (torch.arange(32) == 12).expand(32, 32))
        assert torch.equal(canny(grey.mT, sigma=sigma, low=0.05, high=0.1), edges.mT)
        assert torch.equal(
            canny(1 - grey, sigma=sigma, low=0.05, high=0.1)[0, 0], (torch.arange(32) == 11).expand(32, 32)
        )


def test_a_step_is_an_edge_if_it_is_high_enough() -> None:
    """The slope of a step of height h is h times the Gaussian's mass over two pixels: 0.68 h for sigma = 1."""
    step = (torch.arange(32) >= 16).double().expand(1, 1, 32, 32)
    weights = [math.exp(-0.5 * k * k) for k in range(-3, 4)]
    slope = (weights[3] + weights[2]) / sum(weights)
    assert float(slopes(blur(step, 1.0))[0].max()) == pytest.approx(slope)
    assert canny(step, sigma=1.0, low=0.1, high=slope - 1e-6).any()
    assert not canny(step, sigma=1.0, low=0.1, high=slope + 1e-6).any()
    assert not canny(torch.full((1, 1, 16, 16), 0.7), sigma=1.0, low=0.0, high=0.0).any()


def test_a_disc_has_a_closed_thin_outline_at_its_radius() -> None:
    at = torch.arange(64) - 31.5
    distance = torch.hypot(at[:, None], at[None, :])
    for radius in (8.0, 15.0, 23.0):
        disc = (radius - distance + 0.5).clamp(0, 1)[None, None]
        edges = canny(disc, sigma=1.0, low=0.05, high=0.15)[0, 0]
        assert float((distance[edges] - radius).abs().max()) < 1
        angle = torch.atan2(at[:, None].expand(64, 64), at[None, :].expand(64, 64))[edges].sort().values
        assert float(angle.diff().max()) < 1.6 / radius  # there is no gap of a pixel
        # A line connected by corners has 4 sqrt(2) r pixels, one connected by sides 8 r, and one two pixels wide 11 r.
        assert 4 * math.sqrt(2) * radius - 8 < int(edges.sum()) < 8 * radius


def test_mirrored_images_have_mirrored_edges_exactly() -> None:
    grey = smooth_images(4, 32).float()
    flat = (grey * 6).round() / 6  # quantised, so that there are ties
    for image in (grey, flat):
        edges = canny(image, sigma=1.0, low=0.05, high=0.15)
        for dims in ((2,), (3,), (2, 3)):
            assert torch.equal(canny(image.flip(dims), sigma=1.0, low=0.05, high=0.15), edges.flip(dims))


def test_images_of_a_batch_are_independent() -> None:
    grey = smooth_images(5, 32)
    together = canny(grey, sigma=1.0, low=0.05, high=0.15)
    apart = torch.cat([canny(image[None], sigma=1.0, low=0.05, high=0.15) for image in grey])
    assert torch.equal(together, apart)


def test_edges_grow_to_the_end_of_the_longest_path() -> None:
    """The end of a spiral is hundreds of steps from its seed; a separate pixel cannot be reached."""
    size = 25
    path = torch.zeros(1, 1, size, size, dtype=torch.bool)
    y, x, dy, dx = 0, 0, 0, 1
    path[0, 0, 0, 0] = True
    for length in (24, 24, 24, 22, 22, 20, 20, 18, 18, 16, 16, 14, 14, 12, 12, 10, 10):
        for _ in range(length):
            y, x = y + dy, x + dx
            path[0, 0, y, x] = True
        dy, dx = dx, -dy
    seeds = torch.zeros_like(path)
    seeds[0, 0, 0, 0] = True
    within = path.clone()
    within[0, 0, 12, 12] = True
    assert torch.equal(grown(seeds, within=within), path)
    assert not grown(torch.zeros_like(path), within=within).any()
