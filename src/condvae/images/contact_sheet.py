"""Contact sheets: images in rows and columns, with a label above each column and, if wanted, left of each row."""

import math
from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

import torch
from PIL import Image, ImageDraw, ImageFont
from torch import Tensor

_MARGIN = 4
_HEADER, _SCALE = 18, 16  # heights of a line of labels, and of the line of scales below it
_BAR = 9  # height of the colour bar of a scale


class HeatColumn(NamedTuple):
    """The heading of a column of heat maps: a label, and below it the scale of their colours."""

    label: str
    lowest: str
    """The text at the black end of the scale."""
    highest: str
    """The text at the white end of the scale."""


ColumnHeading: TypeAlias = str | HeatColumn


def contact_sheet(
    rows: Sequence[Sequence[Tensor]],
    columns: Sequence[ColumnHeading],
    *,
    tile: int = 96,
    row_labels: Sequence[str] = (),
) -> Image.Image:
    """Arrange images in rows and columns, with a heading above each column.

    All images are [C, H, W] uint8 and of the same size. Each is enlarged to about `tile` x `tile` pixels.
    row_labels: a label for each row, which is written left of its images. Without labels, there is no room for them.
    """
    if not rows or any(len(row) != len(columns) for row in rows):
        raise ValueError(
            f"a contact sheet with {len(columns)} columns needs at least one row, and one image per column in every row"
        )
    if row_labels and len(row_labels) != len(rows):
        raise ValueError(f"a contact sheet has {len(rows)} rows, but {len(row_labels)} row labels were given")
    size = rows[0][0].shape[-1]
    side = size * max(1, round(tile / size))
    pitch = side + _MARGIN
    header = _HEADER + _SCALE * any(isinstance(heading, HeatColumn) for heading in columns)
    font = ImageFont.load_default(size=12)
    labels = max((math.ceil(font.getlength(label)) + _MARGIN for label in row_labels), default=0)
    width, height = labels + len(columns) * pitch + _MARGIN, len(rows) * pitch + _MARGIN + header
    sheet = Image.new("RGB", (width, height), "white")
    draw = ImageDraw.Draw(sheet)
    for i, label in enumerate(row_labels):
        draw.text((labels, header + _MARGIN + i * pitch + side / 2), label, fill="black", font=font, anchor="rm")
    for j, heading in enumerate(columns):
        left = labels + _MARGIN + j * pitch
        label = heading if isinstance(heading, str) else heading.label
        # Labels are just above their column, except that of a scale, which has its own line there.
        line = header - _HEADER if isinstance(heading, str) else 0
        draw.text((left + side / 2, line + _HEADER / 2 + 2), label, fill="black", font=font, anchor="mm")
        if isinstance(heading, HeatColumn):
            _draw_scale(sheet, heading, (left, _HEADER, left + side, header))
        for i, row in enumerate(rows):
            picture = to_pil(row[j]).convert("RGB").resize((side, side), Image.Resampling.NEAREST)
            sheet.paste(picture, (left, header + _MARGIN + i * pitch))
    return sheet


def _draw_scale(sheet: Image.Image, heading: HeatColumn, box: tuple[int, int, int, int]) -> None:
    """Draw a colour bar with its two texts into a box (left, top, right, bottom) of the sheet."""
    left, top, right, bottom = box
    draw, font = ImageDraw.Draw(sheet), ImageFont.load_default(size=12)
    middle = (top + bottom) / 2 + 1
    draw.text((left, middle), heading.lowest, fill="black", font=font, anchor="lm")
    draw.text((right, middle), heading.highest, fill="black", font=font, anchor="rm")
    start = left + round(font.getlength(heading.lowest)) + _MARGIN
    end = right - round(font.getlength(heading.highest)) - _MARGIN
    if end - start < 2 * _MARGIN:  # no room for a bar: the two texts alone tell the range
        return
    bar = to_pil(heat_map(torch.linspace(0, 1, end - start).expand(_BAR, -1), largest=1.0))
    at = (start, round(middle - _BAR / 2))
    sheet.paste(bar, at)
    draw.rectangle((at[0] - 1, at[1] - 1, end, at[1] + _BAR), outline="grey")  # so that its white end is seen


def heat_map(values: Tensor, *, largest: float) -> Tensor:
    """Show values [H, W] as colours [3, H, W] uint8: 0 is black, then red, yellow, and white at `largest` and above."""
    ramp = (values / largest).clamp(0, 1) * 3
    return torch.stack([(ramp - i).clamp(0, 1) for i in range(3)]).mul(255).round().to(torch.uint8)


def to_pil(image: Tensor) -> Image.Image:
    """Convert an image [C, H, W] uint8 to a grey or RGB PIL image."""
    array = image.permute(1, 2, 0).cpu().numpy()
    return Image.fromarray(array[:, :, 0] if array.shape[2] == 1 else array)
