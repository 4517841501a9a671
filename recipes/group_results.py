"""Tables of results by group of test images, from the results.json of `condvae evaluate --image-groups`."""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))
from recipes.pages import markdown, short

MIXTURE = "mixture"
WHOLE = "all test images"


def by_group(result: Mapping[str, Any], methods: Sequence[str] | None = None) -> str:
    """Return a table with a row for the whole test set and one for each group, in the mixture of bins.

    Its columns are the number of deep images, LPIPS-GT of each method, and the calibration error of each model in
    smooth projections, with the error that is expected by chance. methods: those to show; None shows all.
    """
    chosen = {name: result["methods"][name] for name in methods or result["methods"]}
    models = {name: found for name, found in chosen.items() if "temperature" in found}
    rows = [
        [WHOLE, f"{result['settings']['deep_images']:,}", *_cells(list(chosen.values()), list(models.values()))],
        *(
            [
                group,
                f"{about['deep_images']:,}",
                *_cells(*([found["groups"][group] for found in some.values()] for some in (chosen, models))),
            ]
            for group, about in result["groups"].items()
        ),
    ]
    head = ["", "images", *(f"LPIPS-GT, {name}" for name in chosen)]
    return markdown([*head, *(f"calibration error (by chance), {name}" for name in models)], rows)


def _cells(methods: Sequence[Mapping[str, Any]], models: Sequence[Mapping[str, Any]]) -> list[str]:
    distances = [_distance(found["metrics"]["lpips_gt"][MIXTURE]) for found in methods]
    return distances + [_calibration(found["coverage"]["smooth"][MIXTURE]) for found in models]


def _distance(cell: Mapping[str, float]) -> str:
    return f"{short(cell['mean'], 4)} ± {short(cell['standard_error'], 4)}"


def _calibration(found: Mapping[str, Any]) -> str:
    return f"{short(found['error'], 3)} ({short(found['error_by_chance'], 3)}) {found['verdict']}"
