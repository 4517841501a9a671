import io
import json
import zipfile

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from helpers.fixtures import FIXTURES
from helpers.lpips_networks import VGG_HEADS, VGG_WIDTHS, random_lpips, random_weights, real_lpips_file
from helpers.models import images
from PIL import Image
from torch import Tensor

from condvae.metrics import LPIPS
from condvae.metrics.metric_names import Trunk
from condvae.runtime.pixels import to_uint8

DATA = FIXTURES


LAYERS: dict[str, list[tuple[int, int, int, int, bool]]] = {
    # layer, stride, padding, kernel size of the pooling before it, whether the distance uses it
    "alex": [(0, 4, 2, 0, True), (3, 1, 2, 3, True), (6, 1, 1, 3, True), (8, 1, 1, 0, True), (10, 1, 1, 0, True)],
    "vgg": [(layer, 1, 1, 2 if layer in (5, 10, 17, 24) else 0, layer in VGG_HEADS) for layer in VGG_WIDTHS],
}


def plain_lpips(trunk: Trunk, weights: dict[str, Tensor], a: Tensor, b: Tensor) -> Tensor:
    """The definition: per layer, the mean over positions of weighted squared differences of unit vectors."""
    total = torch.zeros(len(a), dtype=torch.float64)
    shift, scale = torch.tensor([-0.030, -0.088, -0.188]), torch.tensor([0.458, 0.448, 0.450])
    a, b = (((x - shift[:, None, None]) / scale[:, None, None]).double() for x in (a, b))
    heads = 0
    for layer, stride, padding, pool, head in LAYERS[trunk]:
        found = []
        for x in (a, b):
            x = F.max_pool2d(x, pool, 2) if pool else x
            kernel, bias = weights[f"features.{layer}.weight"].double(), weights[f"features.{layer}.bias"].double()
            found.append(F.conv2d(x, kernel, bias, stride=stride, padding=padding).clamp_min(0))
        a, b = found
        if head:
            difference = F.normalize(a, dim=1) - F.normalize(b, dim=1)
            total += torch.einsum("bchw,c->bhw", difference**2, weights[f"lin{heads}"].double()).mean(dim=(1, 2))
            heads += 1
    return total


@pytest.mark.parametrize(
    ("trunk", "height", "width"),
    [
        ("alex", 31, 31),
        ("alex", 32, 32),
        ("alex", 64, 64),
        ("alex", 33, 100),
        ("vgg", 16, 16),
        ("vgg", 32, 32),
        ("vgg", 17, 40),
    ],
)
def test_lpips_equals_its_definition(trunk: Trunk, height: int, width: int) -> None:
    a, b = (images(2, size=100, seed=seed)[..., :height, :width] for seed in (0, 1))
    expected = plain_lpips(trunk, random_weights(trunk=trunk), a, b)
    torch.testing.assert_close(random_lpips(trunk=trunk)(a, b).double(), expected, rtol=1e-5, atol=0)


def test_lpips_is_a_distance_between_images_of_any_shape() -> None:
    lpips = random_lpips()
    a, b = images(2, size=48)[..., :40], images(2, size=48, seed=1)[..., :40]
    assert float(lpips(a, a).max()) == 0
    assert float(lpips(a, b).min()) > 1e-3
    torch.testing.assert_close(lpips(a, b), lpips(b, a), rtol=0, atol=0)
    nearer = a + 0.1 * (b - a)
    assert (lpips(a, nearer) < lpips(a, b)).all()
    assert lpips(a[:0], b[:0]).shape == (0,)


def test_dtypes_and_grey_images_do_not_change_distances() -> None:
    lpips = random_lpips()
    a, b = images(2, size=32), images(2, size=32, seed=1)
    torch.testing.assert_close(lpips(to_uint8(a), to_uint8(b)), lpips(a, b))
    grey = images(2, size=32, channels=1)
    torch.testing.assert_close(lpips(grey, b[:, :1]), lpips(grey.expand(-1, 3, -1, -1), b[:, :1].expand(-1, 3, -1, -1)))


def test_chunks_do_not_change_distances(monkeypatch: pytest.MonkeyPatch) -> None:
    lpips = random_lpips()
    a, b = images(7, size=32), images(7, size=32, seed=1)
    whole = lpips(a, b)
    monkeypatch.setattr("condvae.metrics.lpips._PIXELS_AT_ONCE", {"cpu": 2 * 32 * 32, "cuda": 2 * 32 * 32})
    torch.testing.assert_close(lpips(a, b), whole)


