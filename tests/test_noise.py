import math

import numpy as np
import pytest
import torch
from scipy import stats

from condvae import noise as noise_module
from condvae.noise import DeviceSeeds, GeneratorNoise, GivenNoise, SeededNoise, as_noise, philox_words

CPU = torch.device("cpu")


@pytest.mark.parametrize(
    ("counter", "key", "words"),
    [
        ([0] * 4, [0] * 2, [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]),
        ([0xFFFFFFFF] * 4, [0xFFFFFFFF] * 2, [0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD]),
        (
            [0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344],
            [0xA4093822, 0x299F31D0],
            [0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1],
        ),
    ],
)
def test_philox_gives_the_known_answers_of_random123(counter: list[int], key: list[int], words: list[int]) -> None:
    index, seed = (np.array([low | high << 32], dtype=np.uint64) for low, high in (counter[:2], key))
    made = philox_words(index, counter[2] | counter[3] << 32, seed)
    assert [int(word[0]) for word in made] == words


def test_number_j_comes_from_word_j_mod_4_of_block_j_div_4() -> None:
    seed, stream = 2**40 + 3, 2**32 + 1
    words = philox_words(np.arange(3, dtype=np.uint64), stream, np.array([seed], dtype=np.uint64))
    in_order = np.stack(words, axis=1).flatten().tolist()[:10]
    noise = SeededNoise([seed])
    assert noise.uniform(stream, (1, 5, 2), CPU).flatten().tolist() == [(word >> 8) / 2**24 for word in in_order]
    expected = []
    for word, following in zip(in_order[::2], in_order[1::2], strict=True):
        radius, angle = math.sqrt(-2 * math.log((word + 0.5) / 2**32)), 2 * math.pi * following / 2**32
        expected += [radius * math.cos(angle), radius * math.sin(angle)]
    torch.testing.assert_close(
        noise.normal(stream, (1, 5, 2), CPU).flatten(), torch.tensor(expected), atol=2e-6, rtol=0
    )


def test_the_first_and_the_last_word_make_finite_normals() -> None:
    words = [np.array([word], dtype=np.uint64) for word in (0, 0, 2**32 - 1, 2**32 - 1)]
    out = np.empty((1, 4), dtype=np.float32)
    noise_module._normal(tuple(words), out)
    assert np.isfinite(out).all()
    assert out[0, 0] == pytest.approx(math.sqrt(66 * math.log(2)))  # the largest possible value: 6.76


def test_the_chunk_size_does_not_change_the_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    noise = SeededNoise([1, 2, 3])
    whole = [make(4, (3, 7, 3, 5), CPU) for make in (noise.normal, noise.uniform)]
    for chunk in (1, 2, 27, 50):
        monkeypatch.setattr(noise_module, "_CHUNK", chunk)
        pieces = [make(4, (3, 7, 3, 5), CPU) for make in (noise.normal, noise.uniform)]
        for a, b in zip(whole, pieces, strict=True):
            torch.testing.assert_close(a, b, atol=1e-6, rtol=0)


def test_numbers_have_the_normal_and_the_uniform_distribution() -> None:
    noise = SeededNoise([0, 1, 2**64 - 1])
    normal = noise.normal(7, (3, 100_000), CPU).double().numpy()
    for row in normal:
        assert stats.kstest(row, "norm").pvalue > 0.01
    n = normal.size
    assert abs(normal.mean()) < 4 / math.sqrt(n)
    assert abs(normal.var() - 1) < 4 * math.sqrt(2 / n)
    assert abs(stats.skew(normal, axis=None)) < 4 * math.sqrt(6 / n)
    assert abs(stats.kurtosis(normal, axis=None)) < 4 * math.sqrt(24 / n)
    for row in noise.uniform(7, (3, 100_000), CPU).double().numpy():
        assert stats.kstest(row, "uniform").pvalue > 0.01


