"""Drawings as people make them: wobbly strokes of a sneaker, an ankle boot and a handbag.

python tests/helpers/drawings.py    # writes tests/fixtures/drawings/
"""

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw

FOLDER = Path(__file__).parents[1] / "fixtures" / "drawings"
Stroke = Sequence[tuple[float, float]]

SNEAKER: list[Stroke] = [
    # outline of the upper: heel, collar, tongue, instep, toe
    [
        (4, 52),
        (2, 40),
        (4, 28),
        (8, 20),
        (16, 18),
        (24, 24),
        (32, 25),
        (40, 17),
        (46, 20),
        (56, 31),
        (68, 38),
        (82, 42),
    ],
    [(82, 42), (92, 45), (97, 51), (97, 57)],
    [(4, 52), (30, 55), (60, 55), (97, 56)],  # top of the sole
    [(4, 52), (3, 61), (30, 63), (62, 63), (92, 63), (98, 57)],  # bottom of the sole
    [(42, 27), (50, 21)],  # laces
    [(48, 32), (56, 27)],
    [(54, 37), (62, 32)],
    [(74, 55), (75, 46), (80, 42)],  # toe cap
]
BOOT: list[Stroke] = [
    [(12, 4), (32, 6), (52, 3)],
    [(12, 4), (14, 28), (12, 52), (8, 70), (8, 84)],
    [(52, 3), (52, 24), (54, 40), (64, 52), (80, 58), (90, 66), (92, 76), (90, 80)],
    [(8, 84), (24, 85), (26, 79), (50, 82), (90, 80)],
    [(8, 84), (8, 93), (24, 93), (25, 85)],
    [(38, 5), (36, 26), (42, 44)],
]
HANDBAG: list[Stroke] = [
    [(14, 40), (86, 38), (94, 88), (88, 94), (12, 95), (6, 88), (14, 40)],
    [(28, 40), (30, 22), (38, 10), (50, 6), (62, 10), (70, 22), (72, 39)],
    [(35, 40), (37, 24), (43, 16), (50, 13), (57, 16), (63, 24), (65, 39)],
    [(13, 46), (32, 58), (50, 61), (68, 57), (87, 45)],
    [(47, 58), (53, 58), (53, 66), (47, 66), (47, 58)],
]


def drawn(
    strokes: Sequence[Stroke],
    *,
    sheet: tuple[int, int],
    side: float,
    corner: tuple[float, float],
    pen: float,
    wobble: float = 0.004,
    seed: int = 0,
) -> Image.Image:
    """Draw strokes (in per cent of `side`) in black on a white sheet, with a round pen and a slightly shaking hand.

    corner: the upper left corner of the drawing on the sheet. wobble: how far the hand shakes, relative to `side`.
    """
    finer = 4  # the page is drawn larger and then reduced, so that lines have smooth edges
    page = Image.new("L", (sheet[0] * finer, sheet[1] * finer), 255)
    pencil, rng = ImageDraw.Draw(page), np.random.default_rng(seed)
    radius = pen * finer / 2
    for stroke in strokes:
        for x, y in _wobbly(_curve(stroke), wobble, rng):
            at = ((corner[0] + x * side / 100) * finer, (corner[1] + y * side / 100) * finer)
            pencil.ellipse((at[0] - radius, at[1] - radius, at[0] + radius, at[1] + radius), fill=0)
    return page.resize(sheet, Image.Resampling.BOX)


def _curve(points: Stroke) -> list[tuple[float, float]]:
    """A smooth curve through points, as dense points: a Catmull-Rom spline."""
    ends = [points[0], *points, points[-1]]
    curve = []
    for k in range(len(points) - 1):
        before, start, end, after = (np.array(point) for point in ends[k : k + 4])
        steps = max(2, math.ceil(8 * float(np.hypot(*(end - start)))))
        for t in np.linspace(0, 1, steps):
            a, b, c = end - before, 2 * before - 5 * start + 4 * end - after, 3 * (start - end) + after - before
            curve.append(tuple(start + 0.5 * (a * t + b * t**2 + c * t**3)))
    return curve


def _wobbly(curve: list[tuple[float, float]], wobble: float, rng: np.random.Generator) -> list[tuple[float, float]]:
    """Shake a curve by slow random waves."""
    n = np.arange(len(curve))
    shake = np.zeros((2, len(curve)))
    for length in (40, 110, 250):
        shake += rng.normal(size=(2, 1)) * np.sin(n / length + rng.uniform(0, 6.3, size=(2, 1)))
    return [(x + dx, y + dy) for (x, y), dx, dy in zip(curve, *(100 * wobble * shake), strict=True)]


def _write() -> None:
    FOLDER.mkdir(exist_ok=True)
    sneaker = drawn(SNEAKER, sheet=(640, 400), side=520, corner=(60, 10), pen=6, seed=1)
    sneaker.save(FOLDER / "sneaker.png", optimize=True)
    boot = drawn(BOOT, sheet=(800, 800), side=200, corner=(520, 90), pen=3, seed=2)  # small, on a large sheet
    ink = Image.new("RGBA", boot.size, (30, 40, 120, 0))  # blue, on a transparent page
    ink.putalpha(boot.point(lambda level: 255 - level))
    ink.save(FOLDER / "boot.png", optimize=True)
    handbag = drawn(HANDBAG, sheet=(320, 360), side=300, corner=(10, 30), pen=12, seed=3)
    handbag.point(lambda level: 255 - level).save(FOLDER / "handbag.png", optimize=True)  # white on black


if __name__ == "__main__":
    _write()
