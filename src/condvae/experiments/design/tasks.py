"""The tasks of an experiment. Each task belongs to a variable of the classifier, and has labels from the data."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from condvae.data import ImageSet
from condvae.design.classifier import Classifier, normalised_name
from condvae.design.prediction_task import ANY_FINDING, NO_FINDING, PredictionTask
from condvae.runtime.checks import first_few


@dataclass(frozen=True, kw_only=True, eq=False)
class DesignTask:
    """A yes-or-no question about images, with the correct answer for each image."""

    name: str
    variable: int
    """Index of the task's variable among the classifier's variables. Policies choose scans for this variable."""
    positive: int
    """The outcome of the variable that means yes: 1, or 0 for a negated task such as "no finding"."""
    labels: NDArray[np.bool_]
    """[N]: the correct answer for each of N images, True for yes."""

    @property
    def trouble(self) -> str | None:
        """The reason why the task has no AUROC, or None if it has one."""
        count = len(self.labels)
        if self.labels.all() or not self.labels.any():
            found = "no negatives" if self.labels.any() else "no positives"
            return f"{self.name} has {found} among the {count:,} images, so it has no AUROC and is left out of means"
        return None

    def log_probabilities(self, log_p: Tensor) -> Tensor:
        """Return the log-probabilities of no and yes, [..., 2], given predictions log_p [..., V, 2] of V variables."""
        of_variable = log_p[..., self.variable, :]
        return of_variable if self.positive else of_variable.flip(-1)


def tasks_of(
    names: Sequence[str], classifier: Classifier, images: ImageSet, label_names: Sequence[str] | None
) -> list[DesignTask]:
    """Make the tasks with these names; raise a ValueError for a name that the classifier or the labels do not have."""
    labels = images.labels
    if labels is None:
        raise ValueError("the images have no labels, which the comparison needs: give labelled data")
    if labels.ndim != 2:
        raise ValueError(
            "each image has a single class label, expected several named findings per image: give data with findings"
        )
    if label_names is None or len(label_names) != labels.shape[1]:
        count = "no names" if label_names is None else f"{len(label_names)} names"
        raise ValueError(f"the {labels.shape[1]} labels of each image have {count}: give data that names each finding")
    if classifier.outcomes != 2:
        raise ValueError(
            f"the classifier predicts {classifier.outcomes} outcomes, expected 2: give a classifier for findings"
        )
    holds = labels[images.rows].astype(bool)
    found: dict[str, DesignTask] = {}
    for name in names:
        predicted = PredictionTask.of(classifier, name)
        task = DesignTask(
            name=predicted.name,
            variable=predicted.variable,
            positive=predicted.positive,
            labels=_labels(predicted.name, holds, label_names),
        )
        if task.name in found:
            raise ValueError(f"the task {task.name} was given twice: give each task once")
        found[task.name] = task
    if not found:
        raise ValueError(f"no tasks were given: choose from {first_few([NO_FINDING, *classifier.names])}")
    return list(found.values())


def _labels(name: str, holds: NDArray[np.bool_], label_names: Sequence[str]) -> NDArray[np.bool_]:
    """Return the correct answers [N] to a task, computed from the labels of the findings."""
    plain = [normalised_name(label) for label in label_names]
    if normalised_name(name) in plain:
        return np.asarray(holds[:, plain.index(normalised_name(name))])
    something = holds[:, [label != normalised_name(NO_FINDING) for label in plain]].any(axis=1)
    if normalised_name(name) == normalised_name(ANY_FINDING):
        return np.asarray(something)
    if normalised_name(name) == normalised_name(NO_FINDING):
        return np.asarray(~something)
    raise ValueError(
        f"the data has no labels for {name}, only for {first_few(list(label_names))}: choose other --tasks, or give "
        "data with such labels"
    )
