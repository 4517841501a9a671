"""Models are opened as completers under the names that the user gave, and unsuitable models are refused."""

from pathlib import Path

import pytest
import torch
from helpers.baseline_models import baseline_file, small_baseline
from helpers.models import SMALLEST, images, small_conditional, small_vae, some_known

from condvae import save
from condvae.completers import HarmonicFill
from condvae.completers.interface import Completer
from condvae.experiments.named_completers import CompleterLike, named_models, open_completers
from condvae.observe import Edges
from condvae.observe.observation import observe_pixels

CPU = torch.device("cpu")


def opened(model: CompleterLike, *, size: int = 8, channels: int = 3) -> Completer:
    return open_completers({"gan": model}, size=size, channels=channels, device=CPU)["gan"]


def test_a_model_has_the_name_that_was_given_or_that_of_its_file(tmp_path: Path) -> None:
    run = tmp_path / "my=run"
    run.mkdir()
    file = baseline_file(run, "ce").rename(run / "model.safetensors")
    found = named_models([f"gan={run}", f" other = {file}".replace(" = ", "="), str(run), "cifar10"])
    assert list(found) == ["gan", "other", "my=run", "cifar10"]
    assert found["gan"] == found["other"] == found["my=run"] == file
    with pytest.raises(ValueError, match=r"two rivals are called gan: give one of them another name, as in NAME="):
        named_models([f"gan={run}", f"gan={file}"], what="rivals")
    with pytest.raises(ValueError, match="unknown model 'cifar01': did you mean cifar10"):
        named_models(["gan=cifar01"])


def test_files_and_models_in_memory_complete_alike(tmp_path: Path) -> None:
    observation = observe_pixels(images(2), some_known(2), lambda pixels: pixels)
    for model in (small_baseline("anp", size=8).train(), small_conditional(SMALLEST)):
        save(model, tmp_path / "model.safetensors")
        made = opened(model).complete(observation, 3, seed=5)
        assert made.shape == (2, 3, 3, 8, 8) and bool((made[:, 0] != made[:, 1]).any())
        assert torch.equal(opened(tmp_path).complete(observation, 3, seed=5), made)
    fill = HarmonicFill()
    assert opened(fill) is fill


def test_unsuitable_models_are_refused(tmp_path: Path) -> None:
    for model, size, words in (
        (small_baseline("anp", size=8), 16, r"gan makes images of 8 x 8 x 3, expected 16 x 16 x 3 \(height"),
        (small_conditional(SMALLEST), 16, "gan makes images of 8 x 8 x 3"),
        (small_baseline("ce", channels=1), 16, "gan makes images of 16 x 16 x 1, expected 16 x 16 x 3"),
    ):
        with pytest.raises(ValueError, match=words):
            opened(model, size=size)
    edges = small_conditional(SMALLEST)
    edges.process = Edges()
    with pytest.raises(ValueError, match="gan was not trained to complete images with holes"):
        opened(edges)
    save(small_vae(SMALLEST), tmp_path / "vae.safetensors")
    with pytest.raises(ValueError, match="is an unconditional VAE"):
        opened(tmp_path / "vae.safetensors")
