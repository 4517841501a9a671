"""The interface of a classifier g(v | y), which predicts variables from the known pixels of an image."""

import difflib
from collections.abc import Sequence
from typing import Protocol

from torch import Tensor


class Classifier(Protocol):
    """Predicts the probabilities of one or more variables from the known pixels of images."""

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the V variables that the classifier predicts."""

    @property
    def outcomes(self) -> int:
        """K, the number of outcomes of each variable."""

    def log_posterior(self, pixels: Tensor, known: Tensor) -> Tensor:
        """Return log g(v = k | y) for V variables with K outcomes, [B, V, K] float32, on the device of the pixels.

        pixels: [B, C, H, W] in [-1, 1]. known: [B, 1, H, W] bool; only known pixels may influence the result.
        """


def variable_of(classifier: Classifier, name: str | int, *, also: Sequence[str] = ()) -> int:
    """Return the index of a variable, given its name or index. Case, spaces, '_' and '-' in names are ignored.

    also: other names that the caller accepts, which the error message lists too.
    """
    names = tuple(classifier.names)
    if isinstance(name, int) and not isinstance(name, bool):
        if not 0 <= name < len(names):
            listed = ", ".join(names)
            raise ValueError(
                f"there is no variable {name}: give a name, or a number from 0 to {len(names) - 1}: {listed}"
            )
        return name
    plain = [normalised_name(one) for one in names]
    if normalised_name(str(name)) in plain:
        return plain.index(normalised_name(str(name)))
    every = (*names, *also)
    close = difflib.get_close_matches(normalised_name(str(name)), map(normalised_name, every), n=1)
    closest_first = sorted(every, key=lambda one: normalised_name(one) not in close)
    raise ValueError(f"the classifier does not predict {name!r}: choose one of {', '.join(closest_first)}")


def normalised_name(name: str) -> str:
    """Normalise a name for comparison: lower case, without spaces, '_' and '-'."""
    return "".join(letter for letter in name.lower() if letter not in " _-")
