"""Models by name: which file a name refers to, and the errors for unknown names."""

import os
from pathlib import Path

import pytest
import torch
from helpers.models import small_conditional, small_vae

import condvae
from condvae import weights
from condvae.conditional import ConditionalVAE
from condvae.vdvae import VDVAE
from condvae.weights import model_names as embedded
from condvae.weights.hub import HubModel, hub_model


@pytest.fixture
def models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Replace the embedded models by two small ones, and change to an empty folder."""
    folder = tmp_path / "package"
    weights.save(small_conditional(), folder / "faces64.safetensors")
    weights.save(small_vae(seed=1), folder / "digits28.safetensors")
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setattr(embedded, "MODELS", folder)
    return folder


def test_embedded_models_are_found_by_name(models: Path) -> None:
    assert weights.embedded_names() == ["digits28", "faces64"]
    assert weights.locate("faces64") == weights.locate(Path("faces64")) == models / "faces64.safetensors"
    assert isinstance(condvae.load("faces64"), ConditionalVAE)
    assert isinstance(condvae.load("digits28"), VDVAE)
    assert weights.describe("faces64").partial is not None


def test_paths_take_precedence_over_names(models: Path) -> None:
    # A file, or a folder with a model, takes precedence over an embedded model; a folder without a model does not.
    os.mkdir("faces64")
    assert weights.locate("faces64") == models / "faces64.safetensors"
    weights.save(small_vae(), "faces64/model.safetensors")
    assert weights.locate("faces64") == Path("faces64/model.safetensors")
    Path("digits28").write_text("some file")
    assert weights.locate("digits28") == Path("digits28")
    # The hub is not asked for owner/name if such a folder exists.
    weights.save(small_vae(), "runs/first/model.safetensors")
    assert weights.locate("runs/first") == Path("runs/first/model.safetensors")
    with pytest.raises(ValueError, match=r"runs is a folder"):
        weights.locate("runs")
    # The hub is not asked for a mistyped path either.
    with pytest.raises(ValueError, match=r"runs.frist does not exist, .* write runs/frist@main"):
        weights.locate("runs/frist")


@pytest.mark.usefixtures("models")
def test_the_nearest_name_is_suggested() -> None:
    for wrong, right in (("faces46", "faces64"), ("face64", "faces64"), ("digits", "digits28")):
        with pytest.raises(ValueError, match=f"^unknown model '{wrong}': did you mean {right}\\? ") as caught:
            condvae.load(wrong)
        assert "digits28, faces64" in str(caught.value)
    with pytest.raises(ValueError, match="unknown model 'xyz'") as caught:
        weights.describe("xyz")
    assert "did you mean" not in str(caught.value)
    for path in ("faces64.safetensors", "a/b/faces64.safetensors", "runs/x.safetensors", "../faces64", "/faces64"):
        with pytest.raises(ValueError, match="does not exist"):
            weights.locate(path)


def test_an_installation_may_have_no_models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedded, "MODELS", tmp_path / "none")
    with pytest.raises(ValueError, match="this installation has no embedded models"):
        weights.locate("faces64")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("owner/name", HubModel("owner/name")),
        ("owner/na-me_1.5@v1.0", HubModel("owner/na-me_1.5", "v1.0")),
        ("owner/name@refs/pr/1", HubModel("owner/name", "refs/pr/1")),
        ("owner/name@" + "0" * 40, HubModel("owner/name", "0" * 40)),
        ("name", None),
        ("a/b/c", None),
        ("/name", None),
        ("owner/", None),
        ("./name", None),
        ("../name", None),
        ("~/name", None),
        ("owner/name@", None),
        ("owner/model.safetensors", None),
        ("owner/na me", None),
        ("owner/name\n", None),
    ],
)
def test_names_on_the_hub(text: str, expected: HubModel | None) -> None:
    assert hub_model(text) == expected
    if expected:
        assert str(expected) == text


def test_the_name_of_the_default_model_does_not_import_torch() -> None:
    import subprocess
    import sys

    program = "import sys; from condvae.weights import DEFAULT_MODEL; sys.exit('torch' in sys.modules)"
    subprocess.run([sys.executable, "-c", program], check=True)


def test_loading_by_name_and_by_path_give_the_same_model(models: Path) -> None:
    by_name, by_path = condvae.load("digits28"), condvae.load(models / "digits28.safetensors")
    mine, theirs = by_name.state_dict(), by_path.state_dict()
    assert all(torch.equal(mine[name], theirs[name]) for name in mine)
