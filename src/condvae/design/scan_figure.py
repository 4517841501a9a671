"""A figure of the scans of one image, as in the paper. Each row shows one scan and why its location was chosen."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import torch
from PIL import Image, ImageDraw, ImageFont
from torch import Tensor

from condvae.design.heatmap import colours, layer
from condvae.images.contact_sheet import to_pil

if TYPE_CHECKING:
    from condvae.design.candidates import Candidates

Colour: TypeAlias = tuple[int, int, int]
_HIDDEN: Colour = (222, 227, 233)
_INK: Colour = (25, 25, 25)
_FAINT: Colour = (95, 100, 108)
_WHITE: Colour = (255, 255, 255)
_RED: Colour = (226, 26, 28)
_COMPLETIONS = 5
"""The most completions that a row shows."""
_OVERSAMPLING = 4
"""The cross at the chosen location is drawn this many times larger and then reduced, for smooth edges."""
_FRAME_MS = 1800
"""Duration of a frame of the animation in milliseconds. The last frame is shown twice as long."""


@dataclass(frozen=True, kw_only=True, eq=False)
class FigureRow:
    """One row of the figure, which shows one scan. Images contain grey levels; gains and scores are in nats."""

    seen: Tensor
    """[C, H, W] uint8: the image before the scan. Only its known pixels are drawn."""
    known: Tensor
    """[1, H, W] bool: the pixels known before the scan."""
    images: Tensor
    """[N, C, H, W] uint8: the possible images that the policy used, usually completions."""
    gains: Tensor | None
    """[N, L]: information gain at each location if possible image n were the true image. None if unknown."""
    scores: Tensor
    """[L]: expected gain of a scan at each location."""
    chosen: int
    """Index of the chosen location."""
    after: Tensor | None = None
    """[C, H, W] uint8: the image after the scan. None if the scan has not been taken."""
    caption: str = ""
    """The classifier's prediction before the scan, in a few words."""
    caption_after: str = ""
    """The classifier's prediction after the scan, in a few words."""


def draw_figure(
    steps: Sequence[FigureRow],
    candidates: "Candidates",
    *,
    title: str = "",
    criterion: str = "expected information gain",
    tile: int = 192,
    first: int = 1,
) -> Image.Image:
    """Draw one picture with one row per scan.

    criterion: heading of the column with the scores. tile: approximate side of a drawn image in pixels; images are
    enlarged by a whole factor. first: number of the first scan in its label.
    """
    if not steps:
        raise ValueError("there are no scans to draw: give at least one row")
    size = candidates.size
    if strange := [step for step in steps if step.seen.shape[-2:] != (size, size)]:
        height, width = strange[0].seen.shape[-2:]
        raise ValueError(f"the candidates are for {size} x {size} images, but a row shows {height} x {width} pixels")
    page = _Page(steps, candidates.to("cpu"), title=title, criterion=criterion, scale=max(1, round(tile / size)))
    for i, step in enumerate(steps):
        page.draw_row(i, step, "next" if step.after is None else f"t = {first + i}")
    return page.picture


def draw_frames(steps: Sequence[FigureRow], candidates: "Candidates", **options: Any) -> list[Image.Image]:
    """Draw one picture per scan, all of the same size and with at most 256 colours; options as in `draw_figure`."""
    pictures = [draw_figure([step], candidates, first=i + 1, **options) for i, step in enumerate(steps)]
    return [_in_few_colours(picture) for picture in pictures]


def gif_options(pictures: Sequence[Image.Image]) -> dict[str, Any]:
    """Return options for `pictures[0].save` that write all pictures as one GIF, which repeats endlessly."""
    durations = [_FRAME_MS] * (len(pictures) - 1) + [2 * _FRAME_MS]
    return {"save_all": True, "append_images": list(pictures[1:]), "duration": durations, "loop": 0}


def format_nats(value: float) -> str:
    """Format a number of nats with two or three significant digits and its unit: nat, or mnat for thousandths."""
    if abs(value) < 1e-7:
        return "0"
    number, unit = (value, "nat") if abs(value) >= 1 else (1000 * value, "mnat")
    digits = 2 if abs(number) < 9.995 else 1 if abs(number) < 99.95 else 0
    return f"{number:.{digits}f} {unit}" if abs(number) >= 0.995 else f"{number:.2g} {unit}"


