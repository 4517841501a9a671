"""Every place in a run has its own random numbers, whoever draws them."""

import torch

from condvae.runtime.seeds import Seeds


def test_neighbours_and_purposes_differ_even_in_the_32_bits_that_the_cpu_uses() -> None:
    rows = [Seeds(0, "training"), Seeds(1, "training"), Seeds(0, "evaluation")]
    low = [row(number) & 0xFFFFFFFF for row in rows for number in range(2000)]
    assert len(set(low)) == len(low)


def test_a_place_gives_the_same_numbers_again() -> None:
    def draw(number: int) -> torch.Tensor:
        return torch.randn(8, generator=Seeds(3, "training").generator(number))

    torch.testing.assert_close(draw(7), draw(7), rtol=0, atol=0)
    assert not torch.equal(draw(7), draw(8))


def test_seeds_stay_within_64_bits_at_the_end_of_the_row() -> None:
    seeds = Seeds(2**40, "training")
    assert all(0 <= seeds(number) < 2**64 for number in (0, 2**32 - 1, 2**32, 2**40))
    assert seeds(0) == seeds(2**32)  # the row is a circle of 2**32 places
