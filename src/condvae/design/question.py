"""What is asked about an image: a variable of the classifier's by its name, and answers in words."""

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from condvae.design.classifier import Classifier, bare, variable_of

ANY_FINDING, NO_FINDING = "any finding", "no finding"
"""The second is the first not being so."""


@dataclass(frozen=True, kw_only=True)
class Question:
    """What is asked about an image, and how an answer is put into words."""

    name: str
    variable: int
    """Among the classifier's."""
    outcomes: tuple[str, ...] = ()
    """Names of classes; none where the question is whether something is so ..."""
    positive: int = 1
    """... which this outcome says it is."""

    @classmethod
    def of(cls, classifier: Classifier, task: str | int = 0, *, outcomes: Sequence[str] | None = None) -> "Question":
        """The question about a variable by its name, or "no finding" where there is one called "any finding".

        outcomes: names of the classes where v is one of them, numbers if not given; of several variables each is
        something that is so or not.
        """
        plain = bare(task) if isinstance(task, str) else ""
        known = bare(ANY_FINDING) in map(bare, classifier.names)
        if plain == bare(NO_FINDING) and known:
            return cls(name=NO_FINDING, variable=variable_of(classifier, ANY_FINDING), positive=0)
        variable = variable_of(classifier, task, also=[NO_FINDING] if known else [])
        if len(classifier.names) > 1:
            outcomes = None
        if outcomes is None and classifier.outcomes > 2:
            outcomes = [str(outcome) for outcome in range(classifier.outcomes)]
        return cls(name=classifier.names[variable].lower(), variable=variable, outcomes=tuple(outcomes or ()))

    def answer(self, probabilities: Tensor) -> str:
        """A few words on [K] probabilities."""
        if not self.outcomes:
            return f"P({self.name}) {float(probabilities[self.positive]):.3f}"
        best = int(probabilities.argmax())
        return f"{self.outcomes[best]} {float(probabilities[best]):.3f}"
