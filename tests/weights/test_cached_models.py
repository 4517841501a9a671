"""`open_model` loads a model once for successive calls, and again when its file changes."""

from pathlib import Path

import pytest
import torch
from helpers.models import small_conditional, small_vae

from condvae import save
from condvae.runtime.fingerprints import file_sha256
from condvae.weights import embedded_names
from condvae.weights.cached_models import open_conditional, open_model


def test_a_model_is_loaded_once_and_identified_by_its_file(tmp_path: Path) -> None:
    path = tmp_path / "run" / "model.safetensors"
    save(small_conditional(), path)
    identity, model = open_model(path)
    assert (identity.name, identity.file, identity.by_name) == (str(path), (path, file_sha256(path)), False)
    by_folder, again = open_model(tmp_path / "run")
    assert again is model and by_folder.file == identity.file and not by_folder.by_name
    assert model.device == torch.device("cpu")
    save(small_vae(), path)
    changed, other = open_model(path)
    assert other is not model and changed.file.sha256 != identity.file.sha256
    with pytest.raises(ValueError, match="unconditional VAE: train a partial encoder for it first"):
        open_conditional(path)
    with pytest.raises(ValueError, match="device 'tpu' cannot be used"):
        open_model(path, "tpu")


def test_an_embedded_model_is_identified_by_its_name() -> None:
    identity, _ = open_conditional("cifar10")
    assert identity.by_name and identity.name == "cifar10" and "cifar10" in embedded_names()
