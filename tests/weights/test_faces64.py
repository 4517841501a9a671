"""The embedded model faces64, tested on photos that are not in its training data."""

import numpy as np
import pytest
import torch
from helpers.fixtures import FIXTURES
from numpy.typing import NDArray
from PIL import Image

import condvae
from condvae import weights
from condvae.cli import main
from condvae.completers import HarmonicFill
from condvae.conditional import ConditionalVAE
from condvae.observe.process import KnownPixels
from condvae.runtime.pixels import from_uint8, to_uint8
from condvae.sampling.plain import reconstruct, seeds_from

FACES = sorted((FIXTURES / "faces64").iterdir())


def rms(difference: NDArray[np.float64]) -> float:
    return float(np.sqrt(np.square(difference).mean()))


def test_faces64_is_the_default_and_loads() -> None:
    assert weights.DEFAULT_MODEL in weights.embedded_names()
    model = condvae.load("faces64")
    assert isinstance(model, ConditionalVAE)
    assert (model.artifact.config.image_size, model.artifact.config.channels) == (64, 3)
    assert isinstance(model.process, KnownPixels)
    assert not any(parameter.requires_grad for parameter in model.artifact.parameters())
    assert weights.locate("faces64").stat().st_size <= 14 * 2**20
    assert all(torch.isfinite(tensor).all() for tensor in model.state_dict().values())


def test_the_record_describes_the_training() -> None:
    record = weights.describe("faces64").record
    for part, task in ((record, "train"), (record["artifact"], "pretrain")):
        assert part["task"] == task
        assert part["steps"] > 0 and part["minutes"] > 0 and part["bits_per_dim"] > 0
        assert part["data"] and part["options"] and part["versions"]


def test_info_describes_faces64(capsys: pytest.CaptureFixture[str]) -> None:
    main(["info"])
    by_default = capsys.readouterr().out
    assert by_default.startswith("faces64: conditional VAE\n")
    assert "colour, 64 x 64 pixels" in by_default
    main(["info", "faces64"])
    assert capsys.readouterr().out == by_default
    main(["info", "--list"])
    assert "faces64" in capsys.readouterr().out


def test_faces_are_reconstructed() -> None:
    model = weights.load_conditional("faces64")
    x = from_uint8(torch.from_numpy(np.stack([np.array(Image.open(face)) for face in FACES])).permute(0, 3, 1, 2))
    back = reconstruct(model.artifact, x, noise=seeds_from(0, 1, observations=range(len(x)))).images
    assert rms((to_uint8(back).double() - to_uint8(x).double()).numpy()) < 8


def test_completions_beat_a_smooth_fill_and_vary_more_when_less_is_known() -> None:
    """With one half hidden, the mean completion is nearer to the original than a smooth fill.

    With everything hidden, completions vary more.
    """
    ours, smooth = [], []
    for face in FACES[:4]:
        half = condvae.complete(face, half="right", n=4, same_noise=True)
        truth, hidden = half.original.astype(float), ~half.known
        ours.append(rms((half.mean - truth)[hidden]))
        observation = half.view.observation
        filled = HarmonicFill(fallback=torch.zeros(3, 64, 64), channels=3).complete(observation, 1, 0)[0, 0]
        smooth.append(rms((filled.permute(1, 2, 0).numpy() - truth)[hidden]))
        nothing = condvae.complete(face, known=np.zeros((64, 64), dtype=bool), n=4, same_noise=True)
        assert nothing.std[hidden].mean() > 1.3 * half.std[hidden].mean() > 5
        assert half.std[half.known].max() == 0
    assert np.mean(ours) < 0.8 * np.mean(smooth)