def test_neighbours_streams_and_seeds_do_not_correlate() -> None:
    n = 100_000
    noise = SeededNoise([0, 1, 2, 2**32])
    rows = torch.cat([make(stream, (4, n), CPU) for stream in (0, 1, 2**32) for make in (noise.normal, noise.uniform)])
    # Squares are tested too, because Box-Muller pairs share a radius. Uniform and normal numbers are not compared with
    # each other, because they come from the same words.
    for values in (rows, rows.square()):
        for kind in (0, 1):
            of_kind = values.reshape(3, 2, 4, n)[:, kind].reshape(12, n)
            assert (torch.corrcoef(of_kind) - torch.eye(12)).abs().max() < 5 / math.sqrt(n)
        for lag in (1, 2, 3, 4, 8):
            for row in values:
                neighbours = torch.stack((row[lag:], row[:-lag]))
                assert torch.corrcoef(neighbours)[0, 1].abs() < 5 / math.sqrt(n)


def test_seeds_on_a_device_have_the_same_bits_and_are_kept() -> None:
    noise = SeededNoise([3, 2**63, 2**64 - 1])
    seeds = noise.on(CPU)
    assert seeds.dtype == torch.int64 and seeds.tolist() == [3, -(2**63), -1]
    assert noise.on(CPU) is seeds
    on_device = DeviceSeeds(seeds.clone())
    assert as_noise(on_device) is on_device
    for stream in (0, 2**32):
        assert torch.equal(on_device.normal(stream, (3, 2, 5), CPU), noise.normal(stream, (3, 2, 5), CPU))
        assert torch.equal(on_device.uniform(stream, (3, 2, 5), CPU), noise.uniform(stream, (3, 2, 5), CPU))
    on_device.seeds.copy_(torch.tensor([4, 5, 6]))
    assert torch.equal(on_device.normal(1, (3, 9), CPU), SeededNoise([4, 5, 6]).normal(1, (3, 9), CPU))


def test_the_numbers_of_a_sample_do_not_depend_on_its_batch() -> None:
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


def test_the_type_of_the_argument_sets_the_kind_of_noise() -> None:
    assert isinstance(as_noise(torch.Generator()), GeneratorNoise)
    assert isinstance(as_noise([1, 2]), SeededNoise)
    assert isinstance(as_noise([torch.zeros(1)]), GivenNoise)
    given = GivenNoise([])
    assert as_noise(given) is given
    assert isinstance(as_noise([np.int64(3)]), SeededNoise)  # type: ignore[arg-type]
    for wrong in ([1, torch.zeros(1)], [True], 0, torch.tensor([1, 2]), None):
        with pytest.raises(ValueError, match="seeds or a list of tensors"):
            as_noise(wrong)  # type: ignore[arg-type]


def test_large_seeds_give_different_numbers() -> None:
    u = SeededNoise([2**63, 2**63 + 1, 2**64 - 2, 2**64 - 1]).uniform(2**32 + 1, (4, 8), CPU)
    assert len({tuple(row) for row in u.tolist()}) == 4


def test_wrong_seeds_and_noise_are_errors() -> None:
    with pytest.raises(ValueError, match="the number of seeds is 2 but the batch size is 3"):
        SeededNoise([0, 1]).normal(0, (3, 1), CPU)
    with pytest.raises(ValueError, match="whole numbers from 0"):
        SeededNoise([-1])
    with pytest.raises(ValueError, match="the number of seeds is 2 but the batch size is 3"):
        DeviceSeeds(torch.tensor([0, 1])).normal(0, (3, 1), CPU)
    with pytest.raises(ValueError, match=r"expected torch\.int64 of shape \[n\]"):
        DeviceSeeds(torch.zeros(2))
    with pytest.raises(ValueError, match="random number stream is -1"):
        SeededNoise([0]).normal(-1, (1, 1), CPU)
    with pytest.raises(ValueError, match="shape"):
        GivenNoise([torch.zeros(1, 2)]).normal(0, (1, 3), CPU)
    with pytest.raises(ValueError, match="noise was given for 1 latent group, but the model has at least 2"):
        GivenNoise([torch.zeros(1, 2)]).normal(1, (1, 2), CPU)
    with pytest.raises(ValueError, match="latents only"):
        GivenNoise([]).uniform(0, (1, 3), CPU)
