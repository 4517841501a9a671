"""The paper's picture of one patient: a row for each scan, which shows why it was taken where it was."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import torch
from PIL import Image, ImageDraw, ImageFont
from torch import Tensor

from condvae.design.maps import colours, layer
from condvae.images.contact_sheet import to_pil

if TYPE_CHECKING:
    from condvae.design.candidates import Candidates

Colour: TypeAlias = tuple[int, int, int]
_UNSEEN: Colour = (222, 227, 233)
_INK: Colour = (25, 25, 25)
_FAINT: Colour = (95, 100, 108)
_WHITE: Colour = (255, 255, 255)
_RED: Colour = (226, 26, 28)
_SHOWN = 5
"""Completions in a row."""
_FINER = 4
"""Crosses are drawn so many times larger and reduced, which smooths them."""
_MILLISECONDS = 1800
"""Of a frame; the last stays twice as long."""


@dataclass(frozen=True, kw_only=True, eq=False)
class PanelStep:
    """One scan, as a row shows it. Images are grey levels, numbers are nats."""

    seen: Tensor
    """[C, H, W] uint8; what stands where nothing is known is not shown."""
    known: Tensor
    """[1, H, W] bool: what had been scanned before."""
    images: Tensor
    """[N, C, H, W] uint8: what the whole may be ..."""
    gains: Tensor | None
    """[N, L]: ... and what each location would tell if it were."""
    scores: Tensor
    """[L]: what each is expected to tell."""
    chosen: int
    after: Tensor | None = None
    """[C, H, W] uint8: what is seen once that has been scanned; None where it has not."""
    says: str = ""
    """What the classifier makes of what is seen, in a few words ..."""
    says_after: str = ""
    """... and of what is seen after the scan."""


def panel(
    steps: Sequence[PanelStep],
    candidates: "Candidates",
    *,
    title: str = "",
    criterion: str = "expected information gain",
    tile: int = 192,
    first: int = 1,
) -> Image.Image:
    """A picture of all steps, one below the other; images are enlarged by a whole number to about `tile` pixels.

    criterion: what the scores are. first: the number of the first scan.
    """
    if not steps:
        raise ValueError("there is no scan to draw: give at least one step")
    size = candidates.size
    if strange := [step for step in steps if step.seen.shape[-2:] != (size, size)]:
        height, width = strange[0].seen.shape[-2:]
        raise ValueError(f"the candidates are of images of {size} x {size}, but a step shows {height} x {width}")
    page = _Page(steps, candidates.to("cpu"), title=title, criterion=criterion, scale=max(1, round(tile / size)))
    for i, step in enumerate(steps):
        page.draw_row(i, step, "next" if step.after is None else f"t = {first + i}")
    return page.picture


def frames(steps: Sequence[PanelStep], candidates: "Candidates", **options: Any) -> list[Image.Image]:
    """One picture for each step, of one size, in the 256 colours that a GIF has; options as in `panel`."""
    pictures = [panel([step], candidates, first=i + 1, **options) for i, step in enumerate(steps)]
    return [_in_few_colours(picture) for picture in pictures]


def animation(pictures: Sequence[Image.Image]) -> dict[str, Any]:
    """What the first picture's `save` has to be told for all of them to become an animated GIF, which runs for ever."""
    durations = [_MILLISECONDS] * (len(pictures) - 1) + [2 * _MILLISECONDS]
    return {"save_all": True, "append_images": list(pictures[1:]), "duration": durations, "loop": 0}


def in_nats(value: float) -> str:
    """A number of nats with two or three digits and its unit."""
    if abs(value) < 1e-7:
        return "0"
    number, unit = (value, "nat") if abs(value) >= 1 else (1000 * value, "mnat")
    digits = 2 if abs(number) < 9.995 else 1 if abs(number) < 99.95 else 0
    return f"{number:.{digits}f} {unit}" if abs(number) >= 0.995 else f"{number:.2g} {unit}"


