"""The model that comes with the package."""

import pytest
import torch
from safetensors import safe_open

import condvae
from condvae import weights
from condvae.cli import main
from condvae.observe.process import KnownPixels
from condvae.partial import ConditionalVAE


def test_it_is_the_default_and_loads() -> None:
    assert weights.DEFAULT_MODEL in weights.embedded_names()
    model = condvae.load("faces64")
    assert isinstance(model, ConditionalVAE)
    assert (model.artifact.config.image_size, model.artifact.config.channels) == (64, 3)
    assert isinstance(model.process, KnownPixels)
    assert not any(parameter.requires_grad for parameter in model.artifact.parameters())
    assert all(torch.isfinite(tensor).all() for tensor in model.state_dict().values())


def test_it_is_small_and_in_half_precision() -> None:
    path = weights.locate("faces64")
    assert path.stat().st_size <= 14 * 2**20
    with safe_open(path, framework="pt") as file:
        assert {file.get_slice(name).get_dtype() for name in file.keys()} == {"F16"}  # noqa: SIM118


def test_it_tells_how_it_was_trained() -> None:
    record = weights.describe("faces64").record
    for part, task in ((record, "train"), (record["artifact"], "pretrain")):
        assert part["task"] == task
        assert part["steps"] > 0 and part["minutes"] > 0 and part["bits_per_dim"] > 0
        assert part["data"] and part["options"] and part["versions"]


def test_info_prints_it(capsys: pytest.CaptureFixture[str]) -> None:
    main(["info"])
    by_default = capsys.readouterr().out
    assert by_default.startswith("faces64: conditional VAE, ")
    assert "3 x 64 x 64" in by_default
    main(["info", "faces64"])
    assert capsys.readouterr().out == by_default
    main(["info", "--list"])
    assert "faces64" in capsys.readouterr().out
