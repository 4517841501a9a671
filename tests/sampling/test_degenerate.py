"""Samples that are NaN, infinite or saturated are an error or a warning, for every way to draw samples."""

from collections.abc import Callable

import pytest
import torch
from helpers.models import images, small_conditional, some_known
from torch import Tensor

from condvae import DegenerateSamples
from condvae.completers.model_completer import ModelCompleter
from condvae.conditional import ConditionalVAE
from condvae.design.sources import Completions
from condvae.likelihood import GaussianPixels, LogisticMixture
from condvae.observe import Observation
from condvae.sampling import Sampler, draw_samples, rebuild, reconstruct, sample_conditional, sample_prior, seeds_from
from condvae.sampling.degenerate import Flaws, check_flaws, far_outside, find_flaws, identity_warning
from condvae.sampling.gpu_graphs import GPUGraphs
from condvae.sampling.plain import completion_seeds

Draw = Callable[[ConditionalVAE, float], object]
GAUSSIAN, MIXTURE = GaussianPixels(channels=1), LogisticMixture(channels=1, components=2)


def parameters(means: Tensor) -> Tensor:
    """Parameters of `GAUSSIAN` for means [B, 1, H, W]."""
    return torch.cat((means, torch.full_like(means, -3)), dim=1)


def observed(model: ConditionalVAE) -> Observation:
    return model.observe(images(2), some_known(2))


WAYS: dict[str, Draw] = {
    "sampler": lambda model, t: Sampler(model)(observed(model), 4, temperature=t),
    "shared": lambda model, t: Sampler(model)(observed(model), 4, temperature=t, share=4),
    "completer": lambda model, t: Completions(completer=ModelCompleter.of(model, name="m", temperature=t)).imagine(
        observed(model), 4, 0, [0, 1]
    ),
    "conditional": lambda model, t: sample_conditional(
        model, observed(model), 4, noise=seeds_from(0, 4, observations=range(2)), temperature=t
    ),
    "prior": lambda model, t: sample_prior(model.artifact, 8, noise=seeds_from(0, 8), temperature=t),
    "samples": lambda model, t: list(draw_samples(model.artifact, 8, temperature=t)),
    "reconstruct": lambda model, t: reconstruct(model.artifact, images(8), noise=seeds_from(0, 8), temperature=t),
}


@pytest.mark.parametrize("way", [*WAYS, "rebuild"])
def test_nan_and_huge_weights_are_an_error_however_samples_are_drawn(way: str) -> None:
    def rebuilt(model: ConditionalVAE, temperature: float) -> object:
        return rebuild(model.artifact, images(8))

    draw = WAYS.get(way, rebuilt)
    said = "use another model file, because the weights of this one are damaged"
    broken, huge = small_conditional(), small_conditional()
    with torch.no_grad():
        broken.artifact.decoder.bias.fill_(torch.nan)
        huge.artifact.decoder.output.weight.mul_(1e18)  # finite pixels, but far outside the range of grey levels
    with pytest.raises(ValueError, match=rf"^(\d) of \1 \w+ cannot be used, .* NaN or infinite: {said}"):
        draw(broken, 1.0)
    with pytest.raises(ValueError, match=rf"^8 of 8 \w+ are saturated, .*: {said}"):
        draw(huge, 1.0)


@pytest.mark.parametrize("way", WAYS)
def test_a_high_temperature_is_an_error_that_says_so(way: str) -> None:
    for temperature, what in ((1e30, "cannot be used, because pixels are NaN or infinite"), (100.0, "are saturated")):
        with pytest.raises(ValueError, match=what) as found:
            WAYS[way](small_conditional(), temperature)
        assert str(found.value).endswith(f": lower the temperature, which is {temperature:g}, to 1 or less")


def test_some_saturated_completions_are_a_warning_with_their_number() -> None:
    model = small_conditional()
    observation = model.observe(images(1), some_known(1))
    sampler = Sampler(model)
    flaws = sampler.drawn(observation, completion_seeds(0, 16), temperature=2.2).flaws
    count = int(flaws.saturated.sum())
    assert 0 < count < 16 and not flaws.broken.any()
    with pytest.warns(
        DegenerateSamples, match=rf"^{count} of 16 completions (is|are) saturated, .*: do not use"
    ) as told:
        made = sampler(observation, 16, temperature=2.2)
    assert [str(one.filename) for one in told] == [__file__]  # the warning points at the line of the caller
    assert torch.equal(made, sampler.drawn(observation, completion_seeds(0, 16), temperature=2.2).images)
    sampler(observation, 16, temperature=1.0)  # warnings are errors in tests