class _Page:
    """Where everything stands on a picture, in pixels."""

    def __init__(
        self, steps: Sequence[PanelStep], candidates: "Candidates", *, title: str, criterion: str, scale: int
    ) -> None:
        self.candidates, self.scale = candidates, scale
        self.side = side = candidates.size * scale
        letter = max(11, round(side / 12))
        self.font, self.large = (ImageFont.load_default(size=round(letter * factor)) for factor in (1.0, 1.25))
        self.gap, space = max(3, side // 40), max(8, side // 8)
        self.bar = round(letter * 0.7)
        scale_width = self.bar + 2 * self.gap + round(self.font.getlength("0.000 mnat"))
        shown = min(_SHOWN, *(len(step.images) for step in steps))
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
        self._head(self.at_seen, self.at_seen + side, "observed")
        self._head(
            self.at_images[0], self.at_images[-1] + side, "completions, and the information gain if they are true"
        )
        self._head(self.at_map, self.at_map + side, criterion)
        if scanned:
            self._head(self.at_after, self.at_after + side, "observed next")

    def draw_row(self, i: int, step: PanelStep, label: str) -> None:
        """One step, from left to right."""
        y = self.top + i * self.pitch
        side, window = self.side, self.candidates.windows[step.chosen]
        self.pen.text((self.at_seen / 2, y + side / 2), label, fill=_INK, font=self.large, anchor="mm")
        self._put(self.at_seen, y, self._outlined(_seen(step.seen, step.known), step.known, _WHITE))
        self._caption(self.at_seen, y, step.says)
        most = 0.0 if step.gains is None else _range(step.gains[: len(self.at_images)])[1]  # they begin at 0
        for k, x in enumerate(self.at_images):
            tile = self._enlarged(to_pil(step.images[k]))
            if step.gains is not None:
                self._lay(tile, step.gains[k], 0.0, most)
                self._caption(x, y, in_nats(float(step.gains[k, step.chosen])))
            self._put(x, y, self._outlined(tile, step.known, _WHITE))
        if step.gains is not None:
            self._draw_scale(self.at_gain_scale, y, 0.0, most)
        low, high = _range(step.scores)
        mean = self._enlarged(to_pil(step.images.double().mean(dim=0).round().to(torch.uint8)))
        self._lay(mean, step.scores, low, high)
        self._put(self.at_map, y, self._crossed(self._outlined(mean, step.known, _WHITE), step.chosen))
        self._caption(self.at_map, y, in_nats(float(step.scores[step.chosen])))
        self._draw_scale(self.at_scale, y, low, high)
        if step.after is not None:
            tile = self._outlined(_seen(step.after, step.known | window), step.known, _WHITE)
            self._put(self.at_after, y, self._outlined(tile, window, _RED, thick=2))
            self._caption(self.at_after, y, step.says_after)

    def _head(self, left: int, right: int, text: str) -> None:
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

    def _lay(self, tile: Image.Image, values: Tensor, low: float, high: float) -> None:
        over = layer(values, self.candidates, self.side, low=low, high=high)
        tile.paste(over, mask=over)

    def _outlined(self, image: Image.Image, region: Tensor, colour: Colour, *, thick: int = 1) -> Image.Image:
        """A line along the inner edge of a region [1, H, W]; the image's own edge is one too."""
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
        row, column = ((float(middle) + 0.5) * self.scale * _FINER for middle in self.candidates.centres[chosen])
        drawn = Image.new("L", (self.side * _FINER, self.side * _FINER))
        pen = ImageDraw.Draw(drawn)
        for colour, wider in ((_WHITE, 0.5), (_RED, 0.0)):  # the white around it keeps it apart from any colour
            width = self.side / 60 * _FINER
            reach, width = self.side / 22 * _FINER + width * wider, round(width * (1 + 2 * wider))
            drawn.paste(0, (0, 0, *drawn.size))
            pen.line((column - reach, row - reach, column + reach, row + reach), fill=255, width=width)
            pen.line((column - reach, row + reach, column + reach, row - reach), fill=255, width=width)
            tile.paste(colour, (0, 0, *tile.size), mask=drawn.resize(tile.size, Image.Resampling.BOX))
        return tile

    def _draw_scale(self, x: int, y: int, low: float, high: float) -> None:
        ramp = colours(np.linspace(1, 0, self.side))[:, None].repeat(self.bar, axis=1)
        self.picture.paste(Image.fromarray(ramp), (x, y))
        right = x + self.bar + self.gap
        self.pen.text((right, y), in_nats(high), fill=_FAINT, font=self.font, anchor="lt")
        self.pen.text((right, y + self.side), in_nats(low), fill=_FAINT, font=self.font, anchor="lb")


def _in_few_colours(picture: Image.Image) -> Image.Image:
    # By coverage: a choice by how often colours occur would have no red for a cross among so many greys.
    found = picture.quantize(254, method=Image.Quantize.MAXCOVERAGE).getpalette() or []
    palette = Image.new("P", (1, 1))
    palette.putpalette([*_WHITE, *_UNSEEN, *found[: 3 * 254]])  # exact, or wide areas would be speckled
    return picture.quantize(palette=palette, dither=Image.Dither.FLOYDSTEINBERG)


def _seen(image: Tensor, known: Tensor) -> Image.Image:
    """What is known in its own colours, on a page whose colour no x-ray has."""
    levels = image.cpu().expand(3, -1, -1)
    page = torch.tensor(_UNSEEN, dtype=torch.uint8)[:, None, None].expand_as(levels)
    return to_pil(torch.where(known.cpu(), levels, page))


def _neighbours(flags: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Of a padded table, what stands above, below, left and right of each place."""
    return flags[:-2, 1:-1], flags[2:, 1:-1], flags[1:-1, :-2], flags[1:-1, 2:]


def _range(values: Tensor) -> tuple[float, float]:
    finite = values[values.isfinite()]
    return (float(finite.min()), float(finite.max())) if len(finite) else (0.0, 0.0)


def _cut(text: str, font: Any, room: float) -> str:
    """So much of a text as fits."""
    if font.getlength(text) <= room:
        return text
    while text and font.getlength(f"{text}...") > room:
        text = text[:-1]
    return f"{text}..."
