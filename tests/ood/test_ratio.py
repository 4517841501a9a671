"""The likelihood ratio: how much the bound drops if only coarse latents are inferred."""

import pytest
import torch
from helpers.models import images, small_conditional, small_vae, some_known

from condvae.conditional import ConditionalVAE, PartialConfig
from condvae.noise import SeededNoise
from condvae.observe import Observation
from condvae.ood.inference import Inference
from condvae.ood.ratio import Ratio
from condvae.vdvae.model import Step

SEEDS = [3, 4, 5]


def conditional(form: str = "direct") -> Inference:
    return Inference.of(small_conditional(form=form).double())


@pytest.mark.parametrize("form", ["direct", "relative"])
@pytest.mark.parametrize(("resolution", "upper"), [(1, 1), (4, 3), (7, 3)])
def test_it_is_the_difference_of_two_bounds(form: str, resolution: int, upper: int) -> None:
    inference = conditional(form)
    known = some_known(3)
    observation = inference.observe(images(3).double(), known)
    vae, source = inference.vae, inference.source(observation)

    def kl(step: Step) -> torch.Tensor:
        return step.drawn_from.total_kl_to(step.prior())

    with torch.no_grad():
        whole = vae.descend(source, batch=3, noise=SeededNoise(SEEDS), score=kl)
        # Keep the coarse latents, and draw the others from the prior with the same random numbers.
        coarse = vae.descend(None, batch=3, noise=SeededNoise(SEEDS), given=whole.latents[:upper])
        assert observation.pixels is not None
        explained = [
            torch.where(known[:, 0], vae.pixel_log_prob(state, observation.pixels), 0).sum(dim=(1, 2))
            for state in (whole.state, coarse.state)
        ]
    expected = explained[0] - explained[1] - whole.scores[:, upper:].sum(dim=1)
    found = Ratio(resolution=resolution).features(inference, observation, SEEDS)
    assert found.shape == (3, 1) and not found.requires_grad
    assert torch.allclose(found[:, 0], -expected, rtol=1e-10, atol=1e-9)


def test_a_partial_encoder_equal_to_the_prior_has_ratio_zero() -> None:
    model = ConditionalVAE(small_vae(), PartialConfig(channels=4, form="relative"))  # starts equal to the prior
    inference = Inference.of(model)
    observation = inference.observe(images(3), some_known(3))
    assert torch.equal(Ratio(resolution=1).features(inference, observation, SEEDS), torch.zeros(3, 1))


def test_no_image_depends_on_another_or_on_hidden_pixels() -> None:
    inference, known = conditional(), some_known(3)
    x = images(3).double()
    together = Ratio().features(inference, inference.observe(x, known), SEEDS)
    for i in range(3):
        one = inference.observe(torch.where(known, x, -x)[i : i + 1], known[i : i + 1])
        assert torch.allclose(Ratio().features(inference, one, SEEDS[i : i + 1]), together[i : i + 1], atol=1e-9)


def test_whole_images_by_q() -> None:
    inference = Inference.of(small_vae().double())
    observation = inference.observe(images(3).double())
    assert torch.isfinite(Ratio().features(inference, observation, SEEDS)).all()


@pytest.mark.parametrize(("resolution", "which"), [(8, "all"), (100, "all")])
def test_the_resolution_must_split_the_latents(resolution: int, which: str) -> None:
    inference = conditional()
    observation = inference.observe(images(3).double(), some_known(3))
    with pytest.raises(ValueError, match=f"are {which} of this model's latents: .* resolutions, which are 1, 4, 8"):
        Ratio(resolution=resolution).features(inference, observation, SEEDS)
    with pytest.raises(ValueError, match="the resolution of the likelihood ratio is 0"):
        Ratio(resolution=0)


def test_edges_have_no_likelihood() -> None:
    inference = conditional()
    edges = Observation(y=torch.zeros(3, 4, 8, 8, dtype=torch.float64))
    with pytest.raises(
        ValueError, match=r"the observation contains no pixels .* use one of the scores gradient and parts"
    ):
        Ratio().features(inference, edges, SEEDS)
