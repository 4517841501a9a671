"""The reference implementation of freeform holes, one at a time with NumPy and PIL."""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw

Bools = NDArray[np.bool_]


class PlainStroke(NamedTuple):
    vertices: list[tuple[int, int]]
    width: int


def randint(rng: np.random.Generator, low: int, high: int) -> int:
    return int(rng.integers(low, high)) if high > low else low


def draw_stroke(rng: np.random.Generator, size: int) -> PlainStroke:
    segments = randint(rng, 4, 18)
    lowest = 2 * math.pi / 5 - rng.uniform(0, 2 * math.pi / 15)
    highest = 2 * math.pi / 5 + rng.uniform(0, 2 * math.pi / 15)
    mean = math.sqrt(2 * size**2) / 8
    vertices = [(randint(rng, 0, size), randint(rng, 0, size))]
    for i in range(segments):
        angle = rng.uniform(lowest, highest)
        if i % 2 == 0:
            angle = 2 * math.pi - angle
        length = min(max(rng.normal(mean, mean // 2), 0), 2 * mean)
        x, y = vertices[-1][0] + length * math.cos(angle), vertices[-1][1] + length * math.sin(angle)
        vertices.append((int(min(max(x, 0), size)), int(min(max(y, 0), size))))
    return PlainStroke(vertices, int(rng.uniform(12, 48)))


def under(strokes: list[PlainStroke], size: int) -> Bools:
    """[size, size]: True for the pixels of the strokes, as drawn by PIL."""
    image = Image.new("L", (size, size))
    canvas = ImageDraw.Draw(image)
    for vertices, width in strokes:
        canvas.line(vertices, fill=1, width=width)
        for x, y in vertices:
            canvas.ellipse((x - width // 2, y - width // 2, x + width // 2, y + width // 2), fill=1)
    return np.asarray(image, dtype=bool)


def candidate(rng: np.random.Generator, size: int, *, low: float, high: float) -> Bools:
    """[size, size]: True where a pixel is known. The hidden share is not checked."""
    c = min(low + high, 1)
    known = np.ones((size, size), dtype=bool)
    for most, largest in ((int(10 * c), size // 2), (int(5 * c), size)):
        for _ in range(randint(rng, 0, most)):
            w, h = randint(rng, 0, largest), randint(rng, 0, largest)
            x = randint(rng, -(w // 2), size - w + w // 2)
            y = randint(rng, -(h // 2), size - h + h // 2)
            known[max(y, 0) : y + h, max(x, 0) : x + w] = False
    hidden = under([draw_stroke(rng, size) for _ in range(randint(rng, 0, int(20 * c)))], size)
    if rng.random() < 0.5:
        hidden = hidden[:, ::-1]
    if rng.random() < 0.5:
        hidden = hidden[::-1]
    return known & ~hidden
