"""Contact sheets: images in rows and columns, with a label above each column."""

from collections.abc import Sequence

import torch
from PIL import Image, ImageDraw, ImageFont
from torch import Tensor

_MARGIN = 4
_HEADER = 18


def contact_sheet(rows: Sequence[Sequence[Tensor]], columns: Sequence[str], *, tile: int = 96) -> Image.Image:
    """Arrange images in rows and columns, with a label above each column.

    All images are [C, H, W] uint8 and of the same size. Each is enlarged to about `tile` x `tile` pixels.
    """
    if not rows or any(len(row) != len(columns) for row in rows):
        raise ValueError(
            f"a contact sheet with {len(columns)} columns needs at least one row, and one image per column in every row"
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
    """Show values [H, W] as colours [3, H, W] uint8: 0 is black, then red, yellow, and white at `largest` and above."""
    ramp = (values / largest).clamp(0, 1) * 3
    return torch.stack([(ramp - i).clamp(0, 1) for i in range(3)]).mul(255).round().to(torch.uint8)


def to_pil(image: Tensor) -> Image.Image:
    """Convert an image [C, H, W] uint8 to a grey or RGB PIL image."""
    array = image.permute(1, 2, 0).cpu().numpy()
    return Image.fromarray(array[:, :, 0] if array.shape[2] == 1 else array)
