"""Simple regions of known pixels: their shapes, their shares in closed form, and mixtures."""

import math
from typing import Any

import pytest
import torch
from helpers.models import generator, images
from torch import Tensor

from condvae.observe import Boxes, Freeform, Grey, Halves, KnownPixels, Mixture, Nothing, Patches, Pixels, from_dict
from condvae.observe.batch import Batch

EVERY: list[KnownPixels] = [
    Freeform(),
    Patches(),
    Boxes(),
    Halves(),
    Pixels(),
    Nothing(),
    Mixture(parts=((Boxes(), 1.0), (Halves(), 2.0))),
]


@pytest.mark.parametrize("process", EVERY, ids=lambda process: process.name)
def test_every_process_observes_the_pixels_that_it_draws(process: KnownPixels) -> None:
    known = process.draw(5, 32, generator())
    assert known.shape == (5, 1, 32, 32)
    assert known.dtype == torch.bool
    assert torch.equal(known, process.draw(5, 32, generator()))
    x = images(5, size=32)
    observation = process.observe(Batch(x=x), normalise=lambda x: x * 3, generator=generator())
    assert observation.y.shape == (5, process.channels(3), 32, 32)
    assert torch.equal(observation.y, torch.cat((x * 3 * known, known.float()), dim=1))
    assert observation.known is not None
    assert torch.equal(observation.known, known)


@pytest.mark.parametrize("process", [p for p in EVERY if p.name != "nothing"], ids=lambda process: process.name)
def test_images_of_a_batch_and_batches_differ(process: KnownPixels) -> None:
    going_on = generator()
    first, second = process.draw(32, 16, going_on), process.draw(32, 16, going_on)
    assert not torch.equal(first, second)
    assert len({tuple(known.flatten().tolist()) for known in first}) > 2


def box_sides(known: Tensor) -> tuple[Tensor, Tensor]:
    """Height and width of the box in each of [n, 1, s, s]; assert that there is exactly one full box."""
    rows, columns = known.any(dim=3)[:, 0], known.any(dim=2)[:, 0]
    assert torch.equal(known[:, 0], rows[:, :, None] & columns[:, None, :])
    for line in (rows, columns):
        assert bool((line.int().diff(dim=1).abs().sum(dim=1) + line[:, 0] + line[:, -1] == 2).all())
    return rows.sum(dim=1), columns.sum(dim=1)


def test_patches_have_the_right_distribution_of_numbers_and_places() -> None:
    n, size, side = 20000, 20, 7
    known = Patches(most=1, side=0.35).draw(n, size, generator())
    drawn = known.flatten(1).any(dim=1)
    assert abs(float(drawn.double().mean()) - 0.5) < 4 * 0.5 / math.sqrt(n)
    height, width = box_sides(known[drawn])
    assert int(height.max()) == int(width.max()) == side
    assert int(height.min()) == int(width.min()) == 1
    # For every pixel, 7 of the 26 possible corners in each direction give a patch that covers it.
    for at in ((0, 0), (0, 19), (10, 10), (19, 5)):
        share = float(known[:, 0, *at].double().mean())
        assert abs(share - 0.5 * (side / 26) ** 2) < 0.006
    five = Patches().draw(n, size, generator(1))
    assert abs(float((~five).flatten(1).all(dim=1).double().mean()) - 1 / 6) < 4 * math.sqrt(5 / 36 / n)
    expected = 1 - sum((1 - (side / 26) ** 2) ** k for k in range(6)) / 6
    assert abs(float(five[:, 0, 10, 10].double().mean()) - expected) < 0.01


def test_boxes_lie_inside_with_sides_in_range() -> None:
    n = 8000
    inner = Boxes(hidden=0.0).draw(n, 16, generator())
    for sides in box_sides(inner):
        assert sorted(set(sides.tolist())) == list(range(4, 13))
        assert abs(float(sides.double().mean()) - 8) < 4 * math.sqrt(80 / 12 / n)
    # All places are equally likely, so mirrored pixels are known equally often.
    share = inner[:, 0].double().mean(dim=0)
    assert float((share - share.flip(0)).abs().max()) < 0.03
    assert float((share - share.flip(1)).abs().max()) < 0.03
    assert float(share[0, 0]) > 0
    box_sides(~Boxes(hidden=1.0).draw(500, 16, generator()))
    mixed = Boxes(hidden=0.25).draw(n, 16, generator())
    # A hidden box leaves two opposite corners known; a known box covers at most one of two opposite corners.
    hidden = (mixed[:, 0, 0, 0] & mixed[:, 0, -1, -1]) | (mixed[:, 0, -1, 0] & mixed[:, 0, 0, -1])
    assert abs(float(hidden.double().mean()) - 0.25) < 4 * math.sqrt(0.25 * 0.75 / n)


