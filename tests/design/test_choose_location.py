from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from helpers.factor_worlds import linear_classifier
from helpers.models import images, small_conditional, some_known

from condvae import ConditionalVAE, PartialConfig, design
from condvae.completers import RandomTrainingImage
from condvae.data import ImageSet
from condvae.design import Candidates, Completions, Greedy, information_gains, next_location
from condvae.design.choose_location import Location
from condvae.observe import Edges, Observation
from condvae.runtime.pixels import to_uint8
from condvae.sampling.sampler import Sampler

MODEL = small_conditional()  # 8 x 8, RGB
G = linear_classifier(channels=3)
GRID = Candidates.grid(8, side=2, points=4)
KNOWN = some_known(1) & (torch.arange(8) < 5)
SEEN = MODEL.observe(images(1), KNOWN)


def same(one: Location, other: Location) -> bool:
    return torch.equal(one.completions, other.completions) and torch.equal(one.scores, other.scores)


def test_the_location_and_its_estimates() -> None:
    place = next_location(SEEN, MODEL, G, GRID, variable="other", n=5)
    assert place.completions.shape == (5, 3, 8, 8) and place.gains.shape == (5, 16)
    assert SEEN.pixels is not None
    assert torch.equal(
        torch.where(KNOWN, place.completions, 0), torch.where(KNOWN, to_uint8(SEEN.pixels), 0).expand(5, -1, -1, -1)
    )
    log_p = design.look_ahead(G, place.completions[None], KNOWN, GRID, variable=1)[0]
    torch.testing.assert_close(place.gains, information_gains(log_p))
    torch.testing.assert_close(place.eig, place.gains.mean(dim=0))
    assert torch.equal(place.eig, place.scores) and place.index == int(place.eig.argmax())
    assert GRID.corners is not None
    assert place.corner == tuple(GRID.corners[place.index].tolist())
    assert torch.equal(place.window, GRID.windows[place.index])
    assert place.posterior.shape == (3,) and abs(float(place.posterior.sum()) - 1) < 1e-6
    assert torch.equal(place.posterior, G.log_posterior(torch.where(KNOWN, SEEN.pixels, 0.0), KNOWN)[0, 1].exp())
    # Both import paths give the function: a submodule of the same name would hide it.
    assert design.next_location is next_location


def test_the_result_is_repeatable_and_depends_on_the_seed() -> None:
    place = next_location(SEEN, MODEL, G, GRID, n=5, seed=3)
    assert same(place, next_location(SEEN, MODEL, G, GRID, n=5, seed=3))
    assert not same(place, next_location(SEEN, MODEL, G, GRID, n=5, seed=4))
    assert not same(place, next_location(SEEN, MODEL, G, GRID, n=5, seed=3, temperature=0.5))
    assert not same(place, next_location(SEEN, MODEL, G, GRID, n=5, seed=3, pixels="sample"))
    still = next_location(SEEN, MODEL, G, GRID, n=5, temperature=0.0)
    assert (still.completions == still.completions[0]).all() and not still.eig.any()


def test_a_sampler_or_any_completer_can_be_given() -> None:
    sampler = Sampler(MODEL, precision="fp32")
    assert same(next_location(SEEN, sampler, G, GRID, n=5), next_location(SEEN, MODEL, G, GRID, n=5))
    train = ImageSet(
        images=np.random.default_rng(0).integers(0, 256, (60, 8, 8, 3), dtype=np.uint8), rows=np.arange(60)
    )
    completer = RandomTrainingImage(images=train)
    place = next_location(SEEN, completer, G, GRID, n=5, estimator="epe")
    policy = Greedy(
        name="",
        classifier=G,
        candidates=GRID,
        variable=0,
        source=Completions(completer=completer),
        n=5,
        estimator="epe",
    )
    choice = policy.choose(SEEN, 0, seed=0, places=[0])
    assert choice.scores is not None and torch.equal(choice.scores[0], place.scores)
    assert place.index == choice.index and not torch.equal(place.scores, place.eig)


