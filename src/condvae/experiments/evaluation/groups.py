"""Groups of test images, such as people of one age: their metrics are averaged from the stored values of the images.

Groups are part of the report only. Results of units do not depend on them, so other groups need no new measurements.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import translate
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import torch

from condvae.data.image_set import Indices
from condvae.experiments.evaluation import summary
from condvae.experiments.evaluation.jobs import FinalNumbers
from condvae.experiments.evaluation.plan import DEEP, EvaluationSettings, MeasurementKind
from condvae.experiments.evaluation.problems import Problems
from condvae.experiments.resumable_work import ResultTensors
from condvae.runtime.json_reading import read_json_file
from condvae.runtime.messages import counted, reason_of, short, shown

GroupPatterns: TypeAlias = Mapping[str, Sequence[str]]
"""Patterns of file names by the name of the group, such as {"children": ["age-[0-9]_*", "age-1[0-2]_*"]}."""

FEWEST = 2
"""A group needs this many deep images, for standard errors."""
_SUMMARIES: dict[MeasurementKind, Callable[[ResultTensors], dict[str, Any]]] = {
    "deep": summary.of_samples,
    "bounds": summary.of_bounds,
    "elbo": summary.of_vae,
}
_CURVES = ("levels", "coverage", "band", "largest", "histogram", "shift")
"""Parts of the coverage that are reported for the whole test set only."""
_EXPECTED = 'expected JSON such as {"children": ["age-[0-9]_*", "age-1[0-2]_*"], "adults": ["age-[2-9]?_*"]}'


@dataclass(frozen=True, kw_only=True, eq=False)
class ImageGroup:
    """A group of test images. An image may be in several groups, or in none."""

    name: str
    patterns: tuple[str, ...]
    test: Indices
    """Positions of its images in the test set."""
    deep: Indices
    """Positions of its images among the deep images."""
    bits: Indices
    """Positions of its images among those that are used for the bits per dimension of the VAE alone."""

    @property
    def counts(self) -> dict[str, int]:
        return {"test_images": len(self.test), "deep_images": len(self.deep), "bits_images": len(self.bits)}

    def measured(self, kind: MeasurementKind) -> Indices:
        """Return the positions of its images among the images of a kind of measurement."""
        return self.bits if kind == "elbo" else self.deep


def read_groups(path: Path) -> dict[str, list[str]]:
    """Read the patterns of groups from a JSON file; raise ValueError unless it maps names to lists of patterns."""
    try:
        found = read_json_file(path)
    except (OSError, ValueError) as error:
        raise ValueError(f"the groups in {path} cannot be read ({reason_of(error)}): {_EXPECTED}") from error
    if not isinstance(found, dict) or not found or not all(_are_patterns(some) for some in found.values()):
        raise ValueError(f"{path} does not map names of groups to lists of patterns: {_EXPECTED}")
    return found


def _are_patterns(some: object) -> bool:
    return isinstance(some, list) and bool(some) and all(isinstance(one, str) for one in some)


def choose_groups(given: GroupPatterns, problems: Problems, settings: EvaluationSettings) -> list[ImageGroup]:
    """Find the test images of each group by their names.

    Raise a ValueError if there are no names, if a pattern matches none, or if a group has too few deep images.
    """
    if not given:
        return []
    if set(settings.metrics).isdisjoint((*DEEP, "bounds")):
        raise ValueError(
            f"groups have no metrics of {', '.join(settings.metrics)}, which need many images: add lpips, pixels, "
            "coverage or bounds to --metrics"
        )
    names = problems.test.names
    if names is None:
        raise ValueError(
            "the test images have no names, by which groups are chosen: give a folder or zip file of images, or leave "
            "out the groups"
        )
    deep = problems.rows[problems.deep]
    found = []
    for name, patterns in given.items():
        if isinstance(patterns, str) or not patterns or not name.strip():
            raise ValueError(
                f"the group {short(name)!r} has the patterns {shown(patterns)}: give a name and a list of patterns"
            )
        matched = {pattern: matching(pattern, names) for pattern in patterns}
        if unmatched := [pattern for pattern, some in matched.items() if not any(some)]:
            raise ValueError(
                f"the pattern {short(unmatched[0])} of the group {short(name)} matches none of the {len(names):,} test "
                f"images: names are such as {short(names[0])}"
            )
        test = np.flatnonzero(np.any(list(matched.values()), axis=0))
        positions = {"deep": np.flatnonzero(np.isin(deep, test)), "bits": np.flatnonzero(np.isin(problems.bits, test))}
        if (count := len(positions["deep"])) < FEWEST:
            raise ValueError(
                f"the group {short(name)} ({counted(len(test), 'test image')}) has {count} of the {len(deep):,} deep "
                f"images, but needs {FEWEST}: give a larger --deep-images, or patterns that match more images"
            )
        found.append(ImageGroup(name=name, patterns=tuple(patterns), test=test, **positions))
    return found


def matching(pattern: str, names: Sequence[str]) -> list[bool]:
    """Return for each name whether the pattern matches its last parts: as many as the pattern has."""
    matches, parts = re.compile(translate(pattern)).match, pattern.count("/") + 1
    return [bool(matches("/".join(name.split("/")[-parts:]))) for name in names]


def of_groups(groups: Sequence[ImageGroup], final: FinalNumbers) -> dict[str, dict[str, Any]]:
    """Return the metrics of each group, and its coverage without curves, from the values of single images of a job."""
    if final.kind not in _SUMMARIES:
        return {}
    found = {}
    for group in groups:
        rows = torch.from_numpy(group.measured(final.kind))
        if not len(rows):
            continue
        numbers = _SUMMARIES[final.kind]({name: value[rows] for name, value in final.values.items()})
        # Tensors are read from a file in any order: report metrics in the order of the whole test set.
        found[group.name] = {"metrics": {name: numbers["metrics"][name] for name in final.numbers["metrics"]}}
        if "coverage" in numbers:
            found[group.name]["coverage"] = {
                kind: {column: _without_curves(one) for column, one in columns.items()}
                for kind, columns in numbers["coverage"].items()
            }
    return found


def _without_curves(coverage: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in coverage.items() if key not in _CURVES}
