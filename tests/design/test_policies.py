from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
import torch
from helpers.design_runs import PatchClassifier, small_data
from helpers.factor_worlds import LinearClassifier, linear_classifier
from helpers.models import images, some_known
from torch import Tensor

from condvae.completers import RandomTrainingImage
from condvae.data import ImageSet
from condvae.design import (
    Candidates,
    Completions,
    Greedy,
    NonGreedy,
    Policy,
    Random,
    TrainingImages,
    expected_information_gain,
    expected_posterior_entropy,
    information_gains,
    look_ahead,
    policies,
)
from condvae.design.policies import FirstScanCache
from condvae.observe import Observation
from condvae.observe.observation import observe_levels
from condvae.runtime.pixels import to_uint8

TRAIN = ImageSet(images=np.random.default_rng(0).integers(0, 256, (60, 8, 8, 1), dtype=np.uint8), rows=np.arange(60))
GRID = Candidates.grid(8, side=3, points=4)
LEVELS = to_uint8(images(4, channels=1))
NOTHING = torch.zeros(4, 1, 8, 8, dtype=torch.bool)
PLACES = [20, 21, 22, 23]


def seen(known: Tensor | None = None) -> Observation:
    """Four images, each with different known pixels."""
    return observe_levels(LEVELS, some_known(4) & (torch.arange(8) < 4) if known is None else known)


def greedy(classifier: LinearClassifier | None = None, **changes: object) -> Greedy:
    policy = Greedy(
        name="greedy",
        classifier=classifier or linear_classifier(),
        candidates=GRID,
        variable=1,
        source=Completions(completer=RandomTrainingImage(images=TRAIN)),
        n=4,
    )
    return replace(policy, **changes)  # type: ignore[arg-type]


def uncond(**changes: object) -> Greedy:
    return replace(greedy(source=TrainingImages(images=TRAIN), shared=True), **changes)  # type: ignore[arg-type]


def non_greedy(**changes: object) -> NonGreedy:
    policy = NonGreedy(
        classifier=linear_classifier(),
        candidates=GRID,
        variable=0,
        source=TrainingImages(images=TRAIN),
        n=4,
        sequences=20,
        steps=3,
    )
    return replace(policy, **changes)  # type: ignore[arg-type]


class Flat(LinearClassifier):
    """Makes the same prediction for all inputs."""

    def log_posterior(self, pixels: Tensor, known: Tensor) -> Tensor:
        return super().log_posterior(torch.zeros_like(pixels), torch.zeros_like(known))


@pytest.mark.parametrize("estimator", ["eig", "epe"])
def test_greedy_takes_the_best_candidate(estimator: str) -> None:
    policy, observation = greedy(estimator=estimator), seen()
    choice = policy.choose(observation, 2, seed=0, places=PLACES)
    assert choice.images is not None and choice.scores is not None and choice.gains is not None
    assert observation.known is not None
    log_p = look_ahead(policy.classifier, choice.images, observation.known, GRID, variable=1)
    for b in range(4):
        eig, epe = expected_information_gain(log_p[b]), expected_posterior_entropy(log_p[b])
        expected = eig if estimator == "eig" else -epe
        torch.testing.assert_close(choice.scores[b], expected, rtol=0, atol=1e-12)
        assert choice.index[b] == expected.argmax()
        torch.testing.assert_close(choice.gains[b], information_gains(log_p[b]), rtol=0, atol=1e-12)
    paste = torch.where(observation.known[:, None], LEVELS[:, None], choice.images)
    assert torch.equal(paste, choice.images)  # completions of these observations
    assert choice.index.dtype == torch.int64


@pytest.mark.parametrize(
    "policy", [greedy(), greedy(linear_classifier(), source=TrainingImages(images=TRAIN)), Random(candidates=GRID)]
)
def test_a_choice_does_not_depend_on_the_batch(policy: Policy) -> None:
    together = policy.choose(seen(), 1, seed=5, places=PLACES)
    alone = policy.choose(seen()[2:3], 1, seed=5, places=PLACES[2:3])
    assert alone.index == together.index[2]
    if together.images is not None and together.scores is not None:
        assert alone.images is not None and torch.equal(alone.images[0], together.images[2])
        assert alone.scores is not None and torch.equal(alone.scores[0], together.scores[2])


