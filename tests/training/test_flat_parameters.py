"""Moving all trainable weights into one vector does not change what a module computes."""

import pytest
import torch
from torch import nn

from condvae.training.flat_parameters import FlatParameters


def network() -> nn.Sequential:
    torch.manual_seed(0)
    module = nn.Sequential(nn.Conv2d(3, 5, 3, padding=1), nn.GELU(), nn.Conv2d(5, 2, 1))
    return module.to(memory_format=torch.channels_last)  # type: ignore[call-overload, no-any-return]


def test_results_and_gradients_equal_those_of_the_original_module() -> None:
    plain, moved = network(), network()
    flat = FlatParameters(moved)
    x = torch.randn(4, 3, 8, 8)
    for module in (plain, moved):
        for _ in range(2):  # gradients add up in place
            module(x).square().sum().backward()
    for name, parameter in plain.named_parameters():
        assert torch.equal(flat.view(flat.values, name), parameter)
        assert parameter.grad is not None
        torch.testing.assert_close(flat.view(flat.gradients, name), parameter.grad)
    assert len(flat) == sum(parameter.numel() for parameter in plain.parameters())


def test_frozen_weights_are_excluded_and_a_frozen_module_is_rejected() -> None:
    module = network()
    module[0].requires_grad_(False)
    flat = FlatParameters(module, extra=3)
    assert set(flat.parameters) == {"2.weight", "2.bias"}
    assert flat.exchanged.numel() == flat.gradients.numel() + 3
    module.requires_grad_(False)
    with pytest.raises(ValueError, match="nothing to train"):
        FlatParameters(module)


def test_replaced_weights_are_restored_exactly_even_after_an_error() -> None:
    module = network()
    flat = FlatParameters(module)
    before = {name: parameter.clone() for name, parameter in module.named_parameters()}

    def fail_inside() -> None:
        with flat.replaced_by(torch.ones_like(flat.values)):
            assert all((parameter == 1).all() for parameter in module.parameters())
            raise KeyError

    with pytest.raises(KeyError):
        fail_inside()
    assert all(torch.equal(parameter, before[name]) for name, parameter in module.named_parameters())


def test_parts_by_name_can_be_loaded_with_any_memory_layout() -> None:
    flat, other = FlatParameters(network()), FlatParameters(network().to(memory_format=torch.contiguous_format))  # type: ignore[call-overload]
    vector = torch.arange(float(flat.values.numel()))
    parts = flat.by_name(vector)
    other.fill(other.values, parts)
    for name, part in parts.items():
        assert torch.equal(other.parameters[name], part)
        assert torch.equal(flat.view(vector, name), part)