class _Page:
    """Computes the layout of a picture in pixels, and draws its headings and rows."""

    def __init__(
        self, steps: Sequence[FigureRow], candidates: "Candidates", *, title: str, criterion: str, scale: int
    ) -> None:
        self.candidates, self.scale = candidates, scale
        self.side = side = candidates.size * scale
        letter = max(11, round(side / 12))
        self.font, self.large = (ImageFont.load_default(size=round(letter * factor)) for factor in (1.0, 1.25))
        self.gap, space = max(3, side // 40), max(8, side // 8)
        self.bar = round(letter * 0.7)
        scale_width = self.bar + 2 * self.gap + round(self.font.getlength("0.000 mnat"))
        shown = min(_COMPLETIONS, *(len(step.images) for step in steps))
        self.at_seen = round(self.large.getlength("t = 00")) + 2 * self.gap
        self.at_images = [self.at_seen + side + space + i * (side + self.gap) for i in range(shown)]
        self.at_gain_scale = self.at_images[-1] + side + self.gap
        self.at_map = self.at_gain_scale + scale_width + space // 2
        self.at_scale = self.at_map + side + self.gap
        self.at_after = self.at_scale + scale_width + space // 2
        scanned = any(step.after is not None for step in steps)
        width = self.at_after + (side + space // 2 if scanned else 0)
        self.over, self.under = round(letter * 0.9), round(letter * 0.95)
        self.top = round(letter * (4.0 if title else 2.1))
        self.pitch = side + round(letter * 2.3)
        self.picture = Image.new("RGB", (width, self.top + len(steps) * self.pitch), "white")
        self.pen = ImageDraw.Draw(self.picture)
        room = width - 2 * self.at_seen
        self.pen.text(
            (self.at_seen, letter * 1.3), _cut(title, self.large, room), fill=_INK, font=self.large, anchor="lm"
        )
        self._heading(self.at_seen, self.at_seen + side, "observed")
        self._heading(
            self.at_images[0], self.at_images[-1] + side, "completions, with the information gain if each were true"
        )
        self._heading(self.at_map, self.at_map + side, criterion)
        if scanned:
            self._heading(self.at_after, self.at_after + side, "observed after the scan")

    def draw_row(self, i: int, step: FigureRow, label: str) -> None:
        """Draw row i of the figure, from left to right."""
        y = self.top + i * self.pitch
        side, window = self.side, self.candidates.windows[step.chosen]
        self.pen.text((self.at_seen / 2, y + side / 2), label, fill=_INK, font=self.large, anchor="mm")
        self._put(self.at_seen, y, self._outlined(_seen(step.seen, step.known), step.known, _WHITE))
        self._caption(self.at_seen, y, step.caption)
        most = 0.0 if step.gains is None else _range(step.gains[: len(self.at_images)])[1]  # their scale starts at 0
        for k, x in enumerate(self.at_images):
            tile = self._enlarged(to_pil(step.images[k]))
            if step.gains is not None:
                self._overlay(tile, step.gains[k], 0.0, most)
                self._caption(x, y, format_nats(float(step.gains[k, step.chosen])))
            self._put(x, y, self._outlined(tile, step.known, _WHITE))
        if step.gains is not None:
            self._draw_scale(self.at_gain_scale, y, 0.0, most)
        low, high = _range(step.scores)
        mean = self._enlarged(to_pil(step.images.double().mean(dim=0).round().to(torch.uint8)))
        self._overlay(mean, step.scores, low, high)
        self._put(self.at_map, y, self._crossed(self._outlined(mean, step.known, _WHITE), step.chosen))
        self._caption(self.at_map, y, format_nats(float(step.scores[step.chosen])))
        self._draw_scale(self.at_scale, y, low, high)
        if step.after is not None:
            tile = self._outlined(_seen(step.after, step.known | window), step.known, _WHITE)
            self._put(self.at_after, y, self._outlined(tile, window, _RED, thick=2))
            self._caption(self.at_after, y, step.caption_after)

    def _heading(self, left: int, right: int, text: str) -> None:
        middle = (left + right) / 2
        text = _cut(text, self.font, max(right - left, round(1.4 * self.side)))
        self.pen.text((middle, self.top - self.over), text, fill=_FAINT, font=self.font, anchor="mm")

    def _caption(self, x: int, y: int, text: str) -> None:
        text = _cut(text, self.font, round(1.15 * self.side))
        at = (x + self.side / 2, y + self.side + self.under)
        self.pen.text(at, text, fill=_INK, font=self.font, anchor="mm")

    def _put(self, x: int, y: int, tile: Image.Image) -> None:
        self.picture.paste(tile, (x, y))

    def _enlarged(self, image: Image.Image) -> Image.Image:
        return image.convert("RGB").resize((self.side, self.side), Image.Resampling.NEAREST)

    def _overlay(self, tile: Image.Image, values: Tensor, low: float, high: float) -> None:
        over = layer(values, self.candidates, self.side, low=low, high=high)
        tile.paste(over, mask=over)

    def _outlined(self, image: Image.Image, region: Tensor, colour: Colour, *, thick: int = 1) -> Image.Image:
        """Enlarge an image and draw a line along the inner edge of a region [1, H, W], also at the image's border."""
        tile = self._enlarged(image)
        inside = np.kron(region[0].cpu().numpy(), np.ones((self.scale, self.scale), dtype=bool))
        inner = np.pad(inside, 1)
        for _ in range(max(1, round(thick * self.side / 192))):
            middle, (up, down, left, right) = inner[1:-1, 1:-1], _neighbours(inner)
            inner = np.pad(middle & up & down & left & right, 1)
        edge = inside & ~inner[1:-1, 1:-1]
        tile.paste(colour, (0, 0, *tile.size), mask=Image.fromarray(edge.astype(np.uint8) * 255))
        return tile

    def _crossed(self, tile: Image.Image, chosen: int) -> Image.Image:
        row, column = ((float(middle) + 0.5) * self.scale * _OVERSAMPLING for middle in self.candidates.centres[chosen])
        drawn = Image.new("L", (self.side * _OVERSAMPLING, self.side * _OVERSAMPLING))
        pen = ImageDraw.Draw(drawn)
        for colour, wider in ((_WHITE, 0.5), (_RED, 0.0)):  # a white outline makes the cross visible on any colour
            width = self.side / 60 * _OVERSAMPLING
            reach, width = self.side / 22 * _OVERSAMPLING + width * wider, round(width * (1 + 2 * wider))
            drawn.paste(0, (0, 0, *drawn.size))
            pen.line((column - reach, row - reach, column + reach, row + reach), fill=255, width=width)
            pen.line((column - reach, row + reach, column + reach, row - reach), fill=255, width=width)
            tile.paste(colour, (0, 0, *tile.size), mask=drawn.resize(tile.size, Image.Resampling.BOX))
        return tile

    def _draw_scale(self, x: int, y: int, low: float, high: float) -> None:
        ramp = colours(np.linspace(1, 0, self.side))[:, None].repeat(self.bar, axis=1)
        self.picture.paste(Image.fromarray(ramp), (x, y))
        right = x + self.bar + self.gap
        self.pen.text((right, y), format_nats(high), fill=_FAINT, font=self.font, anchor="lt")
        self.pen.text((right, y + self.side), format_nats(low), fill=_FAINT, font=self.font, anchor="lb")


def _in_few_colours(picture: Image.Image) -> Image.Image:
    """Reduce a picture to the 256 colours of a GIF."""
    # Maximum coverage: methods that weigh colours by frequency drop the rare red of the cross.
    found = picture.quantize(254, method=Image.Quantize.MAXCOVERAGE).getpalette() or []
    palette = Image.new("P", (1, 1))
    palette.putpalette([*_WHITE, *_HIDDEN, *found[: 3 * 254]])  # exact, because dithering would speckle large areas
    return picture.quantize(palette=palette, dither=Image.Dither.FLOYDSTEINBERG)


def _seen(image: Tensor, known: Tensor) -> Image.Image:
    """Show known pixels as they are, and hidden pixels in a colour that no x-ray contains."""
    levels = image.cpu().expand(3, -1, -1)
    page = torch.tensor(_HIDDEN, dtype=torch.uint8)[:, None, None].expand_as(levels)
    return to_pil(torch.where(known.cpu(), levels, page))


def _neighbours(flags: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return the values above, below, left and right of each inner element of an array that was padded by 1."""
    return flags[:-2, 1:-1], flags[2:, 1:-1], flags[1:-1, :-2], flags[1:-1, 2:]


def _range(values: Tensor) -> tuple[float, float]:
    """Return the smallest and the largest finite value, or (0, 0) if there is no finite value."""
    finite = values[values.isfinite()]
    return (float(finite.min()), float(finite.max())) if len(finite) else (0.0, 0.0)


def _cut(text: str, font: Any, room: float) -> str:
    """Shorten a text that is wider than `room` pixels, and end it with dots."""
    if font.getlength(text) <= room:
        return text
    while text and font.getlength(f"{text}...") > room:
        text = text[:-1]
    return f"{text}..."
