"""Join the results of several calls of recipes/baselines.py, which may have measured different methods on different
machines, into one comparison.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from typing import Any

from condvae.experiments.evaluation.plan import MIXTURE
from recipes.baselines_training import RUNS, check_equal, models_of

SAME = ("data", "settings", "bins", "networks", "budget_minutes", "device")
"""What all results must have in common."""


def joined(results: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return one result with the methods, models and trainings of all results. results: one or more, in their order.

    Of a method in several results, the last one is taken, with all of its metrics. "versions" is a list of the
    different versions if there are several. Raise a ValueError if the results are not comparable: if they were measured
    differently, if trainings differ in images or holes, or if a method that was measured twice has different numbers.
    """
    first, *others = results
    for key in SAME:
        for other in others:
            if other[key] != first[key]:
                raise ValueError(
                    f"{key} is {first[key]} in one result and {other[key]} in another: join results of the same "
                    "measurement, or measure all methods again with the same options"
                )
    trainings = {name: found for result in results for name, found in result["training"].items()}
    comparable = models_of(RUNS)  # a finished model had a training of its own
    check_equal({name: found for name, found in trainings.items() if name in comparable})
    for pair in combinations(results, 2):
        for method, metric, cells in measured_twice(*pair):
            check_agreement(method, metric, cells)
    merged = {
        key: {name: found for result in results for name, found in result[key].items()} for key in ("models", "methods")
    }
    return {**results[-1], "versions": versions_in(results), **merged, "training": trainings}


def measured_twice(
    first: Mapping[str, Any], second: Mapping[str, Any]
) -> Iterator[tuple[str, str, list[Mapping[str, Any]]]]:
    """Yield each method and metric that both results have, with its two values in the mixture of bins."""
    for method, found in first["methods"].items():
        again = second["methods"].get(method, {"metrics": {}})
        for metric, columns in found["metrics"].items():
            if metric in again["metrics"]:
                yield method, metric, [columns[MIXTURE], again["metrics"][metric][MIXTURE]]


def check_agreement(method: str, metric: str, cells: Sequence[Mapping[str, Any]]) -> None:
    """Raise a ValueError if two values differ by more than the larger standard error. Some metrics have none."""
    errors = [cell["standard_error"] for cell in cells]
    means = [cell["mean"] for cell in cells]
    if None in errors or abs(means[0] - means[1]) <= max(errors):
        return
    raise ValueError(
        f"{method} was measured twice, and its {metric} is {means[0]:.5g} in one result and {means[1]:.5g} in another, "
        f"with a standard error of {max(errors):.2g}: join results that measured the same model with the same code"
    )


def versions_in(results: Sequence[Mapping[str, Any]]) -> Any:
    """Return the versions of all results: those of each if they differ, in a list. A result may be a joined one."""
    found: list[Any] = []
    for result in results:
        given = result["versions"]
        found += [one for one in (given if isinstance(given, list) else [given]) if one not in found]
    return found[0] if len(found) == 1 else found
