"""Prediction tasks: which variable of a classifier scans should find out, and how its prediction is described."""

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from condvae.design.classifier import Classifier, normalised_name, variable_of

ANY_FINDING, NO_FINDING = "any finding", "no finding"
"""The name of a variable, whether an image shows any finding, and of the task that predicts its negation."""


@dataclass(frozen=True, kw_only=True)
class PredictionTask:
    """The prediction of one variable of a classifier, with the names needed to describe it."""

    name: str
    variable: int
    """Index of the task's variable among the classifier's variables."""
    outcomes: tuple[str, ...] = ()
    """Names of the classes. Empty for a yes-or-no variable."""
    positive: int = 1
    """The outcome of a yes-or-no variable that means yes for this task: 1, or 0 for "no finding"."""

    @classmethod
    def of(
        cls, classifier: Classifier, task: str | int = 0, *, outcomes: Sequence[str] | None = None
    ) -> "PredictionTask":
        """Make the task for a variable, given by name or index. "no finding" is valid if "any finding" is a variable.

        outcomes: names of the classes, for a classifier with a single variable; by default, classes are numbered.
        A classifier with several variables ignores the names, because its variables are yes-or-no variables.
        """
        plain = normalised_name(task) if isinstance(task, str) else ""
        known = normalised_name(ANY_FINDING) in map(normalised_name, classifier.names)
        if plain == normalised_name(NO_FINDING) and known:
            return cls(name=NO_FINDING, variable=variable_of(classifier, ANY_FINDING), positive=0)
        variable = variable_of(classifier, task, also=[NO_FINDING] if known else [])
        if len(classifier.names) > 1:
            outcomes = None
        if outcomes is None and classifier.outcomes > 2:
            outcomes = [str(outcome) for outcome in range(classifier.outcomes)]
        return cls(name=classifier.names[variable].lower(), variable=variable, outcomes=tuple(outcomes or ()))

    def describe(self, probabilities: Tensor) -> str:
        """Describe predicted probabilities [K] in a few words, such as "P(edema) 0.250"."""
        if not self.outcomes:
            return f"P({self.name}) {float(probabilities[self.positive]):.3f}"
        best = int(probabilities.argmax())
        return f"{self.outcomes[best]} {float(probabilities[best]):.3f}"
