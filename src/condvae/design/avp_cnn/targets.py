"""The training targets of a classifier: variables and their outcomes, made from the labels of a data set."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from condvae.data import Dataset, ImageSet
from condvae.design.classifier import normalised_name
from condvae.design.prediction_task import ANY_FINDING, NO_FINDING


@dataclass(frozen=True, kw_only=True)
class Targets:
    """The variables that a classifier learns from the labels of a data set."""

    names: tuple[str, ...]
    outcomes: int
    outcome_names: tuple[str, ...] | None
    findings: bool
    """True if the labels are several findings per image, [B, findings] uint8; False for one class, [B] int64."""

    @property
    def binary(self) -> bool:
        return self.outcomes == 2

    def of(self, labels: Tensor) -> Tensor:
        """Convert the labels of B images to targets.

        Return [B, V] floats, 0 or 1, for V yes-or-no variables, or [B] int64 for the classes of a single variable.
        """
        if self.findings:
            held = labels > 0
            return torch.cat((held, held.any(dim=1, keepdim=True)), dim=1).float()
        return labels[:, None].float() if self.binary else labels

    def frequencies(self, images: ImageSet) -> Tensor:
        """Return the frequency of outcome 1 of each yes-or-no variable, [V], or of each of K classes, [K].

        The frequencies are smoothed, so they are never 0 or 1.
        """
        assert images.labels is not None
        truth = self.of(torch.from_numpy(images.labels[images.rows])).double()
        if not self.binary:
            truth = F.one_hot(truth.long(), self.outcomes).double()
        # As if there were one more image, with each outcome counted as 1 / K.
        return (truth.sum(dim=0) + 1 / self.outcomes) / (len(truth) + 1)


def _check_names(names: Sequence[str], count: int) -> None:
    """Raise a ValueError unless there is one name per finding, all names differ, and none is reserved."""
    if len(names) != count:
        raise ValueError(f"each image has {count} labels but there are {len(names)} names: give one name per label")
    seen = {normalised_name(ANY_FINDING): ANY_FINDING, normalised_name(NO_FINDING): NO_FINDING}
    for name in names:
        if normalised_name(name) in seen:
            other = seen[normalised_name(name)]
            means = "is derived from the other findings" if other in (ANY_FINDING, NO_FINDING) else f"repeats {other!r}"
            raise ValueError(f"a finding is called {name!r}, which {means}: remove or rename it")
        seen[normalised_name(name)] = name


def targets_of(dataset: Dataset) -> Targets:
    """Make the targets of a data set.

    Findings give one variable each, and a last variable "any finding". Classes give one variable.
    """
    labels = dataset.train.labels
    if labels is None:
        raise ValueError(
            f"the {dataset.kind} data has no labels, which a classifier needs for training: give labelled data, such "
            "as Chest X-ray 14, CIFAR-10, or a zip file of images with labels in its dataset.json"
        )
    if labels.ndim == 2:
        names = dataset.label_names or tuple(f"finding {i}" for i in range(labels.shape[1]))
        _check_names(names, labels.shape[1])
        return Targets(names=(*names, ANY_FINDING), outcomes=2, outcome_names=("no", "yes"), findings=True)
    sets = (dataset.train, dataset.validation, dataset.test)
    there = [one.labels[one.rows] for one in sets if one.labels is not None and len(one)]
    lowest, highest = (int(edge(np.concatenate(there))) for edge in (np.min, np.max))
    count = max(highest + 1, len(dataset.label_names or ()))
    if lowest < 0 or count < 2:
        raise ValueError(f"labels range from {lowest} to {highest}, expected at least two classes, numbered from 0")
    if highest >= max(sum(map(len, there)), len(dataset.label_names or ())):
        raise ValueError(
            f"the largest label is {highest:,}, more than the number of images: number the classes 0, 1, 2, ..."
        )
    known = dataset.label_names if dataset.label_names and len(dataset.label_names) == count else None
    return Targets(names=("class",), outcomes=count, outcome_names=known, findings=False)