def test_the_four_halves_are_equally_likely() -> None:
    n, size = 8000, 8
    known = Halves().draw(n, size, generator())
    assert bool((known.sum(dim=(1, 2, 3)) == size**2 // 2).all())
    line = torch.arange(size) < size // 2
    left, top = line.expand(size, size), line[:, None].expand(size, size)
    shares = [float((known[:, 0] == half).all(dim=2).all(dim=1).double().mean()) for half in (left, ~left, top, ~top)]
    assert sum(shares) == 1
    assert all(abs(share - 0.25) < 4 * math.sqrt(0.25 * 0.75 / n) for share in shares)


def test_pixels_are_independent_given_the_share() -> None:
    known = Pixels(least=0.2, most=0.6).draw(4000, 32, generator()).double()
    share = known.mean(dim=(1, 2, 3))
    assert abs(float(share.mean()) - 0.4) < 4 * math.sqrt(0.16 / 12 / 4000)
    assert abs(float(share.std()) - math.sqrt(0.16 / 12)) < 0.01
    assert float(share.min()) > 0.1
    assert float(share.max()) < 0.7
    fixed = Pixels(least=0.3, most=0.3).draw(500, 32, generator()).double()
    neighbours = (fixed[..., 1:] * fixed[..., :-1]).mean()
    assert abs(float(neighbours) - 0.09) < 0.003
    assert Pixels(least=1.0).draw(3, 8, generator()).all()


def test_nothing_has_no_known_pixels() -> None:
    assert not Nothing().draw(3, 8, generator()).any()


def test_a_mixture_draws_each_image_from_one_part() -> None:
    n = 6000
    mixture = Mixture(parts=((Nothing(), 1), (Halves(), 2), (Pixels(least=1.0), 3)))
    shares = mixture.draw(n, 8, generator()).double().mean(dim=(1, 2, 3))
    for value, weight in ((0.0, 1), (0.5, 2), (1.0, 3)):
        p = weight / 6
        which = shares == value
        assert abs(float(which.double().mean()) - p) < 4 * math.sqrt(p * (1 - p) / n)
        # neighbours in the batch choose independently
        assert abs(float((which[1:] & which[:-1]).double().mean()) - p * p) < 0.03
    assert mixture.draw(0, 8, generator()).shape == (0, 1, 8, 8)


def test_a_mixture_on_a_gpu_chooses_the_same_parts() -> None:
    n = 2000
    mixture = Mixture(parts=((Nothing(), 1), (Pixels(least=1.0), 2), (Halves(), 1)))
    position = torch.rand(n, generator=generator())
    known = mixture._select(position, [0.25, 0.75], 8, generator(1)).double().mean(dim=(1, 2, 3))
    expected = torch.tensor([0.0, 1.0, 0.5], dtype=torch.float64)
    assert torch.equal(known, expected[torch.bucketize(position, torch.tensor([0.25, 0.75]), right=True)])
    at_bounds = mixture._select(torch.tensor([0.25, 0.75]), [0.25, 0.75], 8, generator())
    assert at_bounds.double().mean(dim=(1, 2, 3)).tolist() == [1.0, 0.5]


def test_a_mixture_keeps_the_distribution_of_its_parts() -> None:
    mixture = Mixture(parts=((Freeform(low=0.2, high=0.4), 1), (Freeform(low=0.6, high=0.8), 1)))
    hidden = 1 - mixture.draw(60, 32, generator()).double().mean(dim=(1, 2, 3))
    few, many = (hidden > 0.2) & (hidden < 0.4), (hidden > 0.6) & (hidden < 0.8)
    assert bool((few | many).all())
    assert 10 < int(few.sum()) < 50


@pytest.mark.parametrize("process", EVERY, ids=lambda process: process.name)
def test_plain_data_can_be_read_back(process: KnownPixels) -> None:
    assert from_dict(process.to_dict()) == process


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Patches(most=-1), "most is -1"),
        (lambda: Patches(side=0), "side is 0"),
        (lambda: Patches(side=1.5), r"side is 1.5"),
        (lambda: Boxes(least=0.8), "from least=0.8 to largest=0.75"),
        (lambda: Boxes(hidden=2), "hidden is 2"),
        (lambda: Pixels(least=0.6, most=0.5), "from least=0.6 to most=0.5"),
        (lambda: Mixture(parts=((Halves(), 1),)), "number of processes in the mixture is 1,"),
        (lambda: Mixture(parts=((Halves(), 1), (Boxes(), 0))), "the weight of boxes is 0"),
        (lambda: Mixture(parts=((Halves(), 1), (Boxes(), -1))), "the weight of boxes is -1"),
        (lambda: Mixture(parts=((Halves(), 1), (Grey(), 1))), r"contains Grey\(\)"),  # type: ignore[arg-type]
        (lambda: Mixture(parts=((Halves(), 1), (EVERY[-1], 1))), "contains Mixture"),
    ],
)
def test_wrong_parameters_are_errors(make: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()


def test_the_number_of_patches_is_bounded() -> None:
    """A model file with a billion patches made --random fill the memory."""
    with pytest.raises(ValueError, match="most is 1,000,000,000 patches, expected at most 10,000"):
        Patches(most=10**9)
