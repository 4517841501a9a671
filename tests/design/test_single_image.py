import pytest
import torch
from helpers.factor_worlds import SIZE, BinaryWorld, uneven

from condvae.design.candidates import Candidates
from condvae.design.choose_location import next_location
from condvae.design.information import entropy, expected_posterior_entropy
from condvae.design.lookahead import look_ahead
from condvae.design.policies import Greedy, Random
from condvae.design.prediction_task import PredictionTask
from condvae.design.scan_settings import Estimator
from condvae.design.scanning import scan
from condvae.design.single_image import Scan, planned_scan, scan_image
from condvae.design.sources import Completions
from condvae.observe.observation import observe_levels

LOADS, STDS = uneven()
WORLD = BinaryWorld(loads=LOADS, stds=STDS)
GRID = Candidates.grid(SIZE, side=2, points=3)
IMAGE = torch.randint(100, 156, (1, SIZE, SIZE), generator=torch.Generator().manual_seed(3)).to(torch.uint8)
TASK = PredictionTask.of(WORLD, "v")


def greedy(estimator: Estimator = "eig") -> Greedy:
    source = Completions(completer=WORLD)
    return Greedy(
        name=estimator, classifier=WORLD, candidates=GRID, variable=0, source=source, n=6, estimator=estimator
    )


def test_scans_equal_those_of_an_experiment_and_each_row_continues_the_last() -> None:
    reported: list[Scan] = []
    scans = scan_image(IMAGE, greedy(), WORLD, GRID, TASK, steps=3, seed=1, place=4, on_scan=reported.append)
    plain = scan(IMAGE[None], greedy(), WORLD, GRID, steps=3, seed=1, places=[4])
    assert reported == scans
    assert [one.index for one in scans] == plain.chosen[0].tolist()
    known = torch.zeros(1, SIZE, SIZE, dtype=torch.bool)
    for t, one in enumerate(scans):
        step = one.step
        assert one.after is not None and step.after is not None and step.gains is not None
        assert torch.equal(step.known, known)
        assert torch.equal(step.seen[known], IMAGE[known])
        known = known | GRID.windows[one.index]
        assert torch.equal(step.after[known], IMAGE[known])
        assert torch.equal(one.before.log(), plain.log_p[0, t, 0].exp().log())
        assert torch.equal(one.after.log(), plain.log_p[0, t + 1, 0].exp().log())
        assert one.nats == step.scores[one.index] == step.scores.max()
        assert torch.allclose(step.gains.mean(dim=0), step.scores)
        assert (step.images[:, step.known] == IMAGE[step.known]).all()  # completions, not other images
        assert step.caption == f"P(v) {one.before[1]:.3f}"
        assert step.caption_after == f"P(v) {one.after[1]:.3f}"


def test_epe_is_shown_as_a_reduction_of_the_entropy() -> None:
    (one,) = scan_image(IMAGE, greedy("epe"), WORLD, GRID, TASK, steps=1, estimator="epe")
    known = torch.zeros(1, 1, SIZE, SIZE, dtype=torch.bool)
    left = expected_posterior_entropy(look_ahead(WORLD, one.step.images[None], known, GRID, variable=0)[0])
    assert torch.allclose(one.step.scores, entropy(one.before.log()) - left, atol=1e-6)
    assert one.index == int(left.argmin())


def test_a_planned_scan_agrees_with_next_location() -> None:
    known = torch.zeros(1, 1, SIZE, SIZE, dtype=torch.bool)
    known[..., :2, :2] = True
    observation = observe_levels(IMAGE[None], known)
    for estimator in ("eig", "epe"):
        location = next_location(observation, WORLD, WORLD, GRID, variable="v", n=6, estimator=estimator, seed=2)
        one = planned_scan(observation, location, TASK, estimator=estimator)
        assert one.index == location.index
        assert one.after is None and one.step.after is None
        assert torch.equal(one.step.seen[known[0]], IMAGE[known[0]])
        assert one.step.caption == f"P(v) {location.posterior[1]:.3f}"
        expected = location.eig if estimator == "eig" else location.scores + entropy(location.posterior.log())
        assert torch.allclose(one.step.scores, expected, atol=1e-6)


def test_a_policy_without_scores_cannot_be_drawn() -> None:
    with pytest.raises(ValueError, match="random gives no scores"):
        scan_image(IMAGE, Random(candidates=GRID), WORLD, GRID, TASK)
