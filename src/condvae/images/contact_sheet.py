"""Pictures of results: a labelled contact sheet."""

from collections.abc import Sequence

import torch
from PIL import Image, ImageDraw, ImageFont
from torch import Tensor

_MARGIN = 4
_HEADER = 18


def contact_sheet(rows: Sequence[Sequence[Tensor]], columns: Sequence[str], *, tile: int = 96) -> Image.Image:
    """A table of images [C, H, W] uint8 of one size, enlarged to about `tile` pixels with a label over each column."""
    if not rows or any(len(row) != len(columns) for row in rows):
        raise ValueError(
            f"a contact sheet of {len(columns)} columns needs at least one row, and as many images in each"
        )
    size = rows[0][0].shape[-1]
    side = size * max(1, round(tile / size))
    pitch = side + _MARGIN
    sheet = Image.new("RGB", (len(columns) * pitch + _MARGIN, len(rows) * pitch + _MARGIN + _HEADER), "white")
    draw = ImageDraw.Draw(sheet)
    font = ImageFont.load_default(size=12)
    for j, label in enumerate(columns):
        draw.text((_MARGIN + j * pitch + side / 2, _HEADER / 2 + 2), label, fill="black", font=font, anchor="mm")
        for i, row in enumerate(rows):
            picture = to_pil(row[j]).convert("RGB").resize((side, side), Image.Resampling.NEAREST)
            sheet.paste(picture, (_MARGIN + j * pitch, _HEADER + _MARGIN + i * pitch))
    return sheet


def heat_map(values: Tensor, *, largest: float) -> Tensor:
    """[H, W] numbers from 0 (black) over red and yellow to `largest` and beyond (white), as [3, H, W] uint8."""
    ramp = (values / largest).clamp(0, 1) * 3
    return torch.stack([(ramp - i).clamp(0, 1) for i in range(3)]).mul(255).round().to(torch.uint8)


def to_pil(image: Tensor) -> Image.Image:
    """[C, H, W] uint8 as a grey or RGB picture."""
    array = image.permute(1, 2, 0).cpu().numpy()
    return Image.fromarray(array[:, :, 0] if array.shape[2] == 1 else array)
