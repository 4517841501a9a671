"""The classifier computed by kernels gives the same logits as the plain one."""

import pytest
import torch
from torch import Tensor

pytest.importorskip("triton")
from condvae import kernels
from condvae.design.avp_cnn.efficientnet import Lite0
from condvae.design.avp_cnn.layers import Norm, folded
from condvae.design.avp_cnn.network import AVPCNN, ClassifierConfig
from condvae.kernels.convolution import Shape
from condvae.kernels.fused_classifier import FusedLite0

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")


def classifier(size: int, channels: int = 1, **options: object) -> AVPCNN:
    """Make a random classifier whose normalisations have seen images, so that signals neither vanish nor explode."""
    torch.manual_seed(5)
    config = ClassifierConfig(size=size, channels=channels, names=("a", "b"), **options)  # type: ignore[arg-type]
    g = AVPCNN(config)
    for layer in g.modules():
        if isinstance(layer, Norm):
            layer.momentum = 1.0
            torch.nn.init.uniform_(layer.bias, -1, 2)
    with torch.no_grad():
        g.train()(torch.randn(4, channels + 1, size, size))
    return g.eval().to(DEVICE)


def partly_known(size: int, channels: int = 1, n: int = 3) -> tuple[Tensor, Tensor]:
    torch.manual_seed(6)
    known = torch.rand(n, 1, size, size, device=DEVICE) < 0.5
    return torch.rand(n, channels, size, size, device=DEVICE) * 2 - 1, known


def fused(g: AVPCNN, dtype: torch.dtype) -> FusedLite0:
    network = folded(g)
    assert isinstance(network.trunk, Lite0)
    return FusedLite0(*network.trunk.folded_layers(), network.head, network.last, scale=2.0, shift=0.0, dtype=dtype)


@pytest.mark.usefixtures("roomy_tiles")
@pytest.mark.parametrize(("channels", "stages", "head", "stem_stride", "size"), [(1, 3, 24, 2, 12), (3, 2, 0, 1, 5)])
def test_it_equals_the_plain_network(channels: int, stages: int, head: int, stem_stride: int, size: int) -> None:
    g = classifier(size, channels, stages=stages, head=head, stem_stride=stem_stride)
    g.precision = "exact"
    pixels, known = partly_known(size, channels)
    expected = g.logits(pixels, known)
    assert expected.std(dim=0).min() > 1e-3  # the logits of different images differ
    made = fused(g, torch.float32)(torch.where(known, pixels, torch.nan), known)
    torch.testing.assert_close(made, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.usefixtures("roomy_tiles")
def test_kernels_are_used_where_they_can_run_and_follow_the_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    g = classifier(8, stages=2, head=8)
    pixels, known = partly_known(8)
    g.plain = True
    plain = g.log_posterior(pixels, known)
    monkeypatch.setattr(kernels, "available", lambda device: True)  # on a CPU, they run in the interpreter
    assert torch.equal(g.log_posterior(pixels, known), plain)
    g.plain = False
    half = g.log_posterior(pixels, known)
    assert not torch.equal(half, plain)
    torch.testing.assert_close(half, plain, rtol=0, atol=0.02)
    state = g.state_dict()
    state["last.bias"] += 1
    g.load_state_dict(state)
    other = g.log_posterior(pixels, known)
    assert (other - half).abs().max() > 0.1
    with torch.no_grad():
        g.last.bias.add_(1)
    assert (g.log_posterior(pixels, known) - other).abs().max() > 0.1
    g.precision, g.plain = "exact", True
    exact = g.log_posterior(pixels, known)
    g.plain = False
    assert torch.equal(g.log_posterior(pixels, known), exact)


def test_networks_without_kernels_use_plain_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "available", lambda device: True)
    for g in (classifier(8, stages=1, enlarge=2), classifier(8, trunk="plain", widths=(8,), blocks=1)):
        assert not g._fuses(DEVICE)
        g.log_posterior(*partly_known(8))
    assert classifier(8, stages=1)._fuses(DEVICE)


@pytest.mark.usefixtures("roomy_tiles")
def test_large_batches_are_split_so_that_int32_can_index_them(monkeypatch: pytest.MonkeyPatch) -> None:
    g = fused(classifier(8, stages=2, head=8), torch.float32)
    assert g.at_once(Shape(64, 64)) == (2**31 - 1) // (32 * 32 * 96)
    pixels, known = partly_known(8)
    whole = g(pixels, known)
    monkeypatch.setattr(g, "at_once", lambda shape: 2)
    torch.testing.assert_close(g(pixels, known), whole)
