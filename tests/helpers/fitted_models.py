"""Small models with fits by which either every image is strange or none is."""

from dataclasses import replace
from pathlib import Path

import numpy as np
from helpers.models import small_conditional
from helpers.ood_models import plain_data

from condvae import save
from condvae.conditional import ConditionalVAE
from condvae.observe import Boxes, Process
from condvae.ood import Inference, fit_path, fit_score, save_fits, score_of
from condvae.vdvae import VDVAE


def put_fits(model: VDVAE | ConditionalVAE, path: Path, *, strange: bool = False, score: str = "parts") -> Path:
    """Write fits of all kinds that a model has.

    They contain 120 made-up scores of held-out images, by which either every image is strange to the model or none is.
    """
    fits = []
    held = np.full(120, 1e9 if strange else -1e9)
    for kind in ("partial", "whole") if isinstance(model, ConditionalVAE) else ("whole",):
        fit = fit_score(
            score_of(score), Inference.of(model, kind), plain_data(train=30, validation=20), images=30, held_out=20
        )
        fits.append(replace(fit, held_scores=held, held_shares=np.linspace(0, 1, len(held))))
    save_fits(path, fits)
    return path


def fitted_model(folder: Path, *, process: Process | None = None, strange: bool = False, score: str = "parts") -> Path:
    """Write a conditional model with its fits beside it; return the model file."""
    model = small_conditional()
    model.process = process or Boxes()
    path = folder / "model.safetensors"
    save(model, path)
    put_fits(model, fit_path(path), strange=strange, score=score)
    return path
