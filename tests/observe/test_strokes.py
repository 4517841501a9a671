"""Strokes that are drawn in batches have the same pixels as PIL's strokes."""

import math

import numpy as np
import pytest
import torch
from helpers.plain_freeform import Bools, PlainStroke, draw_stroke, under

from condvae.observe.strokes import Strokes, covered, least_covered


def padded(images: list[list[PlainStroke]]) -> Strokes:
    """The same strokes as tensors, with arbitrary values in the padding."""
    most = max(len(strokes) for strokes in images)
    longest = max(len(stroke.vertices) for strokes in images for stroke in strokes)
    x, y = torch.full((2, len(images), most, longest), 7.0)
    segments, width = torch.zeros(len(images), most), torch.full((len(images), most), 20.0)
    for i, strokes in enumerate(images):
        for j, (vertices, w) in enumerate(strokes):
            x[i, j, : len(vertices)], y[i, j, : len(vertices)] = torch.tensor(vertices).float().T
            segments[i, j], width[i, j] = len(vertices) - 1, w
    return Strokes(x=x, y=y, segments=segments, width=width)


def painted(images: list[list[PlainStroke]], size: int) -> Bools:
    return np.stack([under(strokes, size) for strokes in images])


@pytest.mark.parametrize("size", [8, 32, 64, 128, 256])
def test_pixels_match_pil(size: int) -> None:
    rng = np.random.default_rng(size)
    images = [[draw_stroke(rng, size)] for _ in range(400)]
    ours, theirs = covered(padded(images), size).numpy(), painted(images, size)
    # In practice, 1e-5 of the pixels differ, because float32 rounds some halves; a width off by one would change 2 %.
    assert (ours != theirs).mean() < 1e-4
    assert abs(ours.mean() / theirs.mean() - 1) < 1e-4


def test_segments_of_all_directions_and_widths_match_pil() -> None:
    rng = np.random.default_rng(0)
    for width in range(12, 48):
        images = []
        for angle in np.arange(0, 2 * math.pi, math.pi / 24):
            length = rng.uniform(0, 50)
            end = int(64 + length * math.cos(angle)), int(64 + length * math.sin(angle))
            images.append([PlainStroke([(64, 64), end], width)])
        assert (covered(padded(images), 128).numpy() != painted(images, 128)).mean() < 1e-4


def test_straight_segments_are_exact() -> None:
    for end in ((64, 64), (100, 64), (30, 64), (64, 100), (64, 30)):
        for width in (12, 13, 47):
            images = [[PlainStroke([(64, 64), end], width)]]
            assert np.array_equal(covered(padded(images), 128).numpy(), painted(images, 128))


def test_strokes_of_different_images_are_independent() -> None:
    rng = np.random.default_rng(1)
    images = [[draw_stroke(rng, 64) for _ in range(i % 4)] for i in range(60)]
    assert (covered(padded(images), 64).numpy() != painted(images, 64)).mean() < 1e-4
    assert not covered(padded(images), 64)[::4].any()


def test_removing_the_padding_does_not_change_the_result() -> None:
    rng = np.random.default_rng(2)
    for size in (32, 256):
        strokes = padded([[draw_stroke(rng, size) for _ in range(i % 5)] for i in range(40)])
        compact = covered(strokes, size, compact=True)
        assert torch.equal(compact, covered(strokes, size, compact=False))
        assert torch.equal(compact, covered(strokes, size, compact=False, longest=2 * math.sqrt(2) * size / 8 + 1))


def test_a_lower_limit_of_the_covered_pixels_is_that_of_the_largest_disc() -> None:
    rng = np.random.default_rng(3)
    for size in (8, 32, 64):
        strokes = padded([[draw_stroke(rng, size) for _ in range(i % 5)] for i in range(100)])
        limit, pixels = least_covered(strokes, size), covered(strokes, size).sum((1, 2))
        assert (limit <= pixels).all()
        assert not limit[::5].any()
        assert limit.sum() > 0.4 * pixels.sum()
    places = [(x, y, width) for width in (12, 25, 47) for x, y in rng.integers(0, 33, size=(30, 2)).tolist()]
    discs = padded([[PlainStroke([(x, y), (x, y)], width)] for x, y, width in places])
    assert torch.equal(least_covered(discs, 32), covered(discs, 32).sum((1, 2)).int())
