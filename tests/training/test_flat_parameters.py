"""Moving all trainable weights into one vector, or all buffers, does not change what a module computes."""

import pytest
import torch
from torch import Tensor, nn

from condvae.completers.learned_completer import batch_norm
from condvae.completers.spectral_norm import spectral_norm
from condvae.training.flat_parameters import FlatBuffers, FlatParameters


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


class WithBuffers(nn.Module):
    """A network with all kinds of buffers: stored statistics, a stored vector u, and a constant that is not stored."""

    constant: Tensor

    def __init__(self, seed: int = 0) -> None:
        super().__init__()
        torch.manual_seed(seed)
        self.first, self.norm = spectral_norm(nn.Conv2d(3, 4, 3, padding=1)), batch_norm(4)
        self.register_buffer("constant", torch.full((1, 3, 1, 1), 0.5), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.norm(self.first(x - self.constant))
        return y


NAMES = ["first.parametrizations.weight.0.u", "norm.running_mean", "norm.running_var"]


def test_buffers_stay_views_of_one_vector_while_a_network_trains() -> None:
    plain, moved = WithBuffers(), WithBuffers()
    constant = moved.constant
    buffers = FlatBuffers(moved)
    assert buffers.values.numel() == 3 * 4
    for seed in range(3):
        x = torch.randn(5, 3, 6, 6, generator=torch.Generator().manual_seed(seed))
        assert torch.equal(moved(x), plain(x))
    moved.load_state_dict({**moved.state_dict(), "norm.running_mean": torch.arange(4.0)})
    plain.norm.running_mean = torch.arange(4.0)
    expected = dict(plain.named_buffers())
    for name, part in zip(NAMES, buffers.values.split(4), strict=True):
        assert torch.equal(part, expected[name]) and part.data_ptr() == moved.get_buffer(name).data_ptr()
    # The buffer that is not stored is another tensor, with its old value.
    assert moved.constant is constant and bool((constant == 0.5).all())
    buffers.values.fill_(2.0)
    assert bool((moved.norm(torch.zeros(2, 4, 1, 1)) == moved.norm.bias[:, None, None]).all())
    assert bool((constant == 0.5).all())


def test_buffers_are_set_back_only_after_a_failure() -> None:
    module = WithBuffers()
    buffers = FlatBuffers(module)
    before = buffers.values.clone()
    buffers.keep()
    module(torch.full((2, 3, 6, 6), torch.nan))
    assert bool(buffers.values.isnan().any())
    buffers.restore_unless(torch.tensor(False))
    assert torch.equal(buffers.values, before) and not bool(module.get_buffer(NAMES[1]).any())
    module(torch.randn(2, 3, 6, 6))
    buffers.restore_unless(torch.tensor(True))
    assert not torch.equal(buffers.values, before)


def test_buffers_by_name_can_be_loaded_into_other_networks() -> None:
    networks = [WithBuffers(), WithBuffers(1)]
    one, other = FlatBuffers(*networks), FlatBuffers(WithBuffers(2), WithBuffers(3))
    networks[1](torch.randn(4, 3, 6, 6))
    parts = one.by_name()
    assert list(parts) == [f"{number}/{name}" for number in range(2) for name in NAMES]
    assert not torch.equal(parts[f"0/{NAMES[1]}"], parts[f"1/{NAMES[1]}"])
    assert not torch.equal(one.values, other.values)
    other.fill(parts)
    assert torch.equal(one.values, other.values)
    one.values.zero_()
    assert bool(parts[f"1/{NAMES[2]}"].all())  # copies, not views
    with pytest.raises(KeyError):
        other.fill({name: part for name, part in parts.items() if name.startswith("0/")})
    assert FlatBuffers(nn.Conv2d(1, 1, 1)).by_name() == {}
