import pytest
import torch
from helpers.models import generator, images, small_conditional, small_vae, some_known

from condvae.likelihood import GaussianPixels, LogisticMixture
from condvae.observe import Observation
from condvae.runtime.pixels import to_uint8
from condvae.sampling.plain import reconstruct, sample_conditional, sample_prior, seeds_from
from condvae.vdvae import preset


def test_a_sample_is_the_same_whatever_the_batch() -> None:
    for likelihood in (preset("tiny").likelihood, GaussianPixels()):
        vae = small_vae(preset("tiny", likelihood=likelihood))
        together = sample_prior(vae, 5, noise=seeds_from(3, 5))
        for i in range(5):
            alone = sample_prior(vae, 1, noise=seeds_from(3, 1, first=i))
            # Only rounding may differ: convolutions may sum in another order for another batch size.
            torch.testing.assert_close(alone.images[0], together.images[i], atol=1e-4, rtol=0)
        assert (together.images[0] - together.images[1]).abs().max() > 0.1


def test_sample_k_of_an_observation_depends_on_nothing_else_in_the_call() -> None:
    model = small_conditional()
    x, known = images(2), some_known(2)
    both = sample_conditional(model, model.observe(x, known), 3, noise=seeds_from(0, 3, observations=range(2))).images
    second = model.observe(x[1:], known[1:])
    for k in range(3):
        alone = sample_conditional(model, second, noise=seeds_from(0, 1, observations=[1], first=k)).images
        torch.testing.assert_close(alone[0], both[3 + k], atol=1e-4, rtol=0)
    more = sample_conditional(model, model.observe(x, known), 5, noise=seeds_from(0, 5, observations=range(2))).images
    torch.testing.assert_close(more[5:8], both[3:], atol=1e-4, rtol=0)
    assert len(set(seeds_from(2**40, 50, observations=range(20)).seeds)) == 1000


def test_y_is_encoded_once_for_all_samples() -> None:
    model = small_conditional()
    batches = []
    model.partial.pyramid.register_forward_hook(lambda module, inputs, output: batches.append(inputs[0].shape[0]))
    sample_conditional(model, model.observe(images(2), some_known(2)), 50, noise=generator())
    assert batches == [2]


def test_samples_depend_on_y_and_not_on_hidden_pixels() -> None:
    model = small_conditional()
    x, known = images(2), some_known(2)

    def draw(x: torch.Tensor) -> torch.Tensor:
        return sample_conditional(model, model.observe(x, known), noise=[0, 1], pixels="mean").images

    assert torch.equal(draw(x), draw(torch.where(known, x, -x)))
    assert not torch.allclose(draw(x), draw(torch.where(known, -x, x)), atol=1e-4)


def test_any_observation_without_pixels_can_be_sampled_from() -> None:
    model = small_conditional()
    observation = Observation(y=torch.randn(1, 4, 8, 8))
    drawn = sample_conditional(model, observation, 2, noise=generator())
    assert drawn.images.shape == (2, 3, 8, 8)
    assert observation.paste(drawn.images, n=2) is drawn.images


def test_known_pixels_come_back_exactly_at_5_bits_too() -> None:
    model = small_conditional(preset("tiny", likelihood=LogisticMixture(components=2, bits=5)))
    x, known = images(2), some_known(2)
    observation = model.observe(x, known)
    for pixels in ("sample", "mean"):
        drawn = sample_conditional(model, observation, noise=[0, 1], pixels=pixels)
        levels = to_uint8(observation.paste(drawn.images))
        assert torch.equal(torch.where(known, levels, 0), torch.where(known, to_uint8(x), 0))


def test_latents_come_out_and_go_back_in() -> None:
    vae = small_vae()
    first = sample_prior(vae, 2, noise=generator(), pixels="mean")
    again = sample_prior(vae, 2, noise=generator(9), pixels="mean", given=first.latents)
    torch.testing.assert_close(first.images, again.images)
    shared = sample_prior(vae, 2, noise=generator(9), pixels="mean", given=first.latents[:1])
    assert not torch.allclose(first.images, shared.images, atol=1e-3)


def test_colder_samples_vary_less() -> None:
    model = small_conditional()
    observation = model.observe(images(1), some_known(1))
    spreads = [
        float(
            sample_conditional(model, observation, 64, noise=seeds_from(0, 64), temperature=t, pixels="mean")
            .images.std(0)
            .mean()
        )
        for t in (0.0, 0.5, 1.0)
    ]
    assert spreads[0] < 1e-5 < spreads[1] < spreads[2]


def test_pixels_are_sampled_around_their_mean() -> None:
    vae = small_vae()
    latents = sample_prior(vae, 1, noise=generator(), pixels="mean").latents
    mean = sample_prior(vae, 1, noise=generator(), pixels="mean", given=latents).images
    many = [sample_prior(vae, 1, noise=generator(i), given=latents).images for i in range(400)]
    assert (torch.cat(many).mean(0) - mean).abs().mean() < 0.05


def test_reconstructions_use_x() -> None:
    vae = small_vae()
    x = images(2)
    a, b = (reconstruct(vae, value, noise=[0, 1]).images for value in (x, -x))
    assert a.shape == x.shape
    assert not torch.allclose(a, b, atol=1e-4)
    assert not a.requires_grad


def test_misuse_is_explained() -> None:
    vae = small_vae()
    with pytest.raises(ValueError, match="expected 'sample' or 'mean'"):
        sample_prior(vae, 1, noise=generator(), pixels="median")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="number of samples is 0"):
        sample_prior(vae, 0, noise=generator())
    with pytest.raises(ValueError, match="number of samples is -1"):
        sample_conditional(small_conditional(), Observation(y=torch.zeros(1, 4, 8, 8)), -1, noise=generator())
    with pytest.raises(ValueError, match="seed is -1"):
        seeds_from(-1, 1)
    with pytest.raises(ValueError, match="first sample is -1"):
        seeds_from(0, 1, first=-1)
    with pytest.raises(ValueError, match="NaN"):
        reconstruct(vae, images(1) * torch.nan, noise=generator())
