"""Read and write files of fits: NAME.ood.safetensors, next to the model file NAME.safetensors. Reading runs no code."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from condvae.conditional import ConditionalVAE
from condvae.ood.density import GaussianDensity
from condvae.ood.fitting import Fit
from condvae.ood.inference import EncoderKind, Inference
from condvae.runtime.messages import reason_of
from condvae.vdvae import VDVAE
from condvae.weights import sealed_file

KIND = "condvae ood fit"
_ENDING = ".ood.safetensors"


def fit_path(model: str | Path) -> Path:
    """Return the path where the fits of a model file are expected, next to the model file."""
    path = Path(model)
    return path.with_name(path.name.removesuffix(".safetensors") + _ENDING)


def fits_beside(model: str | Path) -> Path | None:
    """Return the path of the file of fits that is next to a model file, or None if there is no such file."""
    path = fit_path(model)
    return path if path.is_file() else None


def save_fits(path: str | Path, fits: Iterable[Fit]) -> None:
    """Write the fits of one model to a file, at most one of each kind. The file is written completely or not at all."""
    fits = list(fits)
    if not fits or len({fit.kind for fit in fits}) < len(fits):
        raise ValueError(
            f"fits of the kinds {[fit.kind for fit in fits]} cannot be saved in one file: give one fit, or two of "
            "different kinds"
        )
    described: dict[str, dict[str, Any]] = {}
    tensors: dict[str, Tensor] = {}
    for fit in fits:
        described[fit.kind] = {"score": fit.score, "record": dict(fit.record)}
        arrays = {"held_scores": fit.held_scores, "held_shares": fit.held_shares}
        if fit.density is not None:
            described[fit.kind]["shrinkage"] = fit.density.shrinkage
            arrays |= {"mean": fit.density.mean, "covariance": fit.density.covariance}
        for name, array in arrays.items():
            tensors[f"{fit.kind}.{name}"] = torch.from_numpy(np.array(array, dtype=np.float64))
    sealed_file.write(Path(path), kind=KIND, description=described, tensors=tensors)


def load_fits(path: str | Path, model: VDVAE | ConditionalVAE) -> dict[EncoderKind, Fit]:
    """Read the fits in a file and return them by kind. Raise ValueError if they were made for another model."""
    path = Path(path)
    fits = describe_fits(path)
    for kind, fit in fits.items():
        if kind == "partial" and not isinstance(model, ConditionalVAE):
            raise ValueError(
                f"{path} was fitted to a conditional model, but this model is unconditional: run condvae ood fit "
                "for this model"
            )
        if fit.record["model"] != Inference.of(model, kind).identity:
            raise ValueError(
                f"{path} was fitted to another model, or to this model before it was trained further: run condvae "
                "ood fit again"
            )
    return fits


def describe_fits(path: Path) -> dict[EncoderKind, Fit]:
    """Read the fits in a file and return them by kind, for any model."""
    plain, tensors = sealed_file.read(path, kind=KIND)
    try:
        kinds: tuple[EncoderKind, ...] = ("partial", "whole")
        fits = {kind: _fit(kind, plain[kind], tensors) for kind in kinds if kind in plain}
        if not fits:
            raise ValueError("the file has neither a fit for partly hidden images nor one for whole images")
        for fit in fits.values():
            _check(fit)
    except (AttributeError, KeyError, OverflowError, TypeError, ValueError) as error:
        raise ValueError(f"this version of condvae cannot read the fits in {path}: {reason_of(error)}") from error
    return fits


def _fit(kind: EncoderKind, plain: dict[str, Any], tensors: dict[str, Tensor]) -> Fit:
    def array(name: str) -> Any:
        return tensors[f"{kind}.{name}"].numpy().copy()  # a copy, since the file may change while its fits are in use

    shrinkage = plain.get("shrinkage")
    density = None
    if shrinkage is not None:
        density = GaussianDensity(mean=array("mean"), covariance=array("covariance"), shrinkage=float(shrinkage))
    return Fit(
        score=str(plain["score"]),
        kind=kind,
        density=density,
        held_scores=array("held_scores"),
        held_shares=array("held_shares"),
        record=dict(plain["record"]),
    )


def _check(fit: Fit) -> None:
    """Raise ValueError if a fit has invalid shapes or numbers, and KeyError if its record does not identify a model."""
    if fit.held_scores.ndim != 1 or not len(fit.held_scores) or fit.held_shares.shape != fit.held_scores.shape:
        raise ValueError(
            f"the held-out scores have shape {fit.held_scores.shape} and their known shares have shape "
            f"{fit.held_shares.shape}, expected the same number of both, at least 1"
        )
    arrays = [fit.held_scores, fit.held_shares]
    if fit.density is not None:
        features = len(fit.density.mean)
        if fit.density.mean.ndim != 1 or fit.density.covariance.shape != (features, features):
            raise ValueError(
                f"the density's mean has shape {fit.density.mean.shape} and its covariance has shape "
                f"{fit.density.covariance.shape}, expected [F] and [F, F] for F features"
            )
        arrays += [fit.density.mean, fit.density.covariance]
    if not all(array.dtype == np.float64 and np.isfinite(array).all() for array in arrays):
        raise ValueError("some numbers of a fit are not finite or not float64")
    str(fit.record["model"])
