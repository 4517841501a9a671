"""The bound with a temperature on the prior of each latent group."""

import pytest
import torch
from helpers.models import generator, images, small_conditional, some_known
from torch import Tensor

from condvae import objectives
from condvae.gaussian import Gaussian
from condvae.objectives import Bound, KLEstimate
from condvae.vdvae.model import Step

MODEL = small_conditional()
OBSERVATION = MODEL.observe(images(3), some_known(3))
GROUPS = len(MODEL.artifact.config.group_stages)


@torch.no_grad()
def bound(temperature: float | Tensor, kl: KLEstimate = "analytic") -> Bound:
    assert OBSERVATION.pixels is not None and OBSERVATION.known is not None
    return objectives.evidence(
        MODEL.artifact,
        MODEL.posterior(OBSERVATION),
        OBSERVATION.pixels,
        OBSERVATION.known[:, 0],
        noise=generator(1),
        kl=kl,
        prior_temperature=temperature,
    )


def test_at_temperature_1_it_is_the_reverse_objective() -> None:
    plain = objectives.reverse(MODEL, OBSERVATION, noise=generator(1))
    for temperature in (1, 1.0, torch.ones(()), torch.ones(GROUPS), torch.ones(3, GROUPS)):
        assert torch.equal(bound(temperature).nats, plain.nats)


@pytest.mark.parametrize("kl", ["analytic", "sampled"])
def test_the_temperature_scales_the_standard_deviation_of_the_prior(kl: KLEstimate) -> None:
    temperature = torch.linspace(0.5, 2, GROUPS)

    def score(step: Step) -> Tensor:
        prior, c = step.prior(), step.drawn_from
        scaled = Gaussian(prior.mean, (temperature[step.group] * prior.log_std.exp()).log())
        if kl == "analytic":
            return c.total_kl_to(scaled)
        return (c.log_prob(step.z) - scaled.log_prob(step.z)).flatten(1).sum(dim=1)

    with torch.no_grad():
        source = MODEL.posterior(OBSERVATION)
        expected = MODEL.artifact.descend(source, batch=3, noise=generator(1), score=score)
    found = bound(temperature, kl)
    torch.testing.assert_close(found.kl_nats, expected.scores, rtol=1e-4, atol=1e-3)
    # The temperature of the prior does not affect z or the pixels.
    assert torch.equal(found.log_likelihood_nats, bound(1.0, kl).log_likelihood_nats)  # type: ignore[arg-type]


def test_temperatures_per_group_and_per_image() -> None:
    by_image = torch.tensor([[0.7], [1.0], [1.6]]).expand(3, GROUPS)
    found = bound(by_image).nats
    for i, temperature in enumerate((0.7, 1.0, 1.6)):
        torch.testing.assert_close(found[i], bound(temperature).nats[i])
        torch.testing.assert_close(found[i], bound(torch.full((GROUPS,), temperature)).nats[i])
    one_group = torch.ones(GROUPS)
    one_group[1] = 1.5
    changed = bound(one_group).kl_nats != bound(1.0).kl_nats
    assert changed[:, 1].all() and not changed[:, :1].any() and not changed[:, 2:].any()


@pytest.mark.parametrize("temperature", [0, -1.0, float("nan"), float("inf")])
def test_temperatures_that_are_not_positive_and_finite_are_errors(temperature: float) -> None:
    with pytest.raises(ValueError, match=r"prior's temperature is .*, expected a finite number above 0"):
        bound(temperature)
