"""The fast sampler draws the same samples as the plain one, for any chunk size."""

from typing import Any

import pytest
import torch
from helpers.models import images, small_conditional, some_known

from condvae.conditional import ConditionalVAE, PartialConfig
from condvae.observe import Observation
from condvae.runtime.pixels import to_uint8
from condvae.sampling.degenerate import Flaws
from condvae.sampling.plain import PixelChoice, chunks, sample_conditional, seeds_from
from condvae.sampling.sampler import Sampler
from condvae.vdvae import VDVAE, preset

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


def model_and_observation(form: str = "direct") -> tuple[ConditionalVAE, Observation]:
    model = small_conditional(form=form).to(DEVICE)
    return model, model.observe(images(3).to(DEVICE), some_known(3).to(DEVICE))


def plain(
    model: ConditionalVAE, observation: Observation, n: int, pixels: PixelChoice, temperature: float
) -> torch.Tensor:
    noise = seeds_from(7, n, observations=range(len(observation)))
    made = sample_conditional(model, observation, n, noise=noise, pixels=pixels, temperature=temperature).images
    levels = to_uint8(observation.paste(made, n=n))
    return levels.view(len(observation), n, *levels.shape[1:])


@pytest.mark.parametrize("form", ["direct", "relative"])
@pytest.mark.parametrize("pixels", ["sample", "mean"])
@pytest.mark.parametrize("chunk", [None, 1, 4, 7])
def test_full_precision_gives_the_plain_samples_in_any_chunks(
    chunk: int | None, pixels: PixelChoice, form: str
) -> None:
    model, observation = model_and_observation(form)
    sampler = Sampler(model, precision="fp32", chunk=chunk)
    got = sampler(observation, 5, seed=7, pixels=pixels, temperature=0.8)
    difference = (got.int() - plain(model, observation, 5, pixels, 0.8).int()).abs()
    assert got.dtype == torch.uint8
    assert difference.max() <= 1  # another batch size may round differently
    # This holds whatever else is drawn, and however often the sampler was used before.
    fewer = sampler(observation, 2, seed=7, pixels=pixels, temperature=0.8)
    assert (fewer.int() - got[:, :2].int()).abs().max() <= 1
    assert not torch.equal(sampler(observation, 5, seed=8, pixels=pixels), got)


def test_known_pixels_are_exact_and_observations_without_pixels_work() -> None:
    model, observation = model_and_observation()
    got = Sampler(model)(observation, 2)
    assert observation.known is not None
    assert observation.pixels is not None
    known = observation.known[:, None].expand_as(got)
    assert torch.equal(got[known], to_uint8(observation.pixels)[:, None].expand_as(got)[known])
    blind = Observation(y=observation.y)
    assert Sampler(model)(blind, 2).shape == (3, 2, 3, 8, 8)


def test_temperatures_by_group_and_zero() -> None:
    model, observation = model_and_observation()
    sampler = Sampler(model, precision="fp32")
    cold = sampler(observation, 3, temperature=0.0, pixels="mean")
    assert all(torch.equal(cold[:, 0], cold[:, k]) for k in (1, 2))
    groups = len(model.artifact.config.group_stages)
    assert torch.equal(sampler(observation, 3, temperature=[0.0] * groups, pixels="mean"), cold)
    assert not torch.equal(sampler(observation, 3, temperature=[1.0] + [0.0] * (groups - 1), pixels="mean"), cold)


def test_samples_that_overflow_in_half_precision_are_redrawn_in_float32() -> None:
    model, observation = model_and_observation()
    sampler = Sampler(model, precision="fp32")
    wanted = sampler(observation, 4, seed=7)

    def spoilt(*asked: Any) -> tuple[torch.Tensor, Flaws]:
        made = wanted.clone()
        flaws = Flaws(*(torch.zeros(3, 4, dtype=torch.bool, device=DEVICE) for _ in range(2)))
        made[1, 2], flaws.broken[1, 2] = 0, True
        return made, flaws

    sampler.graphs = spoilt  # type: ignore[assignment]
    assert (sampler(observation, 4, seed=7).int() - wanted.int()).abs().max() <= 1


def test_bad_input_is_refused() -> None:
    model, observation = model_and_observation()
    with pytest.raises(ValueError, match="number of samples"):
        Sampler(model)(observation, 0)
    with pytest.raises(ValueError, match="chunk"):
        Sampler(model, chunk=0)
    with pytest.raises(ValueError, match="precision"):
        Sampler(model, precision="fp8")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="temperature"):
        Sampler(model)(observation, 1, temperature=-1.0)


@pytest.mark.parametrize(("observations", "n", "most"), [(3, 5, 7), (3, 5, 4), (1, 1, 9), (10, 1, 4), (2, 3, 1)])
def test_chunks_cover_every_sample_once_and_stay_small(observations: int, n: int, most: int) -> None:
    seen = torch.zeros(observations, n, dtype=torch.int64)
    pieces = list(chunks(observations, n, most))
    for rows, columns in pieces:
        assert 0 < seen[rows, columns].numel() <= min(most, seen[pieces[0]].numel())
        seen[rows, columns] += 1
    assert (seen == 1).all()


@gpu
@pytest.mark.parametrize("form", ["direct", "relative"])
@pytest.mark.parametrize("scales", ["log_std", "softplus"])
def test_graphs_and_kernels_draw_the_plain_images(form: str, scales: str) -> None:
    """In half precision, means of pixels differ by at most 2/255; so do sampled pixels, unless a component changes."""
    torch.manual_seed(0)
    vae = VDVAE(preset("small32", scales=scales))
    model = ConditionalVAE(vae, PartialConfig(channels=4, form=form)).to(DEVICE)  # type: ignore[arg-type]
    observation = model.observe(images(2, size=32).to(DEVICE), some_known(2, size=32).to(DEVICE))
    said: list[str] = []
    sampler = Sampler(model, say=said.append, chunk=8)
    assert sampler.precision == "fp16"
    for n in (1, 5, 20):
        mean, drawn = (sampler(observation, n, seed=7, pixels=pixels) for pixels in ("mean", "sample"))
        assert (mean.int() - plain(model, observation, n, "mean", 1.0).int()).abs().max() <= 2
        assert ((drawn.int() - plain(model, observation, n, "sample", 1.0).int()).abs() > 2).float().mean() < 1e-3
    assert torch.equal(sampler(observation, 20, seed=7)[:, :5], sampler(observation, 20, seed=7)[:, :5])
    assert not said
