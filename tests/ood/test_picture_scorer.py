"""`strangeness` of one picture agrees with its parts: score, fit and percentile."""

import importlib
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from helpers.fitted_models import fitted_model, put_fits
from helpers.models import small_conditional, small_vae
from helpers.pictures_to_complete import levels, photo

import condvae.ood
from condvae import save
from condvae.conditional import ConditionalVAE, PartialConfig
from condvae.images.holes import Hole
from condvae.images.reading import read_picture
from condvae.observe import Edges
from condvae.ood import Fit, Inference, fit_path, load_fits, measure, save_fits, score_of, strangeness
from condvae.ood.inference import EncoderKind
from condvae.ood.picture_scorer import PictureScorer
from condvae.weights import load_conditional as load


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return fitted_model(tmp_path_factory.mktemp("models"))


def by_hand(model: Path, kind: EncoderKind, known: np.ndarray | None, seed: int = 0) -> tuple[float, float]:
    """Compute score and percentile of these tests' 8 x 8 picture step by step."""
    network = load(model)
    fit: Fit = load_fits(fit_path(model), network)[kind]
    x = torch.from_numpy(levels(8, 8)).permute(2, 0, 1)[None].contiguous()
    flags = None if known is None else torch.from_numpy(known)[None, None]
    features = measure(score_of(fit.score), Inference.of(network, kind), x, flags, seed=seed)
    scores = fit.score_values(features)
    return float(scores[0]), float(fit.percentile(scores, [1.0 if known is None else known.mean()])[0])


def test_strangeness_agrees_with_score_fit_and_percentile(model: Path) -> None:
    right = np.ones((8, 8), dtype=bool)
    right[:, :4] = False
    image = levels(8, 8)
    transparent = np.dstack([image, np.where(right, 255, 0).astype(np.uint8)])
    for found in (
        strangeness(image, half="left", model=model),
        strangeness(image, known=right, model=model),
        strangeness(torch.from_numpy(image).permute(2, 0, 1), mask=~right, mask_is="hole", model=model),
        strangeness(image, known=right.repeat(2, axis=0), fit_mask=True, model=model),
        strangeness(np.ma.array(image, mask=np.dstack([~right] * 3)), model=model),
        strangeness(transparent, model=model),
        strangeness(image, half="left", model=load(model), fit=fit_path(model)),
    ):
        assert (found.score, found.percentile) == by_hand(model, "partial", right)
        assert (found.kind, found.known_share, found.score_name) == ("partial", 0.5, "parts")
    red = np.zeros_like(image)
    red[:, :, 0] = 255
    nowhere = strangeness(image, hole=red, model=model)  # nowhere white, so the whole image is scored
    assert nowhere.kind == "whole" and "levels of 128 or more count as white" in nowhere.notes[0]
    whole = strangeness(image, model=model)
    assert (whole.score, whole.percentile) == by_hand(model, "whole", None)
    assert (whole.kind, whole.known_share, whole.notes) == ("whole", 1.0, ())
    assert whole.score != found.score
    other = strangeness(image, model=model, seed=5)
    assert other.score == by_hand(model, "whole", None, seed=5)[0] != whole.score


def test_hidden_pixels_do_not_matter(model: Path) -> None:
    image = levels(8, 8)
    other = image.copy()
    other[:, :4] = levels(8, 8, seed=9)[:, :4]
    assert strangeness(other, half="left", model=model) == strangeness(image, half="left", model=model)
    assert strangeness(other, half="right", model=model) != strangeness(image, half="right", model=model)


def test_pictures_are_scored_independently(model: Path) -> None:
    scorer = PictureScorer(model)
    pictures = [read_picture(levels(8, 8, seed=i)) for i in range(5)]
    inputs = [scorer.view(picture, Hole(half="top" if i % 2 else None)) for i, picture in enumerate(pictures)]
    assert [one.kind for one in inputs] == ["whole", "partial", "whole", "partial", "whole"]
    together = scorer(inputs)
    assert together == [scorer([one])[0] for one in inputs]
    assert len({found.score for found in together}) == 5
    assert scorer([]) == []