@pytest.mark.parametrize("chunk", [None, 4])
def test_the_back_end_for_gpus_finds_the_same_flaws(chunk: int | None) -> None:
    model = small_conditional()
    plain, other = (Sampler(model, precision="fp32") for _ in range(2))
    other.graphs = GPUGraphs(model, dtype=torch.float32, chunk=chunk, fused=False, record=False, say=None)
    for temperature in (1.0, 2.2, 1e30):
        seeds = completion_seeds(0, 5, (0, 1))
        wanted, found = (one.drawn(observed(model), seeds, temperature=temperature) for one in (plain, other))
        assert [part.tolist() for part in found.flaws] == [part.tolist() for part in wanted.flaws]


def test_black_and_white_images_are_not_saturated() -> None:
    means = torch.tensor([-1.0, 1.0, 1.1, -1.2]).repeat(16).view(1, 1, 8, 8)
    for temperature in (1.0, 2.0):
        flaws = find_flaws(GAUSSIAN, parameters(means), far_outside(GAUSSIAN, [temperature]))
        assert not flaws.broken.any() and not flaws.saturated.any()


@pytest.mark.parametrize(("temperature", "means"), [(1.0, 100.0), (2.0, 1.5)])
def test_more_than_a_quarter_of_the_hidden_pixels_decides(temperature: float, means: float) -> None:
    hidden = torch.zeros(1, 1, 8, 8, dtype=torch.bool)
    hidden[..., :4] = True
    x = torch.zeros(1, 1, 8, 8)

    def saturated() -> bool:
        limit = far_outside(GAUSSIAN, [0.5, temperature])
        return bool(find_flaws(GAUSSIAN, parameters(x), limit, hidden).saturated)

    x[..., 4:] = means  # known pixels do not count
    assert not saturated()
    x[..., :2, :4] = -means
    assert not saturated()
    x[..., 2, 0] = means
    assert saturated()


def test_a_mixture_is_judged_by_the_components_that_have_weight() -> None:
    limit = far_outside(MIXTURE, [2.0])
    weights, means = torch.tensor([0.0, -30.0]), torch.tensor([0.5, 1e6])
    for swapped in (False, True):
        order = means.flip(0) if swapped else means
        one = torch.cat((weights, order, torch.zeros(2)))[None, :, None, None].expand(1, 6, 4, 4)
        assert bool(find_flaws(MIXTURE, one, limit).saturated) == swapped


@pytest.mark.parametrize("value", [torch.nan, torch.inf, -torch.inf])
def test_one_number_that_is_not_finite_breaks_a_sample(value: float) -> None:
    two = parameters(torch.zeros(2, 1, 4, 4))
    two[1, 0, 2, 2] = value
    flaws = find_flaws(GAUSSIAN, two, 10.0)
    assert flaws.broken.tolist() == [False, True]
    with pytest.raises(ValueError, match=r"^1 of 2 completions of x\.png cannot be used"):
        check_flaws(flaws, 1.0, what="completion", of=" of x.png")
    assert check_flaws(Flaws(torch.tensor([False, False]), torch.tensor([True, False])), 1.0) == 1


def test_random_completions_that_are_all_the_same_are_no_certainty() -> None:
    same, known = torch.full((4, 3, 16, 16), 128, dtype=torch.uint8), torch.zeros(1, 16, 16, dtype=torch.bool)
    warning = identity_warning(same, known, 1.0, of=" of a.png")
    assert warning is not None and warning.startswith("all 4 completions of a.png are the same")
    assert identity_warning(same, None, 1.0) is not None
    assert identity_warning(same[:1], known, 1.0) is None  # one completion is always the same as itself
    assert identity_warning(same, known, 0.0) is None
    small = torch.ones_like(known)
    small[:, :4, :4] = False
    assert identity_warning(same, small, 1.0) is None
    same[2, 0, 5, 5] += 1
    assert identity_warning(same, known, 1.0) is None
