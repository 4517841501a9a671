import pytest
import torch

from condvae.runtime.devices import resolve_device


def test_a_text_names_a_device() -> None:
    assert resolve_device("cpu") == torch.device("cpu")
    assert resolve_device("auto").type == ("cuda" if torch.cuda.is_available() else "cpu")


@pytest.mark.parametrize("text", ["toaster", "meta", "cuda:99", "cuda:-1", ""])
def test_what_cannot_be_used_is_one_sentence(text: str) -> None:
    with pytest.raises(ValueError, match=r"cannot be used, expected auto|finds no GPU here|there are \d+ GPUs"):
        resolve_device(text)
