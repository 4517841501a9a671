"""Drawings: the same lines reach the model, however they were drawn, scanned or photographed."""

import contextlib
import io
from collections.abc import Callable

import numpy as np
import pytest
import torch
from helpers.drawings import BOOT, FOLDER, HANDBAG, SNEAKER, Stroke, drawn
from helpers.fixtures import FIXTURES
from PIL import Image, ImageOps
from torch.nn import functional as F

from condvae.images.drawings import FILLED, kind_of, lines_of, square_page
from condvae.images.holes import Flags
from condvae.images.reading import Picture, PictureLike, read_picture
from condvae.images.thinning import opened

SIZE = 64
SUBJECTS = {"sneaker": SNEAKER, "boot": BOOT, "handbag": HANDBAG}


def page(subject: str, *, pen: float = 6, sheet: int = 640, side: float = 400, corner: float = 100) -> Image.Image:
    strokes: list[Stroke] = SUBJECTS[subject]
    return drawn(strokes, sheet=(sheet, sheet), side=side, corner=(corner, corner), pen=pen, seed=1)


def lines(image: PictureLike, size: int = SIZE) -> Flags:
    return lines_of(read_picture(image), size)


def agreement(one: Flags, other: Flags) -> float:
    """The share of line pixels that have a line pixel of the other picture at most one pixel away."""

    def near(flags: Flags) -> Flags:
        grown: Flags = F.max_pool2d(torch.from_numpy(flags)[None].float(), 3, stride=1, padding=1)[0].bool().numpy()
        return grown

    return float(min((one & near(other)).sum() / one.sum(), (other & near(one)).sum() / other.sum()))


def photographed(drawing: Image.Image, *, noise: float = 6) -> Image.Image:
    """A sheet of paper in warm, uneven light: less than half as bright in one corner, with noise, as a JPEG file."""
    levels = np.asarray(drawing) / 255
    y, x = np.mgrid[0 : levels.shape[0], 0 : levels.shape[1]] / levels.shape[0]
    light = 0.95 - 0.35 * x - 0.2 * y**2
    ink = (0.25 + 0.75 * levels) * light
    photo = 230 * ink[:, :, None] * [1, 0.96, 0.88] + np.random.default_rng(0).normal(0, noise, (*levels.shape, 3))
    file = io.BytesIO()
    Image.fromarray(photo.clip(0, 255).astype(np.uint8)).save(file, "JPEG", quality=80)
    return Image.open(file)


def on_clear_page(drawing: Image.Image, colour: tuple[int, int, int]) -> Image.Image:
    image = Image.new("RGBA", drawing.size, (*colour, 0))
    image.putalpha(ImageOps.invert(drawing))
    return image


VARIANTS: dict[str, Callable[[str], Image.Image]] = {
    "four times as large": lambda subject: page(subject).resize((2560, 2560), Image.Resampling.BICUBIC),
    "with repeated pixels": lambda subject: page(subject).resize((1920, 1920), Image.Resampling.NEAREST),
    "four times as small": lambda subject: page(subject).resize((160, 160), Image.Resampling.BOX),
    "with a fine pen": lambda subject: page(subject, pen=2),
    "with a thick pen": lambda subject: page(subject, pen=16),
    "elsewhere on the sheet": lambda subject: page(subject, corner=217.3),
    "small on a large sheet": lambda subject: page(subject, pen=4, sheet=2000, side=250, corner=1650),
    "on the whole sheet": lambda subject: page(subject, pen=9, sheet=2000, side=1990, corner=5),
    "in black and white": lambda subject: page(subject).point(lambda level: 255 * (level > 128)).convert("1"),
    "photographed": lambda subject: photographed(page(subject)),
    "photographed white on black": lambda subject: ImageOps.invert(photographed(page(subject))),
    "in red": lambda subject: ImageOps.colorize(page(subject), "red", "white"),
    "in yellow": lambda subject: ImageOps.colorize(page(subject), "yellow", "white"),
    "on a clear page": lambda subject: on_clear_page(page(subject), (20, 30, 90)),
    "in white on a clear page": lambda subject: on_clear_page(page(subject), (255, 255, 255)),
}


