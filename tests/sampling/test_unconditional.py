"""A sample depends only on its own number, and images are rebuilt from the requested latents."""

from dataclasses import replace

import pytest
import torch
from helpers.models import images, small_vae

from condvae.runtime.pixels import to_uint8
from condvae.sampling.plain import reconstruct, sample_prior, seeds_from
from condvae.sampling.unconditional import draw_samples, groups_down_to, rebuild
from condvae.vdvae import VDVAE, preset
from condvae.weights import load_conditional


@pytest.fixture(scope="module")
def vae() -> VDVAE:
    return small_vae().eval()


def test_sample_k_does_not_depend_on_how_many_there_are(vae: VDVAE) -> None:
    many = list(draw_samples(vae, 37, seed=3))
    assert len(many) == 37
    assert all(image.shape == (3, 8, 8) and image.dtype == torch.uint8 for image in many)
    for n in (1, 8, 16, 17):
        few = list(draw_samples(vae, n, seed=3))
        assert all(torch.equal(one, other) for one, other in zip(few, many, strict=False))
    assert len({image.numpy().tobytes() for image in many}) == 37
    assert not torch.equal(next(draw_samples(vae, 1, seed=4)), many[0])


def test_samples_do_not_depend_on_threads() -> None:
    vae, before = load_conditional("faces64").artifact, torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        alone = list(draw_samples(vae, 9))
        torch.set_num_threads(2)
        assert all(torch.equal(one, other) for one, other in zip(draw_samples(vae, 6), alone, strict=False))
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


def test_samples_are_those_of_the_prior(vae: VDVAE) -> None:
    for temperature, factors in ((0.5, 0.5), ("4:0.5", [1, 0.5, 0.5, 1])):
        drawn = torch.stack(list(draw_samples(vae, 16, seed=1, temperature=temperature, pixels="sample")))
        expected = sample_prior(vae, 16, noise=seeds_from(1, 16), temperature=factors, pixels="sample").images
        assert (drawn.int() - to_uint8(expected).int()).abs().max() <= 1  # another batch size may round differently


def test_temperature_zero_and_the_mean_are_one_image(vae: VDVAE) -> None:
    one, *others = draw_samples(vae, 5, temperature=0)
    assert all(torch.equal(one, other) for other in others)


def test_images_are_rebuilt_from_all_their_latents(vae: VDVAE) -> None:
    x = images(20)
    back = rebuild(vae, x, seed=2)
    assert back.shape == x.shape and back.dtype == torch.uint8
    expected = to_uint8(reconstruct(vae, x, noise=seeds_from(2, 1, observations=range(20))).images)
    assert (back.int() - expected.int()).abs().max() <= 1  # computed in chunks, so rounding may differ
    assert torch.equal(rebuild(vae, x, seed=2, groups=4), back)


def test_fewer_latents_of_the_image_keep_less_of_it(vae: VDVAE) -> None:
    """Two images are rebuilt equal if none of their latents are used, and different if some are."""
    two = torch.cat([images(1), -images(1)])
    apart = []
    for groups in range(5):
        one, other = (rebuild(vae, x[None], groups=groups, seed=1).float() for x in two)
        apart.append(float((one - other).abs().mean()))
    assert apart[0] == 0
    assert all(distance > 0 for distance in apart[1:])
    # With another seed, the other groups are drawn differently from the prior.
    assert not torch.equal(rebuild(vae, two, groups=1, seed=1), rebuild(vae, two, groups=1, seed=2))


def test_groups_down_to_a_resolution() -> None:
    config = preset("tiny")
    assert [groups_down_to(config, resolution) for resolution in (1, 4, 8)] == [1, 3, 4]
    no_fine_latents = replace(config, stages=(replace(config.stages[0], latent_blocks=0), *config.stages[1:]))
    assert groups_down_to(no_fine_latents, 4) == 3
    for resolution in (2, 8, 16):
        with pytest.raises(ValueError, match=f"no latents at resolution {resolution}, only at 1, 4$"):
            groups_down_to(no_fine_latents, resolution)


def test_bad_arguments_are_refused(vae: VDVAE) -> None:
    with pytest.raises(ValueError, match="number of samples"):
        next(draw_samples(vae, 0))
    with pytest.raises(ValueError, match="5 latent groups were requested, but this model has 4"):
        rebuild(vae, images(1), groups=5)
    with pytest.raises(ValueError, match="number of latent groups"):
        rebuild(vae, images(1), groups=-1)
    with pytest.raises(ValueError, match="resize it"):
        rebuild(vae, images(1, size=4))
