import itertools
import json

import numpy as np
import pytest
import torch
from helpers.fixtures import FIXTURES
from helpers.models import generator
from sklearn.svm import LinearSVC
from torch import Tensor

from condvae.metrics import discrimination
from condvae.metrics.discrimination import ids

DATA = FIXTURES


def pairs(n: int, d: int, *, seed: int = 0, apart: float = 0.1) -> tuple[Tensor, Tensor]:
    """Positive features of very different magnitudes, and similar features of completions."""
    scales = torch.logspace(-1, 1, d)
    real = torch.randn(n, d, generator=generator(seed)).relu() * scales
    fake = 0.7 * real + 0.3 * torch.randn(n, d, generator=generator(seed + 1)).relu() * scales + apart * scales
    return real, fake


def by_sklearn(real: Tensor, fake: Tensor, tolerance: float) -> tuple[float, float, np.ndarray]:
    x = torch.cat((real, fake)).double().numpy()
    y = np.repeat([1, 0], len(real))
    classifier = LinearSVC(dual=False, tol=tolerance, max_iter=100_000).fit(x, y)
    decided = classifier.decision_function(x)
    p_ids = (decided[len(real) :] > decided[: len(real)]).mean()
    return float(p_ids), 1 - classifier.score(x, y), np.append(classifier.coef_[0], classifier.intercept_)


def test_reference_values_are_reproduced_exactly() -> None:
    with np.load(DATA / "metric_features.npz") as features:
        found = ids(torch.from_numpy(features["real"]), torch.from_numpy(features["fake"]))
    expected = json.loads((DATA / "metric_expected.json").read_text())
    assert found.p_ids.mean == expected["p_ids"]
    assert found.u_ids.mean == expected["u_ids"]


@pytest.mark.parametrize(("n", "d"), [(400, 10), (300, 64), (60, 150), (1, 5)])
def test_the_classifier_equals_that_of_scikit_learn(n: int, d: int) -> None:
    """The tolerance is that of scikit-learn: with more features than images, its weights are correct to 1 % only."""
    real, fake = pairs(n, d)
    p_ids, u_ids, weights = by_sklearn(real, fake, 1e-10)
    ours = discrimination._classifier(real.double(), fake.double()).numpy()
    np.testing.assert_allclose(ours, weights, rtol=0, atol=1e-5 * np.abs(weights).max())
    found = ids(real, fake)
    assert found.p_ids.mean == pytest.approx(p_ids, abs=1e-12)
    assert found.u_ids.mean == pytest.approx(u_ids, abs=1e-12)
    p_ids, u_ids, _ = by_sklearn(real, fake, 1e-4)
    assert found.p_ids.mean == pytest.approx(p_ids, abs=2 / n)
    assert found.u_ids.mean == pytest.approx(u_ids, abs=2 / n)


@pytest.mark.parametrize("scale", [1e-4, 1.0, 1e4])
def test_the_gradient_vanishes_at_the_minimum(scale: float) -> None:
    real, fake = (scale * rows.double() for rows in pairs(200, 30, apart=0.0))
    fake[3], real[5] = 50 * fake[3], 0.0  # an outlier, and a row of zeros
    weights = discrimination._classifier(real, fake).requires_grad_()
    margins = torch.cat((real @ weights[:-1] + weights[-1], -(fake @ weights[:-1] + weights[-1])))
    loss = weights.square().sum() / 2 + (1 - margins).clamp_min(0).square().sum()
    (gradient,) = torch.autograd.grad(loss, weights)
    terms = torch.cat((real, fake)).norm(dim=1).sum()
    assert float(gradient.norm()) < 1e-9 * float(terms + len(margins))


def test_similar_sets_score_higher() -> None:
    scores = [ids(*pairs(500, 16, apart=apart)) for apart in (0.0, 0.1, 0.3, 3.0)]
    for better, worse in itertools.pairwise(scores):
        assert better.u_ids.mean > worse.u_ids.mean
        assert better.p_ids.mean >= worse.p_ids.mean
    assert scores[-1].p_ids.mean == scores[-1].u_ids.mean == 0


def test_equal_pairs_count_zero_and_equal_sets_one_half() -> None:
    real, _ = pairs(300, 20)
    same = ids(real, real)
    assert (same.p_ids.mean, same.u_ids.mean) == (0, 0.5)
    turned = ids(real, real.roll(1, 0))  # every image is paired with the completion of another
    assert (turned.p_ids.mean, turned.u_ids.mean) == (0.5, 0.5)
    # With a little noise it is about one half: the rule for ties is the limit.
    noisy = ids(real, real.roll(1, 0) + 1e-3 * torch.randn(real.shape, generator=generator(1)))
    assert noisy.p_ids.mean == pytest.approx(0.5, abs=4 * noisy.p_ids.standard_error)
    assert noisy.u_ids.mean == pytest.approx(0.5, abs=0.1)


def test_only_p_ids_depends_on_the_order_of_pairs() -> None:
    real, fake = pairs(500, 16, apart=0.05)
    aligned, shuffled = ids(real, fake), ids(real, fake.roll(1, 0))
    both = torch.randperm(500, generator=generator(2))
    again = ids(real[both], fake[both])
    assert (again.p_ids.mean, again.u_ids.mean) == (aligned.p_ids.mean, aligned.u_ids.mean)
    assert shuffled.u_ids.mean == pytest.approx(aligned.u_ids.mean, abs=1e-9)
    assert abs(shuffled.p_ids.mean - aligned.p_ids.mean) > 3 * aligned.p_ids.standard_error


def test_standard_errors_are_those_of_proportions() -> None:
    found = ids(*pairs(500, 16, apart=0.05)).p_ids
    assert found.standard_error == pytest.approx((found.mean * (1 - found.mean) / 499) ** 0.5)


def test_unequal_sets_are_rejected() -> None:
    real, fake = pairs(10, 4)
    with pytest.raises(ValueError, match="one completion of each image"):
        ids(real, fake[1:])
    with pytest.raises(ValueError, match="expected the same number"):
        ids(real, fake[:, 1:])


def test_no_convergence_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(discrimination, "_MOST_STEPS", 1)
    with pytest.raises(ValueError, match="did not converge within 1 steps"):
        ids(*pairs(200, 30))