@pytest.mark.parametrize("subject", SUBJECTS)
@pytest.mark.parametrize("variant", VARIANTS)
def test_the_lines_do_not_depend_on_how_a_drawing_was_made(subject: str, variant: str) -> None:
    expected, image = lines(page(subject)), VARIANTS[variant](subject)
    found = lines(image)
    assert agreement(expected, found) >= 0.98
    assert 0.93 < found.sum() / expected.sum() < 1.07
    assert kind_of(read_picture(image), SIZE) == "drawing"


@pytest.mark.parametrize("subject", SUBJECTS)
def test_light_lines_on_dark_give_the_same_lines(subject: str) -> None:
    assert np.array_equal(lines(page(subject)), lines(ImageOps.invert(page(subject))))


@pytest.mark.parametrize("size", [32, 64, 128])
@pytest.mark.parametrize("subject", SUBJECTS)
def test_lines_are_thin_and_fill_what_shoes_fill(subject: str, size: int) -> None:
    found = lines(page(subject), size)
    assert found.shape == (size, size) and opened(found, 2).sum() <= 4  # at most one block, where lines cross
    extents = [np.flatnonzero(found.any(axis=axis)) for axis in (0, 1)]
    assert max(np.ptp(extent) + 1 for extent in extents) == pytest.approx(FILLED * size, abs=2)
    assert all(extent[0] + extent[-1] + 1 == pytest.approx(size, abs=2) for extent in extents)


def test_strong_reduction_makes_no_gaps() -> None:
    angles = np.linspace(0, 2 * np.pi, 20_000)
    y, x = ((1000 + 700 * wave(angles)).astype(int) for wave in (np.sin, np.cos))
    for width in (2, 5, 30):
        levels = np.full((2000, 2000), 255, dtype=np.uint8)
        for shift in range(width):
            levels[y + shift, x] = levels[y, x + shift] = 0
        found = lines(levels)
        reached = _filled_from((0, 0), found)
        assert not reached[32, 32] and not reached[32, 20]  # the ring is closed
        assert _filled_from((32, 32), found)[25:40, 25:40].all()  # and empty


def _filled_from(start: tuple[int, int], walls: Flags) -> Flags:
    """The pixels that can be reached by horizontal and vertical steps without touching a wall."""
    reached = np.zeros_like(walls)
    reached[start] = True
    while True:
        wider = reached.copy()
        for axis in (0, 1):
            for step in (-1, 1):
                wider |= np.roll(reached, step, axis=axis)
        wider &= ~walls
        if np.array_equal(wider, reached):
            return reached
        reached = wider


def edge_picture(seed: int) -> Flags:
    """Thin lines with corners, as an edge detector leaves them."""
    rng, found = np.random.default_rng(seed), np.zeros((SIZE, SIZE), dtype=bool)
    y, x = 10, 10
    for _ in range(60):
        y, x = (int(np.clip(at + rng.integers(-1, 3), 2, 61)) for at in (y, x))
        found[y, x] = True
    found &= ~opened(found, 3)
    return found


@pytest.mark.parametrize("times", [1, 2, 7])
def test_a_saved_edge_picture_gives_exactly_its_lines(times: int) -> None:
    for seed in range(10):
        found = edge_picture(seed)
        levels = np.where(found, np.uint8(0), np.uint8(255)).repeat(times, axis=0).repeat(times, axis=1)
        for image in (levels, 255 - levels, np.dstack([levels] * 3)):
            assert np.array_equal(lines(image), found)
            assert kind_of(read_picture(image), SIZE) == "drawing"


