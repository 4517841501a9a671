"""The features of an image do not depend on other images, on the number of threads or on the order."""

import numpy as np
import pytest
import torch
from helpers.models import some_known
from helpers.ood_models import observing, plain_data

from condvae.observe import Observation
from condvae.ood.features import known_share, measure, measure_observation
from condvae.ood.inference import Inference
from condvae.ood.scores import Gradient, GradientParts, LikelihoodBound
from condvae.runtime.pixels import from_uint8
from condvae.sampling.plain import seeds_from

KNOWN = some_known(6)


def levels(count: int = 6) -> torch.Tensor:
    return plain_data().test.take(np.arange(count)).images


@pytest.mark.parametrize("score", [Gradient(), GradientParts(walks=2), LikelihoodBound()])
def test_no_bit_depends_on_other_images(score: Gradient) -> None:
    inference = Inference.of(observing())
    together = measure(score, inference, levels(), KNOWN, seed=3)
    assert together.dtype == np.float64
    alone = [measure(score, inference, levels()[i : i + 1], KNOWN[i : i + 1], seed=3, places=[i]) for i in range(6)]
    np.testing.assert_array_equal(together, np.concatenate(alone))
    order = [4, 0, 5]
    mixed = measure(score, inference, levels()[order], KNOWN[order], seed=3, places=order)
    np.testing.assert_array_equal(mixed, together[order])


def test_no_bit_depends_on_the_number_of_threads() -> None:
    inference, before = Inference.of(observing()), torch.get_num_threads()
    found = []
    try:
        for threads in (1, 3):
            torch.set_num_threads(threads)
            found.append(measure(GradientParts(), inference, levels(), KNOWN, seed=3))
    finally:
        torch.set_num_threads(before)
    np.testing.assert_array_equal(found[0], found[1])


def test_noise_depends_on_seed_and_place() -> None:
    inference, score = Inference.of(observing()), Gradient()
    twice = levels(1).expand(2, -1, -1, -1)
    first, second = measure(score, inference, twice, KNOWN[:1].expand(2, -1, -1, -1), seed=3)
    assert not np.allclose(first, second)
    (other,) = measure(score, inference, twice[:1], KNOWN[:1], seed=4)
    assert not np.allclose(first, other)


@pytest.mark.parametrize("kind", ["partial", "whole"])
def test_measured_features_are_those_of_the_score(kind: str) -> None:
    inference = Inference.of(observing(), kind)  # type: ignore[arg-type]
    known = KNOWN if kind == "partial" else None
    found = measure(Gradient(), inference, levels(), known, seed=3, places=range(10, 16))
    seeds = seeds_from(3, 1, observations=range(10, 16)).seeds
    expected = Gradient().features(inference, inference.observe(from_uint8(levels()), known), seeds)
    np.testing.assert_allclose(found, expected.numpy(), rtol=1e-4, atol=1e-2)


def test_all_pixels_are_known_by_default() -> None:
    inference = Inference.of(observing())
    everywhere = torch.ones_like(KNOWN)
    found = [measure(Gradient(), inference, levels(), known, seed=3) for known in (None, everywhere)]
    np.testing.assert_array_equal(found[0], found[1])


def test_known_shares() -> None:
    inference = Inference.of(observing())
    observation = inference.observe(from_uint8(levels()), KNOWN)
    np.testing.assert_allclose(known_share(observation), KNOWN.double().mean(dim=(1, 2, 3)).numpy())
    assert (known_share(inference.observe(from_uint8(levels()))) == 1).all()
    assert (known_share(Observation(y=torch.zeros(2, 1, 8, 8))) == 0).all()


def test_invalid_input_is_refused() -> None:
    class WholeOnly(Gradient):
        kind = "whole"

    inference = Inference.of(observing())
    with pytest.raises(ValueError, match=r"gradient needs whole images .* was given observations"):
        measure(WholeOnly(), inference, levels(), KNOWN, seed=0)
    with pytest.raises(ValueError, match="2 places were given for 6 images"):
        measure(Gradient(), inference, levels(), KNOWN, seed=0, places=[1, 2])
    with pytest.raises(ValueError, match="uint8 tensor"):
        measure(Gradient(), inference, from_uint8(levels()), KNOWN, seed=0)
    with pytest.raises(ValueError, match="hidden"):
        measure(Gradient(), Inference.of(observing(), "whole"), levels(), KNOWN, seed=0)
    spoilt = inference.observe(from_uint8(levels()), KNOWN)
    spoilt.y[0, 0, 0, 0] = torch.nan
    with pytest.raises(ValueError, match="NaN"):
        measure_observation(Gradient(), inference, spoilt, seed=0)
