"""Each policy name stands for the right source of images, number of images and estimator."""

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
def used(monkeypatch: pytest.MonkeyPatch) -> dict[str, Policy]:
    """Collects every policy that an experiment uses, by name."""
    found: dict[str, Policy] = {}

    def listen(kind: type[Greedy] | type[NonGreedy] | type[Random]) -> None:
        choose: Any = kind.choose

        def noted(self: Policy, observation: Observation, step: int, *, seed: int, places: Sequence[int]) -> Choice:
            assert found.setdefault(self.name, self) is self, (
                "a policy must be made once, or it loses its plan for all images"
            )
            choice: Choice = choose(self, observation, step, seed=seed, places=places)
            return choice

        monkeypatch.setattr(kind, "choose", noted)

    for kind in (Greedy, NonGreedy, Random):
        listen(kind)
    return found


def test_each_name_stands_for_its_policy(tmp_path: Path, used: dict[str, Policy]) -> None:
    data, model = small_data(), small_conditional().eval()
    small_experiment(tmp_path, change={**QUICK, "policies": POLICIES}, data=data, model=model, block=1)
    assert set(used) == set(POLICIES) - {"full"}
    assert isinstance(used["random"], Random)
    for name, estimator in (("eig-ipa", "eig"), ("epe-ipa", "epe"), ("eig-nearest", "eig")):
        policy = used[name]
        assert isinstance(policy, Greedy) and isinstance(policy.source, Completions)
        assert (policy.estimator, policy.variable, policy.n, policy.shared) == (estimator, 1, 3, False)
        # The first scan is chosen with training images, never with the scanned images.
        assert isinstance(policy.first, TrainingImages) and policy.first.images is data.train
        assert policy.first_n == 7
        completer = policy.source.completer
        if name.endswith("ipa"):
            assert isinstance(completer, ModelCompleter) and completer.sampler.model is model
        else:
            assert isinstance(completer, NearestTrainingImages) and completer.images is data.train
    for name, n in (("uncond", 3), ("uncond-1000", 1000)):
        policy = used[name]
        assert isinstance(policy, Greedy) and isinstance(policy.source, TrainingImages)
        assert policy.source.images is data.train
        assert (policy.shared, policy.n, policy.variable, policy.estimator) == (True, n, 1, "eig")
    policy = used["non-greedy"]
    assert isinstance(policy, NonGreedy) and isinstance(policy.source, TrainingImages)
    assert policy.source.images is data.train
    assert (policy.sequences, policy.steps, policy.n, policy.variable) == (16, 2, 3, 1)  # one sequence per location


def test_a_completer_is_known_by_its_own_name(tmp_path: Path, used: dict[str, Policy]) -> None:
    data = small_data()
    given = {"one": TrainingMean.fit(data.train), "other": NearestTrainingImages(images=data.train)}
    change = {**QUICK, "policies": ("eig-one", "eig-other", "epe-other")}
    small_experiment(tmp_path, change=change, data=data, model=None, completers=given)
    for name in change["policies"]:
        policy, (estimator, _, completer) = used[name], name.partition("-")
        assert isinstance(policy, Greedy) and isinstance(policy.source, Completions)
        assert policy.estimator == estimator and policy.source.completer is given[completer]


def test_scans_with_other_training_images_are_kept_apart(tmp_path: Path) -> None:
    """All policies except random and full use training images, if only for the first scan."""
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