def test_dust_and_noise_are_no_lines() -> None:
    clean = page("boot")
    dusty = np.asarray(photographed(clean, noise=10).convert("L")).copy()
    rng = np.random.default_rng(1)
    for y, x in rng.integers(5, 630, (40, 2)):
        dusty[y : y + 3, x : x + 3] //= 3
    assert agreement(lines(clean), lines(dusty)) >= 0.97


def test_wide_areas_become_outlines() -> None:
    filled = np.full((300, 300), 255, dtype=np.uint8)
    filled[100:200, 50:250] = 0
    found = lines(filled)
    assert found.sum() == pytest.approx(2 * (51 + 26), abs=8) and not found[28:36, 15:49].any()


@pytest.mark.parametrize(
    "empty",
    [
        np.full((80, 300), 255, dtype=np.uint8),
        np.zeros((64, 64, 3), dtype=np.uint8),
        np.full((1, 1), 7, dtype=np.uint8),
        np.full((200, 100), 131, dtype=np.uint8),
        np.zeros((50, 50, 4), dtype=np.uint8),
        np.linspace(100, 200, 90 * 90).reshape(90, 90).astype(np.uint8),
        (180 + np.random.default_rng(0).normal(0, 8, (300, 300))).astype(np.uint8),
    ],
    ids=["white", "black", "one pixel", "grey", "transparent", "uneven light", "noise"],
)
def test_an_empty_drawing_is_refused(empty: np.ndarray) -> None:
    with pytest.raises(ValueError, match="the image has no lines: give a drawing with dark lines on light paper, or"):
        lines(empty)
    assert kind_of(read_picture(empty), SIZE) == "photo"


@pytest.mark.parametrize(("height", "width"), [(1, 1), (1, 40), (40, 1), (2, 3), (7, 500), (64, 64), (63, 65)])
def test_any_size_is_read_or_refused(height: int, width: int) -> None:
    rng = np.random.default_rng(0)
    for levels in (rng.integers(0, 256, (height, width), dtype=np.uint8), 255 * rng.integers(0, 2, (height, width))):
        picture = read_picture(levels.astype(np.uint8))
        assert kind_of(picture, SIZE) in ("photo", "drawing")
        assert square_page(picture, channels=3, size=SIZE).size == (SIZE, SIZE)
        with contextlib.suppress(ValueError):
            assert lines_of(picture, SIZE).any()


def test_photos_are_no_drawings() -> None:
    for path in sorted((FIXTURES / "faces64").glob("*.jpg")):
        assert kind_of(read_picture(path), SIZE) == "photo"
        assert kind_of(read_picture(Image.open(path).convert("L").resize((500, 500))), SIZE) == "photo"
    noise = np.random.default_rng(0).integers(0, 256, (100, 100, 3), dtype=np.uint8)
    assert kind_of(read_picture(noise), SIZE) == "photo"


def test_drawings_that_are_not_square_are_shown_whole_on_their_paper() -> None:
    levels = np.full((80, 300), 240, dtype=np.uint8)
    levels[:, :4] = levels[:, -4:] = 0
    shown = np.asarray(square_page(read_picture(levels), channels=1, size=SIZE))
    assert (shown[:20] == 240).all() and (shown[-20:] == 240).all()
    assert shown[32, 0] < 60 and shown[32, -1] < 60
    assert {0, 1} & set(np.flatnonzero(lines(levels).any(axis=0)) - round(SIZE * (1 - FILLED) / 2))


@pytest.mark.parametrize("name", ["sneaker", "boot", "handbag"])
def test_the_committed_drawings_are_recognised(name: str) -> None:
    picture: Picture = read_picture(FOLDER / f"{name}.png")
    assert kind_of(picture, SIZE) == "drawing"
    found = lines_of(picture, SIZE)
    assert 0.03 < found.mean() < 0.11  # the edges of 90 % of the shoes and bags have 4 to 11 % of the pixels
    assert agreement(found, lines(page(name))) > 0.6
