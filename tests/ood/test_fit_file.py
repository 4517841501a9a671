"""Files of fits: read back bit for bit, only for their own model, and refused with one sentence otherwise."""

from pathlib import Path

import numpy as np
import pytest
import torch
from helpers.ood_models import observing, plain_data

from condvae import weights
from condvae.conditional import ConditionalVAE
from condvae.ood.fit_file import KIND, fit_path, fits_beside, load_fits, save_fits
from condvae.ood.fitting import Fit, fit_score
from condvae.ood.inference import Inference
from condvae.ood.scores import Gradient, LikelihoodBound
from condvae.weights import model_names as embedded
from condvae.weights import sealed_file


@pytest.fixture(scope="module")
def model() -> ConditionalVAE:
    return observing()


@pytest.fixture(scope="module")
def fits(model: ConditionalVAE) -> list[Fit]:
    data = plain_data()
    return [
        fit_score(Gradient(), Inference.of(model), data, images=20, held_out=10),
        fit_score(LikelihoodBound(), Inference.of(model, "whole"), data, images=20, held_out=10),
    ]


def test_fits_are_read_back_unchanged(tmp_path: Path, model: ConditionalVAE, fits: list[Fit]) -> None:
    save_fits(tmp_path / "model.ood.safetensors", fits)
    found = load_fits(tmp_path / "model.ood.safetensors", model)
    assert list(found) == ["partial", "whole"]
    for before, after in zip(fits, found.values(), strict=True):
        assert (before.score, before.kind, before.record) == (after.score, after.kind, after.record)
        np.testing.assert_array_equal(before.held_scores, after.held_scores)
        np.testing.assert_array_equal(before.held_shares, after.held_shares)
    density, again = fits[0].density, found["partial"].density
    assert density is not None and again is not None and found["whole"].density is None
    np.testing.assert_array_equal(density.mean, again.mean)
    np.testing.assert_array_equal(density.covariance, again.covariance)
    assert density.shrinkage == again.shrinkage


def test_a_fit_of_a_half_precision_file_is_for_the_loaded_model(tmp_path: Path, model: ConditionalVAE) -> None:
    weights.save(model, tmp_path / "model.safetensors", bits=16, packed=True)
    stored = weights.load_conditional(tmp_path / "model.safetensors")
    fit = fit_score(Gradient(), Inference.of(stored), plain_data(), images=10, held_out=5)
    save_fits(fit_path(tmp_path / "model.safetensors"), [fit])
    again = weights.load_conditional(tmp_path / "model.safetensors")
    assert load_fits(tmp_path / "model.ood.safetensors", again)
    with pytest.raises(ValueError, match="fitted to another model"):  # the unrounded weights
        load_fits(tmp_path / "model.ood.safetensors", model)


def test_fits_of_other_models_are_refused(tmp_path: Path, model: ConditionalVAE, fits: list[Fit]) -> None:
    file = tmp_path / "model.ood.safetensors"
    save_fits(file, fits)
    with pytest.raises(ValueError, match=r"fitted to another model.*run condvae ood fit"):
        load_fits(file, observing("relative"))
    with pytest.raises(ValueError, match="fitted to a conditional model"):
        load_fits(file, model.artifact)
    save_fits(file, fits[1:])
    assert set(load_fits(file, model.artifact)) == set(load_fits(file, model)) == {"whole"}


def test_where_fits_belong(tmp_path: Path) -> None:
    assert fit_path("models/cifar10.safetensors") == Path("models/cifar10.ood.safetensors")
    assert fit_path(tmp_path / "model.safetensors").name == "model.ood.safetensors"
    assert fits_beside(tmp_path / "model.safetensors") is None
    (tmp_path / "model.ood.safetensors").touch()
    assert fits_beside(tmp_path / "model.safetensors") == tmp_path / "model.ood.safetensors"


def test_embedded_fits_are_no_models(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, model: ConditionalVAE, fits: list[Fit]
) -> None:
    monkeypatch.setattr(embedded, "MODELS", tmp_path)
    weights.save(model, tmp_path / "faces.safetensors")
    save_fits(fit_path(tmp_path / "faces.safetensors"), fits)
    assert weights.embedded_names() == ["faces"]
    assert fits_beside(weights.locate("faces")) == tmp_path / "faces.ood.safetensors"
    with pytest.raises(ValueError, match="unknown model"):
        weights.locate("faces.ood")
    with pytest.raises(ValueError, match="is a condvae ood fit file"):
        weights.load(tmp_path / "faces.ood.safetensors")


def test_broken_files_are_refused_in_one_sentence(tmp_path: Path, model: ConditionalVAE, fits: list[Fit]) -> None:
    file = tmp_path / "model.ood.safetensors"
    with pytest.raises(ValueError, match="does not exist"):
        load_fits(file, model)
    save_fits(file, fits)
    whole = file.read_bytes()
    file.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ValueError, match="damaged"):
        load_fits(file, model)
    file.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    with pytest.raises(ValueError, match="checksum"):
        load_fits(file, model)
    weights.save(model, file)
    with pytest.raises(ValueError, match="expected a condvae ood fit file"):
        load_fits(file, model)


@pytest.mark.parametrize(
    "change",
    [
        {"partial.held_scores": torch.zeros(0, dtype=torch.float64)},
        {"partial.held_shares": torch.zeros(3, dtype=torch.float64)},
        {"partial.mean": torch.zeros(3, dtype=torch.float64)},
        {"partial.mean": torch.tensor(0.0, dtype=torch.float64)},
        {"partial.covariance": torch.zeros(3, 3, dtype=torch.float64)},
        {"partial.held_scores": torch.full((10,), torch.nan, dtype=torch.float64)},
        {"partial.held_scores": torch.zeros(10)},
    ],
)
def test_invalid_contents_with_a_valid_checksum_are_refused(
    tmp_path: Path, model: ConditionalVAE, fits: list[Fit], change: dict[str, torch.Tensor]
) -> None:
    file = tmp_path / "model.ood.safetensors"
    save_fits(file, fits)
    description, tensors = sealed_file.read(file, kind=KIND)
    sealed_file.write(file, kind=KIND, description=description, tensors=tensors | change)
    with pytest.raises(ValueError, match="this version of condvae cannot read the fits"):
        load_fits(file, model)


@pytest.mark.parametrize("description", [{}, [], {"partial": 3}, {"partial": {"score": "gradient"}}, None])
def test_invalid_descriptions_are_refused(tmp_path: Path, model: ConditionalVAE, description: object) -> None:
    file = tmp_path / "model.ood.safetensors"
    sealed_file.write(file, kind=KIND, description=description, tensors={})  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="this version of condvae cannot read the fits"):
        load_fits(file, model)


def test_two_fits_of_a_kind_are_not_saved(tmp_path: Path, fits: list[Fit]) -> None:
    for some in ([], [fits[0], fits[0]]):
        with pytest.raises(ValueError, match="give one fit, or two of different kinds"):
            save_fits(tmp_path / "model.ood.safetensors", some)
    assert not list(tmp_path.iterdir())
