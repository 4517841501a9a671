"""Every position in a run has its own random numbers, which do not depend on the process that draws them."""

import torch

from condvae.runtime.seeds import Seeds


def test_seeds_differ_in_the_32_bits_that_the_cpu_generator_uses() -> None:
    rows = [Seeds(0, "training"), Seeds(1, "training"), Seeds(0, "evaluation")]
    low = [row(number) & 0xFFFFFFFF for row in rows for number in range(2000)]
    assert len(set(low)) == len(low)


def test_the_same_position_gives_the_same_numbers() -> None:
    def draw(number: int) -> torch.Tensor:
        return torch.randn(8, generator=Seeds(3, "training").generator(number))

    torch.testing.assert_close(draw(7), draw(7), rtol=0, atol=0)
    assert not torch.equal(draw(7), draw(8))


def test_seeds_stay_within_64_bits_and_repeat_after_2_to_the_32() -> None:
    seeds = Seeds(2**40, "training")
    assert all(0 <= seeds(number) < 2**64 for number in (0, 2**32 - 1, 2**32, 2**40))
    assert seeds(0) == seeds(2**32)  # the sequence has a period of 2**32
