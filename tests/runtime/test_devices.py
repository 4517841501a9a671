import pytest
import torch
from torch import nn

from condvae.runtime.devices import resolve_device, without_weights


def test_a_name_becomes_a_device() -> None:
    assert resolve_device("cpu") == torch.device("cpu")
    assert resolve_device("auto").type == ("cuda" if torch.cuda.is_available() else "cpu")


@pytest.mark.parametrize("text", ["toaster", "meta", "cuda:99", "cuda:-1", ""])
def test_an_unusable_device_is_an_error(text: str) -> None:
    with pytest.raises(ValueError, match=r"cannot be used, expected auto|finds no GPU|has \d+ GPUs?: give cuda:N"):
        resolve_device(text)


def test_networks_without_weights_have_shapes_and_no_values() -> None:
    torch.manual_seed(0)
    state = torch.get_rng_state()
    with without_weights():
        layer = nn.Conv2d(2, 3, 3)
        others = [nn.Linear(4, 5), nn.ConvTranspose2d(2, 3, 3), nn.GroupNorm(2, 4), nn.Embedding(2, 3)]
        nn.init.constant_(layer.weight, 2.0)
    assert torch.equal(torch.get_rng_state(), state)
    assert all(weight.is_meta for module in (layer, *others) for weight in module.parameters())
    assert layer.weight.shape == (3, 2, 3, 3) and layer.weight.requires_grad
    initialised = nn.Conv2d(2, 3, 3).weight  # after the context, as ever
    torch.manual_seed(0)
    assert torch.equal(initialised, nn.init.kaiming_uniform_(torch.empty(3, 2, 3, 3), a=5**0.5))
