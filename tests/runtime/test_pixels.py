import numpy as np
import pytest
import torch

from condvae.runtime.pixels import check_images, from_uint8, to_uint8


def test_grey_levels_survive_the_round_trip() -> None:
    levels = torch.arange(256, dtype=torch.uint8)
    x = from_uint8(levels)
    assert (float(x.min()), float(x.max())) == (-1, 1)
    assert torch.equal(to_uint8(x), levels)


@pytest.mark.parametrize(
    ("x", "message"),
    [
        (torch.zeros(3, 8, 8), "3 dimensions"),
        (torch.zeros(1, 1, 8, 8), "1 channel, expected .*3, 8, 8"),
        (torch.zeros(1, 3, 8, 4), "not square"),
        (torch.zeros(1, 3, 16, 16), "16 x 16 pixels, expected"),
        (torch.zeros(1, 3, 8, 8, dtype=torch.uint8), "from_uint8"),
        (torch.zeros(1, 3, 8, 8, dtype=torch.bfloat16), "bfloat16, expected float32"),
        (torch.zeros(0, 3, 8, 8), "empty batch"),
        (np.zeros((1, 3, 8, 8), dtype=np.float32), "ndarray, expected a torch tensor"),
        (torch.full((1, 3, 8, 8), float("nan")), "NaN"),
        (torch.full((1, 3, 8, 8), float("inf")), "infinite"),
        (torch.full((1, 3, 8, 8), 255.0), r"255, expected \[-1, 1\]"),
        (torch.full((1, 3, 8, 8), -1.1), r"expected \[-1, 1\]"),
    ],
)
def test_wrong_images_are_errors_that_name_what_was_expected(x: torch.Tensor, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        check_images(x, channels=3, size=8)


def test_the_check_of_values_can_be_turned_off() -> None:
    check_images(torch.full((1, 3, 8, 8), float("nan")), channels=3, size=8, values=False)


def test_only_uint8_counts_as_grey_levels() -> None:
    for wrong in (torch.zeros(1), np.zeros(1, dtype=np.uint8)):
        with pytest.raises(ValueError, match="expected a uint8 tensor"):
            from_uint8(wrong)  # type: ignore[arg-type]
