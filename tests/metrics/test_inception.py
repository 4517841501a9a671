import json
import math
import os

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from helpers.fixtures import FIXTURES
from helpers.lpips_networks import real_file
from helpers.models import images
from torch import Tensor

from condvae.data import open_data
from condvae.metrics import Inception, Moments, frechet_distance, inception
from condvae.metrics import network_files as networks
from condvae.metrics.inception import NETWORK, Conv, Fork, Pool, Steps, resized
from condvae.runtime.pixels import to_uint8

DATA = FIXTURES


def random_weights() -> dict[str, Tensor]:
    """Random weights with the real names and shapes, scaled so that activations keep their magnitude."""
    generator = torch.Generator().manual_seed(0)
    weights: dict[str, Tensor] = {}

    def add(steps: Steps, channels: int) -> int:
        for step in steps:
            if isinstance(step, Conv):
                shape = (step.channels, channels, *step.kernel)
                spread = math.sqrt(2 / math.prod(shape[1:]))
                weights[f"{step.name}.weight"] = torch.randn(shape, generator=generator) * spread
                for kind in ("beta", "mean"):
                    weights[f"{step.name}.{kind}"] = torch.randn(step.channels, generator=generator) / 4
                weights[f"{step.name}.var"] = torch.rand(step.channels, generator=generator) + 0.5
                channels = step.channels
            elif isinstance(step, Fork):
                channels = sum(add(branch, channels) for branch in step.branches)
        return channels

    assert add(NETWORK, 3) == 2048
    return weights


@pytest.fixture(scope="module")
def weights() -> dict[str, Tensor]:
    return random_weights()


@pytest.fixture(scope="module")
def network(weights: dict[str, Tensor]) -> Inception:
    return Inception(weights)


