"""What stands behind the names of policies: whose images they imagine, how many, by which criterion."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.design_runs import small_data, small_experiment
from helpers.models import small_conditional

from condvae.completers import NearestTrainingImages, TrainingMean
from condvae.completers.model_completer import ModelCompleter
from condvae.design import Choice, Completions, Greedy, NonGreedy, Policy, Random, TrainingImages
from condvae.experiments.design import POLICIES
from condvae.observe import Observation

QUICK: dict[str, Any] = {"tasks": ("effusion",), "images": 2, "steps": 2, "repeats": 1, "n": 3, "first_n": 7}


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> dict[str, Policy]:
    """Every policy that an experiment has asked where to scan, by name."""
    found: dict[str, Policy] = {}

    def listen(kind: type[Greedy] | type[NonGreedy] | type[Random]) -> None:
        choose: Any = kind.choose

        def noted(self: Policy, observation: Observation, step: int, *, seed: int, places: Sequence[int]) -> Choice:
            assert found.setdefault(self.name, self) is self, "made anew, it forgets what it has planned for everybody"
            choice: Choice = choose(self, observation, step, seed=seed, places=places)
            return choice

        monkeypatch.setattr(kind, "choose", noted)

    for kind in (Greedy, NonGreedy, Random):
        listen(kind)
    return found


def test_each_name_is_the_policy_that_it_claims_to_be(tmp_path: Path, asked: dict[str, Policy]) -> None:
    data, model = small_data(), small_conditional().eval()
    small_experiment(tmp_path, change={**QUICK, "policies": POLICIES}, data=data, model=model, block=1)
    assert set(asked) == set(POLICIES) - {"full"}
    assert isinstance(asked["random"], Random)
    for name, estimator in (("eig-ipa", "eig"), ("epe-ipa", "epe"), ("eig-nearest", "eig")):
        policy = asked[name]
        assert isinstance(policy, Greedy) and isinstance(policy.source, Completions)
        assert (policy.estimator, policy.variable, policy.n, policy.shared) == (estimator, 1, 3, False)
        # Nothing is known before the first scan: it goes by many training images, never by those that are scanned.
        assert isinstance(policy.first, TrainingImages) and policy.first.images is data.train
        assert policy.first_n == 7
        completer = policy.source.completer
        if name.endswith("ipa"):
            assert isinstance(completer, ModelCompleter) and completer.sampler.model is model
        else:
            assert isinstance(completer, NearestTrainingImages) and completer.images is data.train
    for name, n in (("uncond", 3), ("uncond-1000", 1000)):
        policy = asked[name]
        assert isinstance(policy, Greedy) and isinstance(policy.source, TrainingImages)
        assert policy.source.images is data.train
        assert (policy.shared, policy.n, policy.variable, policy.estimator) == (True, n, 1, "eig")
    policy = asked["non-greedy"]
    assert isinstance(policy, NonGreedy) and isinstance(policy.source, TrainingImages)
    assert policy.source.images is data.train
    assert (policy.sequences, policy.steps, policy.n, policy.variable) == (16, 2, 3, 1)  # as many as locations


def test_a_completer_is_known_by_its_own_name(tmp_path: Path, asked: dict[str, Policy]) -> None:
    data = small_data()
    given = {"one": TrainingMean.fit(data.train), "other": NearestTrainingImages(images=data.train)}
    change = {**QUICK, "policies": ("eig-one", "eig-other", "epe-other")}
    small_experiment(tmp_path, change=change, data=data, model=None, completers=given)
    for name in change["policies"]:
        policy, (estimator, _, completer) = asked[name], name.partition("-")
        assert isinstance(policy, Greedy) and isinstance(policy.source, Completions)
        assert policy.estimator == estimator and policy.source.completer is given[completer]


def test_scans_by_other_training_images_are_never_mixed(tmp_path: Path) -> None:
    """All that imagine anything draw on training images, if only for the first scan."""
    data = small_data()
    other = replace(data, train=data.train.subset(np.arange(len(data.train) - 1)))
    folders: list[set[str]] = []
    for one in (data, other):
        small_experiment(tmp_path, change={**QUICK, "policies": POLICIES}, data=one)
        known = set().union(*folders)
        folders.append({path.name for path in (tmp_path / "runs").iterdir()} - known)
    first, second = ({name.rpartition("-")[0] for name in names} for names in folders)
    assert len(first) == len(POLICIES)
    assert second == first - {"random", "full"}