def test_invalid_images_are_rejected() -> None:
    lpips = random_lpips()
    a = images(2, size=32)
    for bad, message in (
        (images(2, size=30), "30 x 30 pixels, but LPIPS needs at least 31 x 31"),
        (a[0], "expected"),
        (torch.zeros(2, 2, 32, 32), "3 or 1"),
        (torch.zeros(2, 3, 32, 32, dtype=torch.int64), "uint8 or floats"),
        (a * 127, "expected \\[-1, 1\\]"),
    ):
        with pytest.raises(ValueError, match=message):
            lpips.features(bad)
    with pytest.raises(ValueError, match="pairs of the same shape"):
        lpips(a, a[:1])


def test_invalid_weights_are_rejected() -> None:
    weights = random_weights()
    with pytest.raises(ValueError, match="negative"):
        LPIPS({**weights, "lin2": weights["lin2"] - 1})
    with pytest.raises(ValueError, match=r"lin5"):
        LPIPS({**weights, "lin5": weights["lin4"]})
    with pytest.raises(ValueError, match=r"weights are not those of LPIPS on vgg, .* missing or unknown: features\.12"):
        LPIPS(weights, trunk="vgg")
    with pytest.raises(ValueError, match="expected 'alex' or 'vgg'"):
        LPIPS(weights, trunk="squeeze")  # type: ignore[arg-type]
    del weights["features.8.bias"]
    with pytest.raises(ValueError, match=r"features\.8\.bias"):
        LPIPS(weights)


def test_the_callers_half_precision_does_not_change_distances() -> None:
    lpips = random_lpips()
    a, b = images(2, size=32), images(2, size=32, seed=1)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        inside = lpips(a, b)
    torch.testing.assert_close(inside, lpips(a, b), rtol=0, atol=0)


def test_pooled_features_are_those_after_the_first_three_poolings_of_vgg() -> None:
    weights = random_weights(trunk="vgg")
    network = LPIPS(weights, trunk="vgg")
    x = torch.rand(2, 3, 24, 16, generator=torch.Generator().manual_seed(0)).requires_grad_()
    found = network.pooled_features(x)
    assert [tuple(feature.shape) for feature in found] == [(2, 64, 12, 8), (2, 128, 6, 4), (2, 256, 3, 2)]
    y, expected = x, []  # as it is, without the normalisation of LPIPS
    for layer in VGG_WIDTHS:
        y = F.conv2d(y, weights[f"features.{layer}.weight"], weights[f"features.{layer}.bias"], padding=1).clamp_min(0)
        if layer in VGG_HEADS:
            y = y.unfold(2, 2, 2).unfold(3, 2, 2).amax(dim=(4, 5))
            expected.append(y)
        if len(expected) == 3:
            break
    for mine, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-4, atol=1e-5)
    # Gradients pass to the image, and not to the weights.
    mine, theirs = (torch.autograd.grad([one.sum() for one in all_three], x)[0] for all_three in (found, expected))
    torch.testing.assert_close(mine, theirs, rtol=1e-3, atol=1e-3)
    assert bool(mine.any())
    assert not any(parameter.requires_grad for parameter in network.parameters())


@pytest.mark.parametrize("trunk", ["alex", "vgg"])
def test_distances_of_real_images_match_the_reference(trunk: Trunk) -> None:
    lpips = LPIPS.load(real_lpips_file(trunk), trunk=trunk)
    expected = json.loads((DATA / "lpips_expected.json").read_text())
    with zipfile.ZipFile(DATA / "lpips_faces.zip") as pack:
        faces = np.stack([np.asarray(Image.open(io.BytesIO(pack.read(name)))) for name in expected["names"]])
    with np.load(DATA / "cifar10_test16.npz") as file:
        cifar10 = file["images"]
    for name, array in (("faces", faces), ("cifar10", cifar10)):
        x = torch.from_numpy(array).permute(0, 3, 1, 2)
        torch.testing.assert_close(lpips(x[:8], x[8:]), torch.tensor(expected[name][trunk]), rtol=1e-4, atol=0)
