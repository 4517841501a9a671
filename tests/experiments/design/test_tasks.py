from dataclasses import replace

import numpy as np
import pytest
import torch
from helpers.design_runs import FINDINGS, PatchClassifier, small_data

from condvae.experiments.design.tasks import tasks_of


def test_tasks_pair_variables_with_labels() -> None:
    test = small_data().test
    assert test.labels is not None
    labels = test.labels[test.rows]
    edema, nothing, something = tasks_of(["EDEMA", "no-finding", "any_finding"], PatchClassifier(), test, FINDINGS)
    assert (edema.name, edema.variable, edema.positive) == ("edema", 0, 1)
    assert np.array_equal(edema.labels, labels[:, 0] == 1)
    assert (nothing.name, nothing.variable, nothing.positive) == ("no finding", 4, 0)
    assert np.array_equal(nothing.labels, labels.sum(axis=1) == 0)
    assert np.array_equal(something.labels, ~nothing.labels) and something.variable == nothing.variable


def test_no_finding_is_the_other_outcome() -> None:
    edema, nothing = tasks_of(["edema", "no finding"], PatchClassifier(), small_data().test, FINDINGS)
    log_p = torch.randn(3, 2, 5, 2)
    assert torch.equal(edema.log_probabilities(log_p), log_p[:, :, 0])
    assert torch.equal(nothing.log_probabilities(log_p)[..., 1], log_p[:, :, 4, 0])


def test_a_task_without_positives_or_negatives_says_so() -> None:
    test = small_data(without=["Edema"]).test
    (edema,) = tasks_of(["edema"], PatchClassifier(), test, FINDINGS)
    assert edema.trouble == "edema has no positives among the 24 images, so it has no AUROC and is left out of means"
    assert test.labels is not None
    everybody = replace(test, labels=np.ones_like(test.labels))
    assert "no negatives" in str(tasks_of(["edema"], PatchClassifier(), everybody, FINDINGS)[0].trouble)


def test_invalid_tasks_are_refused() -> None:
    test, classifier = small_data().test, PatchClassifier()
    with pytest.raises(ValueError, match=r"does not predict 'hernia': choose one of "):
        tasks_of(["hernia"], classifier, test, FINDINGS)
    with pytest.raises(ValueError, match="the data has no labels for edema, only for a, b, c, d: choose other --tasks"):
        tasks_of(["edema"], classifier, test, ("a", "b", "c", "d"))
    with pytest.raises(ValueError, match="the images have no labels"):
        tasks_of(["edema"], classifier, replace(test, labels=None), FINDINGS)
    with pytest.raises(ValueError, match="each image has a single class label"):
        tasks_of(["edema"], classifier, replace(test, labels=np.zeros(len(test.images), dtype=np.int64)), FINDINGS)
    with pytest.raises(ValueError, match="the task edema was given twice"):
        tasks_of(["edema", "Edema"], classifier, test, FINDINGS)
    with pytest.raises(ValueError, match="no tasks were given: choose from no finding, Edema"):
        tasks_of([], classifier, test, FINDINGS)
    classifier.outcomes = 3
    with pytest.raises(ValueError, match="predicts 3 outcomes, expected 2"):
        tasks_of(["edema"], classifier, test, FINDINGS)


def test_a_no_finding_column_is_not_a_finding() -> None:
    """Some tables have a "No Finding" column, which must not count as a finding."""
    test = small_data().test
    assert test.labels is not None
    nothing = 1 - test.labels.any(axis=1, keepdims=True).astype(np.uint8)
    told = replace(test, labels=np.concatenate((test.labels, nothing), axis=1))
    names = ["no finding", "any finding"]
    for one, other in zip(
        tasks_of(names, PatchClassifier(), told, (*FINDINGS, "No Finding")),
        tasks_of(names, PatchClassifier(), test, FINDINGS),
        strict=True,
    ):
        assert np.array_equal(one.labels, other.labels)
