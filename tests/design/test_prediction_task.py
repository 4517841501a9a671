import dataclasses

import pytest
import torch
from helpers.factor_worlds import linear_classifier

from condvae.design.prediction_task import PredictionTask


def test_tasks_are_found_by_name() -> None:
    findings = linear_classifier(names=("Edema", "Pleural_Thickening", "any finding"), outcomes=2)
    p = torch.tensor([0.75, 0.25])
    assert PredictionTask.of(findings, "edema", outcomes=("no", "yes")).describe(p) == "P(edema) 0.250"
    assert PredictionTask.of(findings, "pleural thickening").variable == 1
    for name in ("no finding", "No_Finding"):
        task = PredictionTask.of(findings, name)
        assert (task.variable, task.describe(p)) == (2, "P(no finding) 0.750")
    with pytest.raises(ValueError, match="choose one of Edema"):
        PredictionTask.of(findings, "oedema")
    with pytest.raises(ValueError, match="'no finding'"):  # there is no variable to negate
        PredictionTask.of(dataclasses.replace(findings, names=("Edema",)), "no finding")


def test_a_class_is_described_by_the_most_likely_one() -> None:
    animals = linear_classifier(names=("class",), outcomes=3)
    p = torch.tensor([0.2, 0.7, 0.1])
    assert PredictionTask.of(animals).describe(p) == "1 0.700"
    assert PredictionTask.of(animals, outcomes=("cat", "dog", "horse")).describe(p) == "dog 0.700"
    pair = linear_classifier(names=("class",), outcomes=2)
    assert PredictionTask.of(pair, outcomes=("cat", "dog")).describe(torch.tensor([0.6, 0.4])) == "cat 0.600"
