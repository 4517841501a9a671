"""What is diagnosed: findings by their names, as the classifier knows them and as the data labels them."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from condvae.data import ImageSet
from condvae.design.classifier import Classifier, normalised_name
from condvae.design.task import ANY_FINDING, NO_FINDING, Task
from condvae.runtime.checks import first_few


@dataclass(frozen=True, kw_only=True, eq=False)
class DesignTask:
    """Whether something is so, for each image."""

    name: str
    variable: int
    """Among the classifier's: it decides where policies look."""
    positive: int
    """The outcome of the variable that means yes: 1, or 0 where what is asked is that it is not so."""
    labels: NDArray[np.bool_]
    """[N]: whether it is so."""

    @property
    def trouble(self) -> str | None:
        """Why there is no AUROC, if there is none."""
        count = len(self.labels)
        if self.labels.all() or not self.labels.any():
            found = "no negatives" if self.labels.any() else "no positives"
            return f"{self.name} has {found} among the {count:,} images: it has no AUROC, and means leave it out"
        return None

    def log_probabilities(self, log_p: Tensor) -> Tensor:
        """[..., 2]: log g of no and of yes, for log g [..., V, 2] of all variables."""
        of_variable = log_p[..., self.variable, :]
        return of_variable if self.positive else of_variable.flip(-1)


def tasks_of(
    names: Sequence[str], classifier: Classifier, images: ImageSet, label_names: Sequence[str] | None
) -> list[DesignTask]:
    """The tasks of these names on some images; a ValueError says which the classifier or the labels know nothing of."""
    labels = images.labels
    if labels is None:
        raise ValueError("the images have no labels, which tell who has a finding: give data with labels")
    if labels.ndim != 2:
        raise ValueError("the images have one class each, expected named findings, of which any may hold together")
    if label_names is None or len(label_names) != labels.shape[1]:
        count = "no names" if label_names is None else f"{len(label_names)} names"
        raise ValueError(f"the {labels.shape[1]} labels of each image have {count}, expected named findings: name them")
    if classifier.outcomes != 2:
        raise ValueError(
            f"the classifier tells {classifier.outcomes} outcomes apart, expected 2: whether a finding is there or not"
        )
    holds = labels[images.rows].astype(bool)
    found: dict[str, DesignTask] = {}
    for name in names:
        question = Task.of(classifier, name)
        task = DesignTask(
            name=question.name,
            variable=question.variable,
            positive=question.positive,
            labels=_labels(question.name, holds, label_names),
        )
        if task.name in found:
            raise ValueError(f"the task {task.name} was given twice: give each once")
        found[task.name] = task
    if not found:
        raise ValueError(f"no tasks were given, expected some of {first_few([NO_FINDING, *classifier.names])}")
    return list(found.values())


def _labels(name: str, holds: NDArray[np.bool_], label_names: Sequence[str]) -> NDArray[np.bool_]:
    plain = [normalised_name(label) for label in label_names]
    if normalised_name(name) in plain:
        return np.asarray(holds[:, plain.index(normalised_name(name))])
    something = holds[:, [label != normalised_name(NO_FINDING) for label in plain]].any(axis=1)
    if normalised_name(name) == normalised_name(ANY_FINDING):
        return np.asarray(something)
    if normalised_name(name) == normalised_name(NO_FINDING):
        return np.asarray(~something)
    raise ValueError(
        f"the data has no labels for {name}, only for {first_few(list(label_names))}: give other --tasks, or data with "
        "such labels"
    )
