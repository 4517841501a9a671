from collections.abc import Sequence

import numpy as np
import pytest
import torch
from torch import Tensor

from condvae import kernels
from condvae.noise import PIXEL_VALUE_STREAM, DeviceSeeds, Distribution, SeededNoise

pytest.importorskip("triton")
from condvae.kernels import philox

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
CPU = torch.device("cpu")


@pytest.mark.parametrize("shape", [(4, 5, 3, 3), (4, 1, 1, 1), (4, 2, 20, 40)])
@pytest.mark.parametrize("stream", [0, 3, 2**31, PIXEL_VALUE_STREAM, 2**64 - 1])
@pytest.mark.parametrize("kind", ["normal", "uniform"])
def test_the_kernel_makes_the_numbers_of_the_cpu(kind: Distribution, stream: int, shape: tuple[int, ...]) -> None:
    noise = SeededNoise([0, 7, 2**63 + 1, 2**64 - 1])
    made = philox.numbers(kind, noise.on(DEVICE), stream, shape)
    expected = (noise.normal if kind == "normal" else noise.uniform)(stream, shape, CPU)
    assert made.dtype == torch.float32 and made.shape == shape
    if kind == "uniform":
        assert torch.equal(made.cpu(), expected)
    else:
        torch.testing.assert_close(made.cpu(), expected, atol=3e-6, rtol=1e-6)


def test_seeds_of_any_stride_and_none_at_all() -> None:
    seeds = torch.tensor([1, -1, 2, -1], device=DEVICE)[::2]
    made = philox.numbers("normal", seeds, 5, (2, 3))
    torch.testing.assert_close(made.cpu(), SeededNoise([1, 2]).normal(5, (2, 3), CPU), atol=3e-6, rtol=1e-6)
    assert philox.numbers("normal", seeds[:0], 5, (0, 3)).shape == (0, 3)


def test_seeded_noise_uses_the_kernel_where_it_can_run(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = SeededNoise([4, 5]).normal(1, (2, 6), CPU)
    asked: list[Distribution] = []
    make = philox.numbers

    def numbers(kind: Distribution, seeds: Tensor, stream: int, shape: Sequence[int]) -> Tensor:
        asked.append(kind)
        return make(kind, seeds, stream, shape)

    monkeypatch.setattr(kernels, "available", lambda device: device.type == DEVICE.type)
    monkeypatch.setattr(philox, "numbers", numbers)
    noise = SeededNoise([4, 5])
    for source in (noise, DeviceSeeds(noise.on(DEVICE))):
        torch.testing.assert_close(source.normal(1, (2, 6), DEVICE).cpu(), expected, atol=3e-6, rtol=1e-6)
        assert source.uniform(1, (2, 6), DEVICE).shape == (2, 6)
    assert asked == ["normal", "uniform"] * 2


@pytest.mark.skipif(not torch.cuda.is_available(), reason="CUDA graphs need a GPU")
def test_a_captured_graph_follows_the_seeds() -> None:
    seeds = SeededNoise([1, 2]).on(DEVICE).clone()
    noise = DeviceSeeds(seeds)
    noise.normal(3, (2, 50), DEVICE)  # compile the kernel before the capture
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        made = noise.normal(3, (2, 50), DEVICE)
    other = SeededNoise([8, 9])
    seeds.copy_(other.on(DEVICE))
    graph.replay()
    assert torch.equal(made, other.normal(3, (2, 50), DEVICE))


def test_halves_of_a_stream_keep_its_bits() -> None:
    for stream in (0, 1, 2**31, 2**32 + 1, 2**63, 2**64 - 1):
        low, high = np.array(philox.halves(stream), dtype=np.int32).view(np.uint32).tolist()
        assert low | high << 32 == stream
