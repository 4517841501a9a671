import pytest
import torch
from helpers.models import randomise
from torch import nn

from condvae.design.avp_cnn.efficientnet import Lite0
from condvae.design.avp_cnn.layers import Activation, ConvNorm, Norm, folded
from condvae.design.avp_cnn.residual import Residual


def settle(module: nn.Module, seed: int = 0) -> None:
    """Set random weights and running statistics, as after training."""
    randomise(module, seed)
    random = torch.Generator().manual_seed(seed)
    for layer in module.modules():
        if isinstance(layer, Norm):
            layer.running_mean.copy_(torch.randn(layer.running_mean.shape, generator=random) / 4)
            layer.running_var.copy_(torch.rand(layer.running_var.shape, generator=random) + 0.5)


def test_a_norm_is_torchs_batch_normalisation() -> None:
    ours, theirs = Norm(3, eps=1e-3, momentum=0.01), nn.BatchNorm2d(3, eps=1e-3, momentum=0.01)
    x = torch.randn(4, 3, 5, 5, generator=torch.Generator().manual_seed(0)) * 3 + 1
    assert torch.equal(ours(x), theirs(x))
    for name, tensor in ours.state_dict().items():
        assert torch.equal(tensor, theirs.state_dict()[name])
    assert torch.equal(ours.eval()(x), theirs.eval()(x))


@pytest.mark.parametrize(("activation", "low", "high"), [("none", -1e9, 1e9), ("relu", 0, 1e9), ("relu6", 0, 6)])
def test_sizes_and_activations(activation: Activation, low: float, high: float) -> None:
    layer = ConvNorm(2, 4, 5, stride=2, activation=activation)
    settle(layer)
    with torch.no_grad():
        x = 20 * torch.randn(2, 2, 8, 8, generator=torch.Generator().manual_seed(0))
        plain = layer.norm(layer.conv(x))  # type: ignore[misc]
        assert layer(x).shape == (2, 4, 4, 4)
        assert torch.equal(layer.eval()(x), layer.norm(layer.conv(x)).clamp(low, high))  # type: ignore[misc]
    assert plain.min() < 0 and plain.max() > 1


@pytest.mark.parametrize(
    "trunk", [lambda: Lite0(2, stages=4), lambda: Residual(2, widths=(4, 8), blocks=2)], ids=["lite0", "plain"]
)
def test_folding_changes_results_only_by_rounding(trunk: type[nn.Module]) -> None:
    torch.manual_seed(0)
    module = trunk().double()
    settle(module)
    x = torch.randn(2, 2, 16, 16, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    before = {name: tensor.clone() for name, tensor in module.state_dict().items()}
    made = folded(module)
    assert not any(isinstance(layer, Norm) for layer in made.modules())
    assert not any(parameter.requires_grad for parameter in made.parameters())
    torch.testing.assert_close(made(x), module.eval()(x), rtol=1e-10, atol=1e-10)
    assert all(torch.equal(tensor, before[name]) for name, tensor in module.state_dict().items())
    for layer in made.modules():
        if isinstance(layer, ConvNorm):
            layer.fold()  # folding twice changes nothing
    torch.testing.assert_close(made(x), module(x), rtol=1e-10, atol=1e-10)
