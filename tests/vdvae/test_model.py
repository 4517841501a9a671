import numpy as np
import pytest
import torch
from helpers.models import generator, images, small_vae

from condvae.likelihood import GaussianPixels
from condvae.vdvae import VDVAE, Step, preset


def test_the_same_latents_give_the_same_image() -> None:
    vae = small_vae()
    drawn = vae.descend(None, batch=2, noise=generator())
    again = vae.descend(None, batch=2, noise=[], given=drawn.latents)
    torch.testing.assert_close(again.state, drawn.state)


def test_first_latents_can_be_kept_and_the_others_drawn_again() -> None:
    vae = small_vae()
    first = vae.descend(None, batch=2, noise=[0, 1])
    kept = vae.descend(None, batch=2, noise=[7, 8], given=first.latents[:2])
    assert all(torch.equal(a, b) for a, b in zip(first.latents[:2], kept.latents[:2], strict=True))
    assert not any(torch.equal(a, b) for a, b in zip(first.latents[2:], kept.latents[2:], strict=True))
    # With seeds, each group has its own stream: the third group does not depend on whether the second was drawn.
    partly = vae.descend(None, batch=2, noise=[0, 1], given=[None, first.latents[1]])
    torch.testing.assert_close(partly.state, first.state)


def test_temperature_zero_gives_the_mean_and_can_be_set_per_group() -> None:
    vae = small_vae()
    steps: list[Step] = []

    def remember(step: Step) -> torch.Tensor:
        steps.append(step)
        return step.z.flatten(1).sum(dim=1)

    vae.descend(None, batch=1, noise=generator(), temperature=0.0, score=remember)
    assert all(torch.equal(step.z, step.prior().mean) for step in steps)
    steps.clear()
    vae.descend(None, batch=1, noise=generator(), temperature=np.array([1.0, 0.0, 1.0, 0.0]), score=remember)  # type: ignore[arg-type]
    assert [torch.equal(step.z, step.prior().mean) for step in steps] == [False, True, False, True]


def test_scores_are_kept_by_group() -> None:
    vae = small_vae()
    count = lambda step: torch.ones_like(step.z).flatten(1).sum(dim=1)  # noqa: E731
    scores = vae.descend(None, batch=3, noise=generator(), score=count).scores
    per_group = [float(vae.config.latent_channels * s.resolution**2) for s in vae.config.group_stages]
    assert scores.tolist() == [per_group] * 3


def test_normalisation_is_that_of_grey_levels() -> None:
    vae = small_vae(preset("tiny", normalisation=preset("cifar10").normalisation))
    torch.testing.assert_close(vae.normalise(torch.tensor(200 / 127.5 - 1)), torch.tensor((200 - 120.63838) / 64.16736))


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("scales", ["log_std", "softplus"])
def test_grey_and_colour_log_probabilities_are_per_pixel(channels: int, scales: str) -> None:
    for likelihood in (preset("tiny").likelihood, GaussianPixels()):
        vae = small_vae(preset("tiny", channels=channels, scales=scales, likelihood=likelihood))
        x = images(2, channels=channels)
        state = vae.descend(vae.posterior(x), batch=2, noise=generator()).state
        log_prob = vae.pixel_log_prob(state, x)
        assert log_prob.shape == (2, 8, 8)
        changed = x.clone()
        changed[:, :, 3, 5] = -x[:, :, 3, 5]
        touched = vae.pixel_log_prob(state, changed) != log_prob
        assert touched.nonzero().tolist() == [[0, 3, 5], [1, 3, 5]]


def test_misuse_is_explained() -> None:
    vae = small_vae()
    with pytest.raises(ValueError, match="a list of 3 temperatures was given"):
        vae.descend(None, batch=1, noise=generator(), temperature=[1, 1, 1])
    for wrong in (float("nan"), -1.0, float("inf")):
        with pytest.raises(ValueError, match="expected a number >= 0"):
            vae.descend(None, batch=1, noise=generator(), temperature=wrong)
    with pytest.raises(ValueError, match="16 x 16 pixels, expected"):
        vae.posterior(images(1, size=16))
    with pytest.raises(ValueError, match="latents were given for 5 groups, but the model has 4 latent groups"):
        vae.descend(None, batch=1, noise=generator(), given=[None] * 5)
    with pytest.raises(ValueError, match="group 0 have shape"):
        vae.descend(None, batch=1, noise=generator(), given=[torch.zeros(1, 3, 1, 1)])


def test_large_networks_can_be_created_on_the_meta_device() -> None:
    with torch.device("meta"):
        vae = VDVAE(preset("ffhq1024"))
    assert len(vae.encoder.heads) == 70