def plain(weights: dict[str, Tensor], steps: Steps, x: Tensor) -> Tensor:
    """A plain float64 implementation: convolution, batch normalisation, ReLU; average pooling divides by the count."""
    for step in steps:
        if isinstance(step, Conv):
            kernel, beta, mean, var = (
                weights[f"{step.name}.{kind}"].double() for kind in ("weight", "beta", "mean", "var")
            )
            padding = tuple(side // 2 for side in step.kernel) if step.padded else (0, 0)
            x = F.conv2d(x, kernel, stride=step.stride, padding=padding)
            x = F.batch_norm(x, mean, var, bias=beta, eps=1e-3).clamp_min(0)
        elif isinstance(step, Fork):
            x = torch.cat([plain(weights, branch, x) for branch in step.branches], dim=1)
        elif step is Pool.AVERAGE:
            x = F.avg_pool2d(x, 3, 1, 1) / F.avg_pool2d(torch.ones_like(x), 3, 1, 1)
        elif step is Pool.MAXIMUM:
            x = F.max_pool2d(F.pad(x, (1, 1, 1, 1)), 3, 1)  # padding with 0 is right: activations are >= 0
        else:
            x = F.max_pool2d(x, 3, 2)
    return x


def test_features_equal_those_of_the_unfolded_network(network: Inception, weights: dict[str, Tensor]) -> None:
    x = to_uint8(images(1, size=32))
    expected = plain(weights, NETWORK, (resized(x.double()) - 128) / 128).mean(dim=(2, 3))
    found = network.features(x)
    assert found.shape == (1, 2048) and found.dtype == torch.float32
    torch.testing.assert_close(found.double(), expected, rtol=1e-4, atol=1e-5 * float(expected.abs().max()))


def test_average_pooling_ignores_padding_and_the_last_block_has_none(network: Inception) -> None:
    ones = torch.ones(1, 2, 5, 5)
    assert torch.equal(network._run([Pool.AVERAGE], ones), ones)
    pools = [branch[0] for step in NETWORK if isinstance(step, Fork) for branch in step.branches]
    assert [step for step in pools if isinstance(step, Pool)] == [
        *(3 * [Pool.AVERAGE] + [Pool.HALVE]),
        *(4 * [Pool.AVERAGE] + [Pool.HALVE]),
        *(Pool.AVERAGE, Pool.MAXIMUM),
    ]


@pytest.mark.parametrize(("height", "width"), [(32, 32), (8, 50), (299, 299), (400, 350)])
def test_resizing_starts_at_the_first_pixel(height: int, width: int) -> None:
    ramp = torch.arange(height)[:, None] + 1000 * torch.arange(width)
    places = torch.arange(299, dtype=torch.float64) / 299
    rows, columns = (places * height).clamp(max=height - 1), (places * width).clamp(max=width - 1)
    expected = rows[:, None] + 1000 * columns
    found = resized(ramp.double()[None, None].expand(2, 3, -1, -1))
    torch.testing.assert_close(found, expected.expand(2, 3, -1, -1), rtol=1e-9, atol=1e-6)


def test_chunks_dtypes_and_grey_do_not_change_features(network: Inception, monkeypatch: pytest.MonkeyPatch) -> None:
    x = images(3, size=16)[:, :1]
    levels = to_uint8(x)
    whole = network.features(levels)
    torch.testing.assert_close(network.features(levels.expand(-1, 3, -1, -1).float() / 127.5 - 1), whole)
    monkeypatch.setattr(inception, "_IMAGES_AT_ONCE", {"cpu": 2})
    torch.testing.assert_close(network.features(levels), whole)
    assert network.features(levels[:0]).shape == (0, 2048)


def test_invalid_images_and_weights_are_rejected(network: Inception, weights: dict[str, Tensor]) -> None:
    for bad, message in (
        (torch.zeros(1, 3, 7, 32), "7 x 32 pixels, but Inception needs at least 8 x 8"),
        (torch.zeros(3, 32, 32), "expected \\[B, 3 or 1, H, W\\]"),
        (torch.zeros(1, 3, 32, 32, dtype=torch.int64), "uint8 or floats"),
        (torch.full((1, 3, 32, 32), 255.0), "expected \\[-1, 1\\]"),
    ):
        with pytest.raises(ValueError, match=message):
            network.features(bad)
    with pytest.raises(ValueError, match=r"weights are not those of Inception, .* missing or unknown: conv\.gamma"):
        Inception({**weights, "conv.gamma": weights["conv.beta"]})
    with pytest.raises(ValueError, match="precision is 'half'"):
        Inception(weights, precision="half")  # type: ignore[arg-type]


def real_images(count: int) -> Tensor:
    with np.load(DATA / "cifar10_test16.npz") as file:
        return torch.from_numpy(file["images"][:count]).permute(0, 3, 1, 2)


def test_real_features_equal_those_of_the_release() -> None:
    features = Inception.load(real_file(networks.INCEPTION)).features(real_images(2)).double()
    found = torch.stack([features.mean(1), features.std(1, correction=0), features.norm(dim=1)], dim=1)
    expected = json.loads((DATA / "inception_expected.json").read_text())["checksums"]
    torch.testing.assert_close(found, torch.tensor(expected, dtype=torch.float64), rtol=1e-4, atol=0)


def test_half_precision_is_close(monkeypatch: pytest.MonkeyPatch) -> None:
    # On a CPU half precision is not faster, but the arithmetic is the same.
    file = real_file(networks.INCEPTION)
    exact = Inception.load(file).features(real_images(2))
    torch.testing.assert_close(Inception.load(file, precision="fast").features(real_images(1)), exact[:1])
    monkeypatch.setattr(inception, "_HALF_ON", {"cpu", "cuda"})
    fast = Inception.load(file, precision="fast").features(real_images(2))
    assert fast.dtype == torch.float32
    error = (fast - exact).norm(dim=1) / exact.norm(dim=1)
    assert float(error.min()) > 1e-5 and float(error.max()) < 0.01
    assert abs(float(fast.mean() / exact.mean()) - 1) < 1e-3


@pytest.mark.skipif("CONDVAE_SLOW" not in os.environ, reason="minutes on a CPU: set CONDVAE_SLOW=1 to run it")
def test_the_reference_fids_of_a_thousand_images() -> None:
    network = Inception.load(real_file(networks.INCEPTION))
    try:
        test = open_data("cifar10").test
    except ValueError as error:
        pytest.skip(str(error))
    expected = json.loads((DATA / "inception_expected.json").read_text())
    first, second = (test.take(np.arange(start, start + 1000)).images for start in (0, 1000))
    levels = second.permute(0, 2, 3, 1).numpy().astype(int)  # the noise is drawn with channels last
    noise = np.random.RandomState(0).randint(-20, 21, levels.shape)
    noisy = torch.from_numpy((levels + noise).clip(0, 255).astype(np.uint8)).permute(0, 3, 1, 2).contiguous()
    real = Moments.of(network.features(first))
    for others, name in ((second, "1000to1999"), (noisy, "noisy_1000to1999")):
        found = frechet_distance(real, Moments.of(network.features(others)))
        assert found == pytest.approx(expected[f"fid_test_0to999_vs_{name}"], rel=1e-3)