@pytest.mark.parametrize("estimator", ["eig", "epe"])
@pytest.mark.parametrize("at_once", [1, 4 * 4 * 2 * 3, 4 * 4 * 2 * 16])
def test_chunks_change_no_bit(estimator: str, at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    policy, given = greedy(estimator=estimator), {"seed": 0, "places": PLACES}
    whole = policy.choose(seen(), 2, **given)  # type: ignore[arg-type]
    monkeypatch.setattr(policies, "_NUMBERS_AT_ONCE", at_once)
    parts = policy.choose(seen(), 2, **given)  # type: ignore[arg-type]
    for one, other in ((whole.index, parts.index), (whole.scores, parts.scores), (whole.gains, parts.gains)):
        assert one is not None and other is not None and torch.equal(one, other)


def test_other_seeds_steps_and_places_imagine_other_images() -> None:
    def drawn(step: int, seed: int, places: Sequence[int]) -> Tensor:
        found = greedy().choose(seen(), step, seed=seed, places=places).images
        assert found is not None
        return found

    assert torch.equal(drawn(1, 0, PLACES), drawn(1, 0, PLACES))
    others = [drawn(1, 0, PLACES), drawn(2, 0, PLACES), drawn(1, 1, PLACES), drawn(1, 0, [1, 2, 3, 4])]
    assert len({images.numpy().tobytes() for images in others}) == 4


def test_ties_are_broken_by_seed_place_and_step() -> None:
    flat = Flat(calls=[])
    many = Observation(
        y=torch.zeros(400, 2, 8, 8), known=NOTHING[:1].expand(400, -1, -1, -1), pixels=torch.zeros(400, 1, 8, 8)
    )
    for policy in (greedy(flat, first=TrainingImages(images=TRAIN)), Random(candidates=GRID)):
        chosen = policy.choose(many, 0, seed=0, places=range(400)).index
        counts = torch.bincount(chosen, minlength=16)
        assert (counts > 8).all() and (counts < 50).all()  # about 25 each
        assert torch.equal(policy.choose(many, 0, seed=0, places=range(400)).index, chosen)
        assert torch.equal(policy.choose(many[100:200], 0, seed=0, places=range(100, 200)).index, chosen[100:200])
        for seed, places in ((1, range(400)), (0, range(400, 800))):
            assert (policy.choose(many, 0, seed=seed, places=places).index != chosen).float().mean() > 0.8
    assert (Random(candidates=GRID).choose(many, 1, seed=0, places=range(400)).index != chosen).float().mean() > 0.8


def test_candidates_without_hidden_pixels_are_excluded() -> None:
    known = ~GRID.windows[[3, 7, 7, 12]]
    for policy in (greedy(), Random(candidates=GRID)):
        chosen = policy.choose(seen(known), 1, seed=0, places=PLACES).index
        shown = GRID.windows[chosen] & ~known
        assert shown.flatten(1).any(dim=1).all()
    almost = torch.ones(1, 1, 8, 8, dtype=torch.bool)
    almost[..., 0, 0] = False  # only candidate 0 shows that pixel
    for seed in range(20):
        assert greedy().choose(observe_levels(LEVELS[:1], almost), 1, seed=seed, places=[0]).index == 0
        assert Random(candidates=GRID).choose(observe_levels(LEVELS[:1], almost), 1, seed=seed, places=[0]).index == 0


def test_nothing_left_to_scan() -> None:
    known = NOTHING.clone()
    known[2] = True
    for policy in (greedy(), Random(candidates=GRID)):
        with pytest.raises(ValueError, match=r"nothing is left to scan \(observation 22\)"):
            policy.choose(seen(known), 1, seed=0, places=PLACES)
        with pytest.raises(ValueError, match="nothing is left to scan: all pixels"):
            policy.choose(seen(known)[2:3], 1, seed=0, places=[0])


def test_the_first_scan_is_computed_once_for_all_images() -> None:
    g, first_scans = linear_classifier(), FirstScanCache()
    policy = greedy(g, first=TrainingImages(images=TRAIN), first_n=6, first_scans=first_scans)
    choice = policy.choose(seen(NOTHING), 0, seed=0, places=PLACES)
    assert choice.images is not None and choice.gains is not None
    assert choice.images.shape == (4, 6, 1, 8, 8) and choice.gains.shape == (4, 6, 16)
    assert (choice.images == choice.images[:1]).all() and (choice.index == choice.index[0]).all()
    assert sum(g.calls) == 6 * 16
    again = policy.choose(seen(NOTHING)[:1], 0, seed=0, places=[99])
    assert again.index == choice.index[0]
    # Another task and another estimator share the cache: nothing is computed again, and results are the same.
    other = replace(policy, variable=0, estimator="epe", first_scans=first_scans)
    found = other.choose(seen(NOTHING), 0, seed=0, places=PLACES)
    assert sum(g.calls) == 6 * 16
    alone = replace(policy, variable=0, estimator="epe", first_scans=FirstScanCache()).choose(
        seen(NOTHING), 0, seed=0, places=PLACES
    )
    assert sum(g.calls) == 2 * 6 * 16
    assert found.scores is not None and alone.scores is not None and torch.equal(found.scores, alone.scores)
    # Another seed or number of images is another draw.
    policy.choose(seen(NOTHING), 0, seed=1, places=PLACES)
    replace(policy, first_n=5).choose(seen(NOTHING), 0, seed=0, places=PLACES)
    assert sum(g.calls) == (3 * 6 + 5) * 16
    # Later, or if pixels are known, the source draws the images.
    for step, known in ((1, NOTHING), (0, GRID.windows[:4])):
        later = policy.choose(seen(known), step, seed=0, places=PLACES)
        assert later.images is not None and later.images.shape == (4, 4, 1, 8, 8)


def test_uncond_uses_one_sequence_for_all_images() -> None:
    g = linear_classifier()
    policy, known, chosen = uncond(classifier=g), NOTHING, []
    drawn = None
    for step in range(3):
        choice = policy.choose(seen(known), step, seed=0, places=PLACES)
        assert choice.images is not None and choice.scores is not None
        assert (choice.index == choice.index[0]).all() and len(choice.index) == 4
        drawn = choice.images if drawn is None else drawn
        assert torch.equal(choice.images, drawn)
        log_p = look_ahead(linear_classifier(), drawn[:1], known[:1], GRID, variable=1)[0]
        torch.testing.assert_close(choice.scores[3], expected_information_gain(log_p), rtol=0, atol=1e-12)
        assert choice.index[0] == choice.scores[0].argmax()
        chosen.append(int(choice.index[0]))
        known = known | GRID.windows[choice.index]
    assert len(set(chosen)) == 3
    assert sum(g.calls) == 3 * 4 * 16
    # Images with other pixels get the same scans, and nothing is computed again.
    other = observe_levels(255 - LEVELS[:2], GRID.windows[chosen[:1]].expand(2, -1, -1, -1))
    assert policy.choose(other, 1, seed=0, places=[0, 1]).index.tolist() == [chosen[1]] * 2
    assert sum(g.calls) == 3 * 4 * 16
    # A new policy finds the same.
    assert uncond().choose(other, 1, seed=0, places=[0, 1]).index[0] == chosen[1]
    with pytest.raises(ValueError, match="plans the same scans for all images"):
        policy.choose(seen(), 1, seed=0, places=PLACES)
    with pytest.raises(ValueError, match="uses the same images for all scans"):
        uncond(first=TrainingImages(images=TRAIN))


def test_random_takes_any_location() -> None:
    many = Observation(
        y=torch.zeros(1600, 2, 8, 8), known=GRID.windows[:1].expand(1600, -1, -1, -1), pixels=torch.zeros(1600, 1, 8, 8)
    )
    counts = torch.bincount(Random(candidates=GRID).choose(many, 1, seed=3, places=range(1600)).index, minlength=16)
    assert counts[0] == 0 and (counts[1:] > 70).all() and (counts[1:] < 145).all()  # 107 each


def test_non_greedy_takes_the_sequence_with_the_lowest_entropy() -> None:
    policy = non_greedy()
    plan = policy.plan(seen(NOTHING), 0).tolist()
    assert len(set(plan)) == 3
    known, followed = NOTHING, []
    for step in range(3):
        choice = policy.choose(seen(known), step, seed=0, places=PLACES)
        assert (choice.index == choice.index[0]).all()
        followed.append(int(choice.index[0]))
        known = known | GRID.windows[choice.index]
    assert followed == plan
    assert sum(policy.classifier.calls) == 4 * 20  # type: ignore[attr-defined]
    with pytest.raises(ValueError, match="has planned only 3 scans, but scan 4 was requested"):
        policy.choose(seen(known), 3, seed=0, places=PLACES)
    with pytest.raises(ValueError, match="plans the same scans for all images"):
        policy.choose(seen(), 1, seed=0, places=PLACES)

    def epe(sequence: Sequence[int]) -> float:
        """The expected posterior entropy of a sequence, with the plan's own images."""
        nothing = seen(NOTHING)[:1]
        # uncond makes the same draw of images.
        drawn = uncond().choose(nothing, 0, seed=0, places=[0]).images
        assert drawn is not None
        shown = Candidates(windows=GRID.windows[list(sequence)].any(dim=0, keepdim=True))
        return float(
            expected_posterior_entropy(look_ahead(linear_classifier(), drawn, NOTHING[:1], shown, variable=0)[0])
        )

    chances = [torch.randperm(16, generator=torch.Generator().manual_seed(i))[:3].tolist() for i in range(40)]
    worse = [epe(sequence) > epe(plan) for sequence in chances]
    assert sum(worse) > 32  # the best of 20 is better than nearly all


def test_more_sequences_are_never_worse() -> None:
    few, many = (non_greedy(sequences=n).plan(seen(NOTHING), 1).tolist() for n in (1, 200))
    assert few != many  # the first sequence is the same draw, and unlikely to be the best of 200
    assert non_greedy(sequences=200).plan(seen(NOTHING), 2).tolist() != many
    with pytest.raises(ValueError, match="a sequence has 17 different scans, but there are only 16 candidates"):
        non_greedy(steps=17)


def test_non_greedy_scans_where_the_finding_shows() -> None:
    """Each finding shows in one corner, so the best sequence includes that corner."""
    train = TrainingImages(images=small_data().train)
    corners = Candidates.grid(8, side=2, points=4)
    for variable, corner in enumerate((0, 3, 12, 15)):
        policy = NonGreedy(
            classifier=PatchClassifier(), candidates=corners, variable=variable, source=train, sequences=60, steps=2
        )
        assert corner in policy.plan(observe_levels(to_uint8(images(1)), NOTHING[:1]), 0).tolist()


def test_the_seed_draws_the_sequences() -> None:
    """With a single sequence, the images cannot influence the choice."""
    plans = {tuple(non_greedy(sequences=1).plan(seen(NOTHING), seed).tolist()) for seed in range(6)}
    assert len(plans) == 6


class Broken(LinearClassifier):
    def log_posterior(self, pixels: Tensor, known: Tensor) -> Tensor:
        return super().log_posterior(pixels, known) * torch.nan


def test_wrong_arguments_are_refused() -> None:
    with pytest.raises(ValueError, match="did not return log-probabilities"):
        greedy(Broken(calls=[])).choose(seen(), 1, seed=0, places=PLACES)
    with pytest.raises(ValueError, match="did not return log-probabilities"):
        non_greedy(classifier=Broken(calls=[])).plan(seen(NOTHING), 0)
    with pytest.raises(ValueError, match=r"there are 3 places, .* for 4 observations"):
        Random(candidates=GRID).choose(seen(), 1, seed=0, places=[1, 2, 3])
    with pytest.raises(ValueError, match="does not state which pixels are known"):
        Random(candidates=GRID).choose(Observation(y=torch.zeros(1, 1, 8, 8)), 1, seed=0, places=[0])
    with pytest.raises(ValueError, match="the estimator is 'best'"):
        greedy(estimator="best")
    with pytest.raises(ValueError, match="the number n of completions or training images is 0"):
        greedy(n=0)
    with pytest.raises(ValueError, match="there is no variable 2: give a name, or a number from 0 to 1: one, other"):
        greedy(variable=2)
