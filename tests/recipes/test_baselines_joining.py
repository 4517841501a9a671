"""Results of several calls are joined into one comparison, or refused if they are not comparable."""

import copy
import json
from typing import Any

import pytest
from helpers.baseline_reports import LATER, NEW_METRICS, SCALES, later_report, report

from recipes.baselines_joining import joined
from recipes.baselines_results import page_at

MIXTURE = "mixture"
TWICE = "cifar10, t 1"
"""The method that both calls measured."""


@pytest.fixture
def first() -> dict[str, Any]:
    return report()


@pytest.fixture
def second() -> dict[str, Any]:
    return later_report()


def cell(result: dict[str, Any], metric: str, method: str = TWICE) -> dict[str, Any]:
    found: dict[str, Any] = result["methods"][method]["metrics"][metric][MIXTURE]
    return found


def test_a_joined_result_has_the_methods_of_all(first: dict[str, Any], second: dict[str, Any]) -> None:
    given = copy.deepcopy((first, second))
    result = joined([first, second])
    assert set(result["methods"]) == {TWICE, *SCALES, *LATER, *first["methods"]}
    assert set(result["training"]) == {"cifar10", "ipa", *LATER, *SCALES} - {"ipa, t 1"}
    assert result["models"].keys() == first["models"].keys() | second["models"].keys()
    for part in (first, second):
        for key in ("format", "data", "settings", "bins", "networks", "budget_minutes", "device"):
            assert result[key] == part[key]
    for name in SCALES:
        assert result["methods"][name] == first["methods"][name]
    for name in (*LATER, TWICE):
        assert result["methods"][name] == second["methods"][name]
    assert (first, second) == given  # the results themselves stay as they are
    json.dumps(result, allow_nan=False)


def test_the_last_measurement_of_a_method_is_taken(first: dict[str, Any], second: dict[str, Any]) -> None:
    assert NEW_METRICS[0] not in first["methods"][TWICE]["metrics"]
    found = cell(second, "fid")
    found["mean"] += 0.5 * found["standard_error"]
    assert cell(joined([first, second]), "fid") == found
    assert NEW_METRICS[0] in joined([first, second])["methods"][TWICE]["metrics"]
    turned = joined([second, first])
    assert turned["methods"][TWICE] == first["methods"][TWICE]
    assert turned["training"] == joined([first, second])["training"]


def test_one_result_stays_as_it_is() -> None:
    stored = page_at().raw()["baselines"]
    assert joined([stored]) == stored == joined([stored, stored])


def test_versions_are_kept(first: dict[str, Any], second: dict[str, Any]) -> None:
    assert first["versions"] != second["versions"]
    both = joined([first, second])
    assert both["versions"] == [first["versions"], second["versions"]]
    assert joined([both, second])["versions"] == both["versions"]  # a joined result can be joined again


@pytest.mark.parametrize(
    ("key", "other"),
    [
        ("data", "noise"), ("settings", {"images": 3}), ("bins", ["0-1"]), ("networks", {"lpips": "vgg"}),
        ("budget_minutes", 5.0), ("device", "abacus"),
    ],
)  # fmt: skip
def test_different_measurements_are_refused(
    first: dict[str, Any], second: dict[str, Any], key: str, other: object
) -> None:
    third = {**second, key: other}
    with pytest.raises(ValueError, match=rf"^{key} is .* in one result and .* in another: join results of the same"):
        joined([first, second, third])


def test_different_trainings_are_refused(first: dict[str, Any], second: dict[str, Any]) -> None:
    for key, other in (("data", "npz: 49,000"), ("validation", 5), ("observe", ["boxes"]), ("seed", 1)):
        changed = copy.deepcopy(second)
        changed["training"]["vqvae"]["parts"]["network"][key] = other
        with pytest.raises(ValueError, match=rf"^vqvae was trained with {key} .*: train all methods with the same"):
            joined([first, changed])


def test_a_finished_model_may_be_trained_differently(first: dict[str, Any], second: dict[str, Any]) -> None:
    for result in (first, second):
        parts = result["training"]["cifar10"]["parts"]
        assert parts["VAE"]["data"].startswith("npz: ")  # another layout of the same images
        parts["VAE"]["seed"] = 77
    assert joined([first, second])["training"]["cifar10"] == second["training"]["cifar10"]


def test_a_model_that_was_measured_twice_must_agree(first: dict[str, Any], second: dict[str, Any]) -> None:
    for metric in ("lpips_gt", "sharpness"):
        changed = copy.deepcopy(second)
        ours, theirs = cell(first, metric), cell(changed, metric)
        theirs["mean"] = ours["mean"] - 1.1 * ours["standard_error"]
        for pair in ([first, changed], [changed, first]):
            with pytest.raises(ValueError, match=rf"^{TWICE} was measured twice, and its {metric} is .*: join results"):
                joined(pair)
        theirs["standard_error"] *= 1.2  # the larger of the two decides
        joined([first, changed])
        joined([changed, first])


def test_all_results_must_agree_with_each_other(first: dict[str, Any], second: dict[str, Any]) -> None:
    third = copy.deepcopy(second)
    error = cell(first, "fid")["standard_error"]
    cell(second, "fid")["mean"] += 0.8 * error
    cell(third, "fid")["mean"] += 1.6 * error
    joined([first, second])
    joined([second, third])
    with pytest.raises(ValueError, match="its fid is"):
        joined([first, second, third])


def test_only_metrics_that_both_have_are_compared(first: dict[str, Any], second: dict[str, Any]) -> None:
    cell(second, "cfid")["mean"] = 1e9
    del first["methods"][TWICE]["metrics"]["fid"]
    cell(second, "fid")["mean"] = 1e9
    # A calibration error has no standard error; its method is compared by the leaning.
    assert cell(second, "calibration_error@white")["standard_error"] is None
    cell(second, "calibration_error@white")["mean"] *= 1.01
    assert cell(joined([first, second]), "cfid")["mean"] == 1e9
    cell(second, "leaning@white")["mean"] += 1
    with pytest.raises(ValueError, match="its leaning@white is"):
        joined([first, second])


def test_means_without_any_error_must_be_equal(first: dict[str, Any], second: dict[str, Any]) -> None:
    second["methods"]["ce"] = copy.deepcopy(first["methods"]["ce"])
    for result in (first, second):
        cell(result, "lpips_diversity", "ce").update(mean=0.0, standard_error=0.0)
    joined([first, second])
    cell(second, "lpips_diversity", "ce")["mean"] = 1e-4
    with pytest.raises(
        ValueError, match=r"ce was measured twice, and its lpips_diversity is 0 in one result and 0\.0001"
    ):
        joined([first, second])
