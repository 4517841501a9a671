import pytest
import torch
from helpers.models import images, some_known

from condvae.observe import Observation, observe_pixels


def test_y_is_the_known_pixels_and_a_channel_that_marks_them() -> None:
    x, known = images(2), some_known(2)
    observation = observe_pixels(x, known, lambda x: x * 2 + 1)
    assert torch.equal(observation.y[:, :3], (x * 2 + 1) * known)
    assert torch.equal(observation.y[:, 3:], known.float())


def test_values_of_hidden_pixels_do_not_reach_y() -> None:
    x, known = images(2), some_known(2)
    poisoned = torch.where(known, x, torch.nan)
    clean, other = observe_pixels(x, known, lambda x: x + 1), observe_pixels(poisoned, known, lambda x: x + 1)
    assert torch.equal(clean.y, other.y)
    assert clean.pixels is not None
    assert other.pixels is not None
    assert torch.equal(clean.pixels, other.pixels)


def test_pasting_restores_known_pixels_exactly_and_keeps_the_others() -> None:
    x, known = images(2), some_known(2)
    samples = images(6, seed=1)
    pasted = observe_pixels(x, known, lambda x: x).paste(samples, n=3)
    many = known.repeat_interleave(3, 0).expand_as(pasted)
    assert torch.equal(pasted[many], x.repeat_interleave(3, 0)[many])
    assert torch.equal(pasted[~many], samples[~many])
    whole = Observation(y=torch.zeros(2, 1, 8, 8))
    assert whole.paste(samples, n=3) is samples


def test_pasting_into_images_of_another_shape_is_an_error() -> None:
    observation = observe_pixels(images(2), some_known(2), lambda x: x)
    for wrong in (images(1), images(6), images(2, channels=1), images(2)[0]):
        with pytest.raises(ValueError, match="images have shape"):
            observation.paste(wrong)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"y": torch.zeros(4, 8, 8)}, "3 dimensions"),
        ({"y": torch.zeros(1, 4, 8, 8), "known": torch.zeros(1, 8, 8, dtype=torch.bool)}, "known has shape"),
        ({"y": torch.zeros(1, 4, 8, 8), "known": torch.zeros(1, 1, 8, 8)}, "expected bool: True where"),
        ({"y": torch.zeros(1, 4, 8, 8), "pixels": torch.zeros(1, 3, 8, 8)}, "pixels were given without known"),
        (
            {
                "y": torch.zeros(1, 4, 8, 8),
                "known": torch.zeros(1, 1, 8, 8, dtype=torch.bool),
                "pixels": torch.zeros(1, 3, 4, 4),
            },
            "pixels have shape",
        ),
    ],
)
def test_wrong_shapes_and_types_are_errors(arguments: dict[str, torch.Tensor], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Observation(**arguments)
