import pytest
import torch

from condvae.images.contact_sheet import contact_sheet, heat_map, to_pil


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
