"""Posteriors whose calibration is known: Gaussian images of which a part is observed."""

import math

import numpy as np
import pytest
import tarp
import torch
from helpers.models import generator
from torch import Tensor

from condvae.metrics import Calibration, calibration, coverage, projection_ranks, reference_ranks

SIDE = 4
PIXELS = SIDE * SIDE


def covariance() -> Tensor:
    """Covariance of images whose neighbouring pixels are correlated."""
    places = torch.cartesian_prod(torch.arange(SIDE), torch.arange(SIDE)).double()
    return (-torch.cdist(places, places) / 2).exp()


def hidden_pixels(count: int) -> Tensor:
    hidden = torch.zeros(1, 1, SIDE, SIDE, dtype=torch.bool)
    hidden[..., SIDE // 4 :, :] = True
    return hidden.expand(count, -1, -1, -1)


def posterior(count: int, k: int, *, spread: float = 1.0, bias: float = 0.0, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Images x ~ N(0, S), and samples of N(E[x~ | y] + bias, spread^2 Cov[x~ | y]): exact if spread = 1, bias = 0."""
    root = torch.linalg.cholesky(covariance())
    x = torch.randn(count, PIXELS, generator=generator(seed), dtype=torch.float64) @ root.T
    unknown = hidden_pixels(1).flatten()
    s = covariance()
    weight = torch.linalg.solve(s[~unknown][:, ~unknown], s[~unknown][:, unknown]).T
    rest = torch.linalg.cholesky(s[unknown][:, unknown] - weight @ s[~unknown][:, unknown])
    noise = torch.randn(count, k, len(rest), generator=generator(seed + 1), dtype=torch.float64) @ rest.T
    samples = x[:, None].repeat(1, k, 1)
    samples[:, :, unknown] = (x[:, ~unknown] @ weight.T)[:, None] + spread * noise + bias
    return x.reshape(count, 1, SIDE, SIDE), samples.reshape(count, k, 1, SIDE, SIDE)


def by_projections(truth: Tensor, samples: Tensor, *, projections: int = 8) -> Calibration:
    hidden = hidden_pixels(len(truth))
    return calibration(projection_ranks(truth, samples, hidden, projections=projections, seed=3))


def distances_to(points: Tensor, images: Tensor) -> Tensor:
    return (images.flatten(-3) - points.flatten(-3)).square().sum(dim=-1)


def by_references(truth: Tensor, samples: Tensor, references: int = 4) -> Calibration:
    points = 1.5 * torch.randn(len(truth), references, 1, SIDE, SIDE, generator=generator(9), dtype=torch.float64)
    to_truth = distances_to(points, truth[:, None])
    to_samples = torch.stack([distances_to(points[:, r, None], samples) for r in range(references)], dim=2)
    return calibration(reference_ranks(to_truth, to_samples, seed=3), one_sided=True)


def test_a_calibrated_posterior_is_recognised() -> None:
    truth, samples = posterior(1500, 20)
    for found in (by_projections(truth, samples), by_references(truth, samples)):
        assert found.verdict == "calibrated"
        assert found.images == 1500
        assert found.p_value > 0.01
        assert found.largest < found.band
        assert found.error < 3 * found.error_by_chance
        assert found.error < 0.01
        torch.testing.assert_close(found.histogram, torch.ones(20).double(), rtol=0, atol=0.15)


@pytest.mark.parametrize(("spread", "verdict"), [(0.7, "overconfident"), (1.4, "underconfident")])
def test_a_posterior_that_is_too_narrow_or_too_wide_is_recognised(spread: float, verdict: str) -> None:
    truth, samples = posterior(1000, 20, spread=spread)
    for found in (by_projections(truth, samples), by_references(truth, samples)):
        assert found.verdict == ("miscalibrated" if found.one_sided else verdict)
        assert found.p_value < 0.01
        assert found.largest > found.band
        assert found.error > 3 * found.error_by_chance
    projected = by_projections(truth, samples)
    assert bool((projected.coverage < projected.levels).all()) == (spread < 1)
    middle = projected.histogram[8:12].mean()
    assert bool(middle < projected.histogram[[0, -1]].mean()) == (spread < 1)


def test_a_biased_posterior_leaves_the_truth_outside() -> None:
    truth, samples = posterior(1000, 20, bias=1.5)
    projected = by_projections(truth, samples)
    assert projected.verdict == "overconfident"
    assert abs(projected.shift.mean) < 4 * projected.shift.standard_error
    # With all references on one side the bias appears as a shift.
    points = torch.full((1000, 1, 1, SIDE, SIDE), -4.0).double()
    ranks = reference_ranks(distances_to(points, truth[:, None]), distances_to(points, samples)[..., None], seed=0)
    found = calibration(ranks, one_sided=True)
    assert found.shift.mean < -0.2
    assert found.leaning.mean == pytest.approx(2 * found.shift.mean)
    assert found.p_value < 0.01


def test_a_curve_on_both_sides_of_the_diagonal_is_not_called_calibrated() -> None:
    """With references far beyond both ends of a narrow posterior, the truth is nearer as often as it is farther."""
    truth = torch.randn(1000, 1, generator=generator(), dtype=torch.float64)
    samples = 0.5 * torch.randn(1000, 20, 1, generator=generator(1), dtype=torch.float64)
    found = calibration(reference_ranks((truth - 9).abs(), (samples - 9).abs(), seed=0), one_sided=True)
    assert abs(found.leaning.mean) < 3 * found.leaning.standard_error
    assert found.verdict == "miscalibrated"


def test_coverage_of_a_narrow_normal_has_a_closed_form() -> None:
    """If the std is s times the true one, the central interval of level a covers P(|N| < s Phi^-1((1 + a) / 2))."""
    count, k, spread = 4000, 200, 0.5
    truth = torch.randn(count, 1, 1, 1, generator=generator(), dtype=torch.float64)
    samples = spread * torch.randn(count, k, 1, 1, 1, generator=generator(1), dtype=torch.float64)
    every = torch.ones(count, 1, 1, 1, dtype=torch.bool)
    found = calibration(projection_ranks(truth, samples, every, projections=1, seed=0))
    expected = torch.special.erf(spread * torch.special.ndtri((1 + found.levels) / 2) / math.sqrt(2))
    torch.testing.assert_close(found.coverage, expected, rtol=0, atol=4 * 0.5 / count**0.5 + 1 / k)
    assert found.error == pytest.approx(float((expected - found.levels).abs().mean()), abs=0.015)


@pytest.mark.parametrize("k", [1, 2, 7])
@pytest.mark.parametrize("values", [2, 3, 1000])
def test_ranks_of_exchangeable_images_are_uniform_in_spite_of_ties(k: int, values: int) -> None:
    """Truth and samples come from the same distribution over few grey levels, so most projections tie."""
    count = 8000
    levels = torch.randint(values, (count, k + 1, 1, 1, 1), generator=generator(k)).clamp_max(255).to(torch.uint8)
    hidden = torch.ones(count, 1, 1, 1, dtype=torch.bool)
    ranks = projection_ranks(levels[:, 0], levels[:, 1:], hidden, projections=1, seed=1).flatten()
    assert ((ranks > 0) & (ranks < 1)).all()
    counts = torch.histc(ranks, 10, 0, 1)
    assert float(((counts - count / 10) ** 2 / (count / 10)).sum()) < 30  # chi-square, 9 degrees of freedom: p = 4e-4
    points = levels.flatten(1).double()
    ranks = reference_ranks(points[:, :1], points[:, 1:, None], seed=1).flatten()
    counts = torch.histc(ranks, 10, 0, 1)
    assert float(((counts - count / 10) ** 2 / (count / 10)).sum()) < 30


def test_ranks_count_the_samples_below() -> None:
    truth = torch.zeros(2, 1, 1, 1)
    samples = torch.tensor([[-3.0, -1, 5, 7, 9], [0.0, 0, 0, 4, 4]]).reshape(2, 5, 1, 1, 1)
    every = torch.ones(2, 1, 1, 1, dtype=torch.bool)
    ranks = projection_ranks(truth, samples, every, projections=50, seed=0)
    below = (6 * ranks).floor()
    assert set(below[0].tolist()) == {2.0, 3.0}  # two below, or three where the direction is negative
    assert set(below[1].tolist()) == {0.0, 1.0, 2.0, 3.0, 4.0, 5.0}  # three tie: four places, from the first or third
    found = reference_ranks(torch.tensor([[2.0]]), torch.tensor([[[1.0], [1.0], [3.0]]]), seed=0)
    assert 2 / 4 < float(found) < 3 / 4


def test_only_hidden_pixels_count() -> None:
    truth, samples = posterior(6, 5)
    hidden = hidden_pixels(6).clone()
    ranks = projection_ranks(truth, samples, hidden, projections=3, seed=0)
    loud = torch.where(hidden[:, None], samples, 1e6)
    torch.testing.assert_close(projection_ranks(truth, loud, hidden, projections=3, seed=0), ranks)
    hidden[2] = False
    found = projection_ranks(truth, samples, hidden, projections=3, seed=0)
    assert found[2].isnan().all()
    assert calibration(found).images == 5


@pytest.mark.parametrize("kind", ["white", "smooth"])
def test_ranks_depend_only_on_the_seed_and_the_image(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    truth, samples = posterior(7, 5)
    hidden = hidden_pixels(7)

    def ranks(rows: slice, *, seed: int = 4, projections: int = 3) -> Tensor:
        return projection_ranks(
            truth[rows],
            samples[rows],
            hidden[rows],
            projections=projections,
            seed=seed,
            first=rows.start,
            kind=kind,  # type: ignore[arg-type]
        )

    whole = ranks(slice(0, 7))
    torch.testing.assert_close(torch.cat((ranks(slice(0, 2)), ranks(slice(2, 7)))), whole)
    torch.testing.assert_close(ranks(slice(0, 7), projections=2), whole[:, :2])
    assert not torch.equal(ranks(slice(0, 7), seed=5), whole)
    monkeypatch.setattr(coverage, "_NUMBERS_AT_ONCE", 1)
    torch.testing.assert_close(ranks(slice(0, 7)), whole)
    to_truth, to_samples = torch.ones(7, 2), torch.ones(7, 5, 2)
    ties = reference_ranks(to_truth, to_samples, seed=4)
    torch.testing.assert_close(reference_ranks(to_truth[3:], to_samples[3:], seed=4, first=3), ties[3:])


def test_smooth_projections_detect_errors_that_white_ones_miss() -> None:
    """The fine detail of the samples is calibrated, but the spread of their brightness is half of the true one."""
    count, k, side = 400, 20, 16
    detail = 4 * torch.randn(count, k + 1, 1, side, side, generator=generator(), dtype=torch.float64)
    brightness = torch.randn(count, k + 1, 1, 1, 1, generator=generator(1), dtype=torch.float64)
    brightness[:, 1:] /= 2
    images = detail - detail.mean(dim=(3, 4), keepdim=True) + brightness
    hidden = torch.ones(count, 1, side, side, dtype=torch.bool)
    white = calibration(projection_ranks(images[:, 0], images[:, 1:], hidden, projections=8, seed=0))
    smooth = calibration(projection_ranks(images[:, 0], images[:, 1:], hidden, projections=8, seed=0, kind="smooth"))
    assert smooth.verdict == "overconfident"
    assert smooth.leaning.mean > 3 * white.leaning.mean


def test_coverage_equals_that_of_the_tarp_package() -> None:
    """Uses Euclidean distances to the same references; the package does not break ties, hence the 1 / (K + 1)."""
    count, k, d = 1000, 100, 3
    for spread in (1.0, 0.5):
        truth = torch.randn(count, d, generator=generator(), dtype=torch.float64)
        samples = spread * torch.randn(count, k, d, generator=generator(1), dtype=torch.float64)
        points = 2 * torch.randn(count, d, generator=generator(2), dtype=torch.float64)
        ecp, alpha = tarp.get_tarp_coverage(
            samples.transpose(0, 1).numpy(), truth.numpy(), references=points.numpy(), num_alpha_bins=50
        )
        ranks = reference_ranks(
            (truth - points).norm(dim=1, keepdim=True), (samples - points[:, None]).norm(dim=2, keepdim=True), seed=0
        )
        found = calibration(ranks, one_sided=True)
        theirs = np.interp(found.levels.numpy(), alpha, ecp)
        inner = slice(4, 95)  # the package's histogram ends at the extreme shares
        np.testing.assert_allclose(found.coverage.numpy()[inner], theirs[inner], rtol=0, atol=0.02)
        assert abs(found.error - float(np.abs(theirs - found.levels.numpy()).mean())) < 0.006


def test_the_error_by_chance_matches_calibrated_posteriors() -> None:
    """Also if the ranks of an image are nearly equal: more projections then do not help, and p-values reflect it."""
    found = []
    for seed in range(200):
        one = torch.rand(50, 1, generator=generator(seed), dtype=torch.float64)
        alike = (one + 0.02 * torch.rand(50, 10, generator=generator(1000 + seed), dtype=torch.float64)) % 1
        found.append(calibration(alike, one_sided=True))
    errors = torch.tensor([one.error for one in found])
    by_chance = torch.tensor([one.error_by_chance for one in found])
    # E|N(0, v)| = sqrt(2 v / pi) with v = a (1 - a) / n: its mean over levels is sqrt(2 / pi) (pi / 8) / sqrt(n).
    assert float(by_chance.mean()) == pytest.approx(math.sqrt(2 / math.pi) * math.pi / 8 / 50**0.5, rel=0.1)
    assert float(errors.mean()) == pytest.approx(float(by_chance.mean()), rel=0.15)
    p_values = torch.tensor([one.p_value for one in found])
    assert 0.01 < float((p_values < 0.1).double().mean()) < 0.2
    assert float((torch.tensor([one.largest - one.band for one in found]) < 0).double().mean()) > 0.88
    assert sum(one.verdict == "calibrated" for one in found) > 190


def test_the_error_by_chance_does_not_depend_on_confidence() -> None:
    """The error of an always wrong posterior does not vary, but that of a calibrated posterior would."""
    found = [by_projections(*posterior(500, 20, spread=spread)) for spread in (1.0, 0.1, 0.01)]
    assert found[0].verdict == "calibrated"
    assert all(one.verdict == "overconfident" for one in found[1:])
    for one in found[1:]:
        assert one.error_by_chance == pytest.approx(found[0].error_by_chance, rel=0.4)
        assert one.band == pytest.approx(found[0].band, rel=0.4)


def test_extremes_of_leaning() -> None:
    outside = torch.tensor([[0.0, 1.0], [1.0, 0.0]])
    found = calibration(outside)
    assert found.leaning.mean == 1
    assert found.histogram.tolist() == [10.0, *[0.0] * 18, 10.0]
    assert calibration(torch.full((2, 3), 0.5)).leaning.mean == -1


def test_invalid_inputs_are_rejected() -> None:
    truth, samples = posterior(3, 2)
    hidden = hidden_pixels(3)
    with pytest.raises(ValueError, match=r"expected \[B, K, C, H, W\]"):
        projection_ranks(truth, samples[:2], hidden, projections=1, seed=0)
    with pytest.raises(ValueError, match="expected bool"):
        projection_ranks(truth, samples, hidden.double(), projections=1, seed=0)
    with pytest.raises(ValueError, match="give the same dtype"):
        projection_ranks(truth.float(), samples, hidden, projections=1, seed=0)
    with pytest.raises(ValueError, match="number of projections"):
        projection_ranks(truth, samples, hidden, projections=0, seed=0)
    with pytest.raises(ValueError, match=r"expected \[B, R\] and \[B, K, R\]"):
        reference_ranks(torch.zeros(3, 2), torch.zeros(3, 4, 3), seed=0)
    for ranks, words in (
        (torch.rand(5), "shape"),
        (torch.rand(1, 4), "at least two images"),
        (torch.full((3, 1), 2.0), "outs"),
    ):
        with pytest.raises(ValueError, match=words):
            calibration(ranks)
