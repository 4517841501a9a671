"""What a classifier learns to tell: the labels of a data set as variables with outcomes."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from condvae.data import Dataset, ImageSet
from condvae.design.classifier import bare
from condvae.design.question import ANY_FINDING, NO_FINDING


@dataclass(frozen=True, kw_only=True)
class Targets:
    """The variables that labels say something of."""

    names: tuple[str, ...]
    outcomes: int
    outcome_names: tuple[str, ...] | None
    findings: bool
    """Whether labels are several findings of an image, [B, K] uint8; else one class, [B] int64."""

    @property
    def binary(self) -> bool:
        return self.outcomes == 2

    def of(self, labels: Tensor) -> Tensor:
        """[B, V] float of 0 and 1 where outcomes are two, else [B] int64."""
        if self.findings:
            held = labels > 0
            return torch.cat((held, held.any(dim=1, keepdim=True)), dim=1).float()
        return labels[:, None].float() if self.binary else labels

    def frequencies(self, images: ImageSet) -> Tensor:
        """How often outcome 1 of each variable is in these images, [V], or each of K outcomes, [K]; never 0 or 1."""
        assert images.labels is not None
        truth = self.of(torch.from_numpy(images.labels[images.rows])).double()
        if not self.binary:
            truth = F.one_hot(truth.long(), self.outcomes).double()
        # As if there were one image more that is a bit of everything.
        return (truth.sum(dim=0) + 1 / self.outcomes) / (len(truth) + 1)


def _check_names(names: Sequence[str], count: int) -> None:
    """Raise a ValueError unless these can be the names of so many findings, of which an image may have any or none."""
    if len(names) != count:
        raise ValueError(f"there are {count} labels of each image and {len(names)} names, expected as many")
    seen = {bare(ANY_FINDING): ANY_FINDING, bare(NO_FINDING): NO_FINDING}
    for name in names:
        if bare(name) in seen:
            other = seen[bare(name)]
            means = "is what follows from the others" if other in (ANY_FINDING, NO_FINDING) else f"is {other!r} again"
            raise ValueError(f"a finding is called {name!r}, which {means}: leave it out, or give it another name")
        seen[bare(name)] = name


def targets_of(dataset: Dataset) -> Targets:
    """Findings and, last, whether there is any; or the class of single-label data as one variable."""
    labels = dataset.train.labels
    if labels is None:
        raise ValueError(
            f"these {dataset.kind} data have no labels, from which a classifier learns: "
            "give data that have them, such as Chest X-ray 14, CIFAR-10, or a pack whose dataset.json has labels"
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
        raise ValueError(f"labels are from {lowest} to {highest}, expected classes from 0, two or more of them")
    if highest >= max(sum(map(len, there)), len(dataset.label_names or ())):
        raise ValueError(f"labels go up to {highest:,}, more than there are images: number the classes 0, 1, 2, ...")
    known = dataset.label_names if dataset.label_names and len(dataset.label_names) == count else None
    return Targets(names=("class",), outcomes=count, outcome_names=known, findings=False)
