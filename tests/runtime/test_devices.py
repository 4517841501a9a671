import pytest
import torch

from condvae.runtime.devices import resolve_device


def test_a_name_becomes_a_device() -> None:
    assert resolve_device("cpu") == torch.device("cpu")
    assert resolve_device("auto").type == ("cuda" if torch.cuda.is_available() else "cpu")


@pytest.mark.parametrize("text", ["toaster", "meta", "cuda:99", "cuda:-1", ""])
def test_an_unusable_device_is_an_error(text: str) -> None:
    with pytest.raises(ValueError, match=r"cannot be used, expected auto|finds no GPU|has \d+ GPUs?: give cuda:N"):
        resolve_device(text)
