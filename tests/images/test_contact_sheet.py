import numpy as np
import pytest
import torch

from condvae.images.contact_sheet import HeatColumn, contact_sheet, heat_map, to_pil


def test_every_image_is_complete_and_in_its_place() -> None:
    colours = [[(255, 0, 0), (0, 255, 0)], [(0, 0, 255), (255, 255, 0)], [(0, 255, 255), (255, 0, 255)]]
    tiles = [[torch.tensor(c, dtype=torch.uint8).view(3, 1, 1).expand(3, 8, 8) for c in row] for row in colours]
    sheet = contact_sheet(tiles, ["left", "right"], tile=16)
    counts = {colour: count for count, colour in sheet.getcolors(maxcolors=100_000) or []}
    for row in colours:
        for colour in row:
            assert counts[colour] == 16 * 16
    width, height = sheet.size
    assert sheet.getpixel((width // 4, height // 3)) == (255, 0, 0)
    assert sheet.getpixel((3 * width // 4, height // 3)) == (0, 255, 0)


def test_grey_images_are_accepted() -> None:
    assert to_pil(torch.zeros(1, 4, 4, dtype=torch.uint8)).mode == "L"
    contact_sheet([[torch.zeros(1, 4, 4, dtype=torch.uint8)]], ["grey"])


def test_heat_grows_from_black_to_white() -> None:
    heat = heat_map(torch.tensor([[0.0, 0.5, 1.0, 9.0]]), largest=1.0)
    assert heat[:, 0].T.tolist() == [[0, 0, 0], [255, 128, 0], [255, 255, 255], [255, 255, 255]]


def test_a_ragged_table_is_refused() -> None:
    with pytest.raises(ValueError, match="2 columns"):
        contact_sheet([[torch.zeros(3, 4, 4, dtype=torch.uint8)]], ["a", "b"])


@pytest.mark.parametrize(("size", "side"), [(8, 96), (32, 96), (64, 128)])
def test_heat_maps_have_a_scale_with_both_ends(size: int, side: int) -> None:
    tile = torch.full((3, size, size), 90, dtype=torch.uint8)
    sheet = contact_sheet([[tile, tile]], ["image", HeatColumn("heat", "std 0", "51+")])
    plain = contact_sheet([[tile, tile]], ["image", "heat"])
    more = sheet.height - plain.height
    assert more > 0 and sheet.width == plain.width
    # The other column and all tiles are as without a scale, only lower.
    left = 4 + side + 2
    assert sheet.crop((0, more, left, sheet.height)).tobytes() == plain.crop((0, 0, left, plain.height)).tobytes()
    below = (left, plain.height - side - 4, plain.width, plain.height)
    lower = (left, below[1] + more, plain.width, sheet.height)
    assert sheet.crop(lower).tobytes() == plain.crop(below).tobytes()
    # One row of pixels of the bar has the colours of heat maps, from black to white.
    rows = np.asarray(sheet)[: sheet.height - side - 4, left + 2 : sheet.width - 4].astype(int)
    bars = [row for row in rows if all((abs(row - c).sum(axis=1) < 20).any() for c in ((255, 0, 0), (255, 255, 0)))]
    assert len(bars) >= 6
    reds = bars[3][bars[3][:, 0] > bars[3][:, 2] + 40]  # the colours between black and white
    assert len(reds) > 20 and not reds[0, 1:].any() and (np.diff(reds[:, 1]) >= 0).all()
    # Texts stay above their own column.
    assert all(sheet.getpixel((x, y)) == (255, 255, 255) for x in range(left - 2, left + 2) for y in range(18))


def test_rows_can_have_labels_left_of_their_images() -> None:
    tile = torch.full((3, 8, 8), 90, dtype=torch.uint8)
    rows = [[tile, tile], [tile, tile]]
    plain = contact_sheet(rows, ["a", "b"], tile=32)
    labelled = contact_sheet(rows, ["a", "b"], tile=32, row_labels=["the first row", "second"])
    room = labelled.width - plain.width
    assert labelled.height == plain.height and room > 50
    moved = np.asarray(labelled)[:, room:]
    assert np.array_equal(moved[:, 4:], np.asarray(plain)[:, 4:])  # right of the margin, which a label may touch
    ink = np.asarray(labelled.convert("L"))[:, :room].min(axis=1).tolist()  # of each line of pixels
    first = plain.height - 2 * 36  # two rows of 32 pixels, each with a margin
    assert max(min(ink[first : first + 32]), min(ink[first + 36 : first + 68])) < 128 <= min(ink[:first])
    with pytest.raises(ValueError, match="has 2 rows, but 1 row labels were given"):
        contact_sheet(rows, ["a", "b"], row_labels=["one"])