def test_the_fit_decides_what_is_strange(tmp_path: Path, model: Path) -> None:
    assert not strangeness(levels(8, 8), model=model).strange
    fit = put_fits(load(model), tmp_path / "strange.safetensors", strange=True)
    found = strangeness(levels(8, 8), model=model, fit=fit)
    assert found.strange and found.percentile == pytest.approx(100 / 121)


def test_the_strangest_of_a_hundred_is_strange(tmp_path: Path, model: Path) -> None:
    fits = load_fits(fit_path(model), load(model)).values()
    path = tmp_path / "hundred.safetensors"
    for held, strange in ((98, False), (99, True)):  # the picture itself counts as one more
        higher, shares = np.full(held, 1e9), np.ones(held)
        save_fits(path, [replace(fit, held_scores=higher, held_shares=shares) for fit in fits])
        found = strangeness(levels(8, 8), model=model, fit=path)
        assert found.strange is strange and (found.percentile == 1) is strange


def test_changes_to_a_picture_are_noted(tmp_path: Path, model: Path) -> None:
    path = photo(tmp_path / "x.png", 20, 26)
    for hole in ({}, {"half": "left"}):
        (note,) = strangeness(path, model=model, **hole).notes  # type: ignore[arg-type]
        assert note.endswith("x.png is 26 x 20: its middle 20 x 20 is resized to 8 x 8")


def test_a_model_of_edges_scores_edges(tmp_path: Path) -> None:
    edges = ConditionalVAE(small_vae(), PartialConfig(channels=3), process=Edges())
    path = tmp_path / "edges.safetensors"
    save(edges, path)
    put_fits(edges, fit_path(path))
    found = strangeness(levels(8, 8), model=path)
    assert (found.kind, found.known_share) == ("partial", 0.0)
    with pytest.raises(ValueError, match="observes edges and does not complete holes: leave out --half "):
        strangeness(levels(8, 8), model=path, half="left")


def test_an_unconditional_vae_only_takes_whole_images(tmp_path: Path) -> None:
    vae = small_vae()
    path = tmp_path / "vae.safetensors"
    save(vae, path)
    put_fits(vae, fit_path(path), score="likelihood")
    found = strangeness(levels(8, 8), model=path)
    assert (found.kind, found.score_name) == ("whole", "likelihood")
    with pytest.raises(ValueError, match="unconditional VAE and only takes whole images: leave out box"):
        strangeness(levels(8, 8), model=path, box=(0, 0, 2, 2))


def test_without_a_fit_the_error_tells_how_to_make_one(tmp_path: Path, model: Path) -> None:
    path = tmp_path / "bare.safetensors"
    save(load(model), path)
    with pytest.raises(ValueError, match=r"bare.safetensors has no fit.*condvae ood fit --data DATA --model "):
        strangeness(levels(8, 8), model=path)
    with pytest.raises(ValueError, match=r"the model is in memory.*: give a fit file"):
        strangeness(levels(8, 8), model=small_conditional())
    with pytest.raises(ValueError, match="the model is a int, expected a name"):
        strangeness(levels(8, 8), model=5)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="the seed is -1"):
        strangeness(levels(8, 8), model=model, seed=-1)
    fits = load_fits(fit_path(model), load(model))
    for kind, hole, what in (("partial", {}, "whole images"), ("whole", {"half": "left"}, "partly hidden images")):
        save_fits(fit_path(path), [fits[kind]])  # type: ignore[index]
        with pytest.raises(ValueError, match=f"bare.ood.safetensors has no fit for {what}: run condvae ood fit"):
            strangeness(levels(8, 8), model=path, **hole)  # type: ignore[arg-type]


def test_strangeness_is_the_function_after_any_import() -> None:
    for name in ("completion_warnings", "picture_scorer", "score_files"):
        importlib.import_module(f"condvae.ood.{name}")
        assert callable(condvae.ood.strangeness)
    script = "import sys, condvae.ood, condvae.completion.settings; sys.exit('torch' in sys.modules)"
    subprocess.run([sys.executable, "-c", script], check=True)
