import numpy as np
import pytest
import torch

from condvae.noise import GeneratorNoise, GivenNoise, SeededNoise, as_noise

CPU = torch.device("cpu")


def test_a_sample_keeps_its_numbers_whatever_stands_beside_it() -> None:
    together = SeededNoise([5, 6, 7]).normal(2, (3, 4, 2), CPU)
    alone = SeededNoise([6]).normal(2, (1, 4, 2), CPU)
    assert torch.equal(together[1:2], alone)


def test_streams_and_seeds_are_independent_of_each_other_and_of_order() -> None:
    noise = SeededNoise([0, 1])
    second = noise.normal(1, (2, 50_000), CPU)
    first = noise.normal(0, (2, 50_000), CPU)
    again = SeededNoise([0, 1]).normal(1, (2, 50_000), CPU)
    assert torch.equal(second, again)
    correlation = torch.corrcoef(torch.cat((first, second)))
    assert (correlation - torch.eye(4)).abs().max() < 0.02
    assert (torch.cat((first, second)).std(dim=1) - 1).abs().max() < 0.02


def test_uniform_numbers_fill_the_unit_interval() -> None:
    u = SeededNoise([3]).uniform(0, (1, 100_000), CPU)
    assert 0 <= u.min() < 1e-3
    assert 1 - 1e-3 < u.max() < 1
    assert abs(float(u.mean()) - 0.5) < 0.01


def test_the_kind_of_noise_follows_from_what_is_given() -> None:
    assert isinstance(as_noise(torch.Generator()), GeneratorNoise)
    assert isinstance(as_noise([1, 2]), SeededNoise)
    assert isinstance(as_noise([torch.zeros(1)]), GivenNoise)
    given = GivenNoise([])
    assert as_noise(given) is given
    assert isinstance(as_noise([np.int64(3)]), SeededNoise)  # type: ignore[arg-type]
    for wrong in ([1, torch.zeros(1)], [True], 0, torch.tensor([1, 2]), None):
        with pytest.raises(ValueError, match="seeds or a list of tensors"):
            as_noise(wrong)  # type: ignore[arg-type]


def test_large_seeds_are_told_apart() -> None:
    u = SeededNoise([2**63, 2**63 + 1, 2**64 - 2, 2**64 - 1]).uniform(2**32 + 1, (4, 8), CPU)
    assert len({tuple(row) for row in u.tolist()}) == 4


def test_misfits_are_explained() -> None:
    with pytest.raises(ValueError, match="2 seeds were given for a batch of 3"):
        SeededNoise([0, 1]).normal(0, (3, 1), CPU)
    with pytest.raises(ValueError, match="whole numbers from 0"):
        SeededNoise([-1])
    with pytest.raises(ValueError, match="shape"):
        GivenNoise([torch.zeros(1, 2)]).normal(0, (1, 3), CPU)
    with pytest.raises(ValueError, match="group 2 needs some"):
        GivenNoise([torch.zeros(1, 2)]).normal(1, (1, 2), CPU)
    with pytest.raises(ValueError, match="latents only"):
        GivenNoise([]).uniform(0, (1, 3), CPU)
