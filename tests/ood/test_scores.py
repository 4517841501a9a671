"""Scores by name, and scores that are computed from the same passes through the decoder."""

import pytest
import torch
from helpers.models import images, small_vae, some_known
from helpers.ood_models import observing

from condvae import objectives
from condvae.ood.gradient import temperature_gradient
from condvae.ood.inference import Inference
from condvae.ood.score_names import DEFAULT_SCORE
from condvae.ood.scores import Gradient, GradientByChannel, GradientParts, LikelihoodBound, score_of

SEEDS = [4, 9]


@pytest.mark.parametrize(
    "name", ["gradient", "gradient-4", "parts", "parts-4", "channels-4", "likelihood", "likelihood-3"]
)
def test_scores_have_the_names_they_are_made_from(name: str) -> None:
    score = score_of(name)
    assert score.name == name and score.kind is None
    assert score.fitted == (not name.startswith("likelihood"))


def test_equivalent_names_give_the_same_score() -> None:
    assert score_of("gradient-1").name == "gradient"
    assert score_of(DEFAULT_SCORE) == GradientParts(walks=4)


@pytest.mark.parametrize("name", ["gradient-0", "parts-x", "likelihood--1", "gradient-1.5"])
def test_invalid_numbers_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match=r"unknown score .* with a whole number N above 0"):
        score_of(name)


@pytest.mark.parametrize("name", ["", "entropy", "Gradient"])
def test_unknown_names_are_refused_with_a_list_of_known_ones(name: str) -> None:
    with pytest.raises(ValueError, match=r"unknown score .* expected one of gradient, parts, channels, likelihood"):
        score_of(name)
    with pytest.raises(ValueError, match="number of passes"):
        Gradient(walks=0)


@pytest.mark.parametrize("kind", ["partial", "whole"])
def test_features_are_those_of_the_gradient_and_the_bound(kind: str) -> None:
    inference = Inference.of(observing() if kind == "partial" else small_vae())
    observation = inference.observe(images(2), some_known(2) if kind == "partial" else None)
    gradient = temperature_gradient(inference, observation, noise=SEEDS, walks=2)
    assert torch.equal(Gradient(walks=2).features(inference, observation, SEEDS), gradient.total)
    parts = GradientParts(walks=2).features(inference, observation, SEEDS)
    assert torch.equal(parts, torch.cat((gradient.shift, gradient.spread), dim=1))
    channels = GradientByChannel(walks=2).features(inference, observation, SEEDS)
    assert channels.shape == (2, inference.groups * inference.vae.config.latent_channels)
    torch.testing.assert_close(channels.unflatten(1, (inference.groups, -1)).sum(dim=2), gradient.total)
    assert observation.pixels is not None
    if kind == "whole":
        bound = objectives.elbo(inference.vae, observation.pixels, noise=SEEDS)
    else:
        bound = objectives.reverse(inference.model, observation, noise=SEEDS)  # type: ignore[arg-type]
    nats = LikelihoodBound().features(inference, observation, SEEDS)
    torch.testing.assert_close(nats, bound.nats.detach().double()[:, None], rtol=1e-5, atol=1e-3)
    assert not nats.requires_grad


@pytest.mark.parametrize("score", [Gradient(walks=2), GradientParts(walks=2), LikelihoodBound(walks=2)])
def test_one_measurement_gives_all_derived_scores(score: Gradient | GradientParts | LikelihoodBound) -> None:
    inference = Inference.of(observing())
    observation = inference.observe(images(2), some_known(2))
    shared = score.source.features(inference, observation, SEEDS)
    assert shared.shape == (2, 2 * inference.groups + 1)
    alone = score.features(inference, observation, SEEDS)
    assert (score.of_source(shared.numpy()) == alone.numpy()).all()
    assert score.source.name == "walk-2"


def test_the_number_in_a_name_is_limited() -> None:
    """The name can come from a file, and a billion passes would take years."""
    for name in ("gradient-1000000000", "regret-10001", "ratio-" + "9" * 5000, "x\x1b" * 1000):
        with pytest.raises(ValueError, match="unknown score") as refused:
            score_of(name)
        assert str(refused.value).isprintable() and len(str(refused.value)) < 300
