"""The baseline that completes an image first and then scores it as a whole image."""

from typing import ClassVar

import pytest
import torch
from helpers.models import images, small_conditional, small_vae, some_known
from torch import Tensor

from condvae.completers.interface import paste_known
from condvae.observe import Observation
from condvae.ood.completion_score import Completed
from condvae.ood.inference import Inference
from condvae.ood.scores import score_of
from condvae.runtime.pixels import from_uint8, to_uint8
from condvae.sampling.plain import sample_conditional

SEEDS = [3, 4, 5]


class Grey:
    """Fills holes with one grey level."""

    name: ClassVar[str] = "grey"
    varies: ClassVar[bool] = False

    def complete(self, observation: Observation, k: int, seed: int) -> Tensor:
        assert observation.pixels is not None
        flat = torch.full((len(observation), k, *observation.pixels.shape[1:]), 77, dtype=torch.uint8)
        return paste_known(observation, flat)


@pytest.mark.parametrize("inner", ["gradient", "parts-2", "likelihood"])
def test_it_is_the_inner_score_of_the_full_image(inner: str) -> None:
    inference = Inference.of(small_conditional())
    x, known = images(3), some_known(3)
    score = Completed(inner=score_of(inner), completer=Grey(), by="grey")
    found = score.features(inference, inference.observe(x, known), SEEDS)
    filled = torch.where(known, to_uint8(x), 77)
    whole = Inference.of(inference.vae)
    expected = score.inner.features(whole, whole.observe(from_uint8(filled)), SEEDS)
    assert torch.equal(found, expected) and score.fitted == score.inner.fitted


def test_a_whole_image_is_not_changed() -> None:
    inference = Inference.of(small_conditional())
    x = from_uint8(to_uint8(images(3)))
    whole = Inference.of(inference.vae)
    expected = score_of("gradient").features(whole, whole.observe(x), SEEDS)
    for score in (score_of("completed-ipa"), Completed(inner=score_of("gradient"), completer=Grey(), by="grey")):
        assert torch.equal(score.features(inference, inference.observe(x), SEEDS), expected)


def test_the_scored_model_draws_the_completion() -> None:
    inference = Inference.of(small_conditional())
    x, known = images(3), some_known(3)
    score = score_of("completed")
    assert isinstance(score, Completed)
    made = score.complete(inference, inference.observe(x, known), SEEDS)
    assert torch.equal(torch.where(known, made, 0), torch.where(known, to_uint8(x), 0))
    other = score.complete(inference, inference.observe(torch.where(known, x, -x), known), SEEDS)
    assert torch.equal(made, other)  # hidden pixels do not matter
    one = score.complete(inference, inference.observe(x, known)[1:2], SEEDS[1:2])
    assert torch.equal(one, made[1:2])  # independent of the other images
    assert not torch.equal(made, score.complete(inference, inference.observe(x, known), [6, 7, 8]))


def test_completions_are_independent_of_the_latents_that_explain_them() -> None:
    inference = Inference.of(small_conditional())
    observation = inference.observe(images(3), some_known(3))
    made = Completed(inner=score_of("gradient")).complete(inference, observation, SEEDS)
    # The inner score draws its latents with SEEDS, so completions drawn with SEEDS would share their latents.
    same = sample_conditional(inference.model, observation, noise=SEEDS, pixels="mean")  # type: ignore[arg-type]
    assert (made != to_uint8(observation.paste(same.images))).flatten(1).any(dim=1).all()


def test_names() -> None:
    completers = {"grey": Grey()}
    for name in ("completed-ipa", "completed-grey", "completed-grey-parts-4", "completed-ipa-likelihood"):
        score = score_of(name, completers=completers)
        assert isinstance(score, Completed) and score.name == name and score.kind == "partial"
        assert (score.completer is None) == ("ipa" in name)
    assert score_of("completed").name == score_of("completed-ipa-gradient").name == "completed-ipa"
    identities = {score_of(name, completers=completers).identity for name in ("completed-ipa", "completed-grey")}  # type: ignore[attr-defined]
    assert len(identities) == 2
    with pytest.raises(ValueError, match=r"needs a completer named 'nearest' \(available here: ipa, grey\)"):
        score_of("completed-nearest", completers=completers)


def test_edges_cannot_be_completed() -> None:
    inference = Inference.of(small_conditional())
    edges = Observation(y=torch.zeros(3, 4, 8, 8))
    with pytest.raises(ValueError, match="the observation contains no pixels"):
        score_of("completed-ipa").features(inference, edges, SEEDS)
    with pytest.raises(ValueError, match="only takes whole images"):
        Inference.of(small_vae(), "partial")