def test_windows_that_are_not_squares_have_no_corner() -> None:
    windows = torch.zeros(8, 1, 8, 8, dtype=torch.bool)
    windows[torch.arange(8), 0, torch.arange(8)] = True  # lines
    place = next_location(SEEN, MODEL, G, Candidates(windows=windows), n=3)
    assert place.corner is None and place.window.sum() == 8


@pytest.mark.parametrize("hidden", [0.25, -1.0, 7.0, torch.nan])
def test_hidden_pixels_do_not_matter(hidden: float) -> None:
    assert SEEN.pixels is not None
    pixels = torch.where(KNOWN, SEEN.pixels, hidden)
    other = Observation(y=torch.cat((pixels, KNOWN.float()), dim=1), known=KNOWN, pixels=pixels)
    assert same(next_location(other, MODEL, G, GRID, n=3), next_location(SEEN, MODEL, G, GRID, n=3))


def test_impossible_requests_are_refused() -> None:
    whole = MODEL.observe(images(1), torch.ones(1, 1, 8, 8, dtype=torch.bool))
    with pytest.raises(ValueError, match="nothing is left to scan: the whole image is known"):
        next_location(whole, MODEL, G, GRID)
    with pytest.raises(ValueError, match="nothing is left to scan: all pixels of every candidate are known"):
        next_location(MODEL.observe(images(1), GRID.windows[:1]), MODEL, G, Candidates.at(8, [(0, 0)], side=2))
    with pytest.raises(ValueError, match="2 observations were given"):
        next_location(MODEL.observe(images(2), some_known(2)), MODEL, G, GRID)
    with pytest.raises(ValueError, match="does not state which pixels are known"):
        next_location(Observation(y=torch.zeros(1, 1, 8, 8)), MODEL, G, GRID)
    with pytest.raises(ValueError, match=r"the observed image is 8 x 8 pixels"):
        next_location(SEEN, MODEL, G, Candidates.grid(16, side=4))
    assert SEEN.pixels is not None
    grey = Observation(y=SEEN.y[:, :2], known=KNOWN, pixels=SEEN.pixels[:, :1])
    with pytest.raises(ValueError, match="the observed image has 1 channel,"):
        next_location(grey, MODEL, G, GRID)
    with pytest.raises(ValueError, match="has NaN"):
        next_location(replace(SEEN, pixels=SEEN.pixels * torch.nan), MODEL, G, GRID)
    with pytest.raises(ValueError, match="does not predict 'colour'"):
        next_location(SEEN, MODEL, G, GRID, variable="colour")
    with pytest.raises(ValueError, match="not trained to complete images"):
        next_location(SEEN, ConditionalVAE(MODEL.artifact, PartialConfig(channels=1)), G, GRID)


def test_a_model_that_does_not_complete_images_is_refused() -> None:
    translator = small_conditional()
    translator.process = Edges()
    with pytest.raises(ValueError, match="the model was not trained to complete images"):
        next_location(SEEN, translator, G, GRID)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"observation": SEEN.y}, "the argument observation has type Tensor"),
        ({"model": "xray"}, "the argument model has type str"),
        ({"model": MODEL.artifact}, "the argument model has type VDVAE"),
        ({"classifier": "xray"}, "the argument classifier has type str"),
        ({"candidates": GRID.windows}, "the argument candidates has type Tensor"),
        ({"seed": -1}, "the seed is -1"),
        ({"seed": 0.5}, "the seed is 0.5"),
        ({"n": 0}, "the number n of completions or training images is 0"),
    ],
)
def test_arguments_of_the_wrong_type_are_refused(change: dict[str, Any], words: str) -> None:
    given: dict[str, Any] = {"observation": SEEN, "model": MODEL, "classifier": G, "candidates": GRID}
    with pytest.raises(ValueError, match=words):
        next_location(**{**given, **change})
