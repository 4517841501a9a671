from pathlib import Path

import pytest
from helpers.models import small_conditional

from condvae import weights
from condvae.observe import Boxes
from condvae.weights import model_names as embedded


@pytest.fixture
def models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Replace the embedded models by a small faces64, and work in an empty folder; return the folder of models."""
    folder = tmp_path / "package"
    model = small_conditional()
    model.process = Boxes()
    weights.save(model, folder / "faces64.safetensors", record={"steps": 7, "artifact": {"steps": 9}})
    monkeypatch.setattr(embedded, "MODELS", folder)
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    return folder
