"""g(v | y): what is asked about an image of which only some pixels are known."""

import difflib
from collections.abc import Sequence
from typing import Protocol

from torch import Tensor


class Classifier(Protocol):
    """Says how likely each outcome of some variables is, given the known pixels of images."""

    @property
    def names(self) -> tuple[str, ...]:
        """Of the V variables v."""

    @property
    def outcomes(self) -> int:
        """K: how many values each v can take."""

    def log_posterior(self, pixels: Tensor, known: Tensor) -> Tensor:
        """[B, V, K] float32 log g(v = k | y), on the device of the pixels.

        pixels: [B, C, H, W] in [-1, 1], of which only known: [B, 1, H, W] are looked at.
        """


def variable_of(classifier: Classifier, name: str | int, *, also: Sequence[str] = ()) -> int:
    """The number of a variable by its name, whose case, spaces, '_' and '-' do not matter; numbers stay.

    also: what else could have been asked for, and a refusal should name.
    """
    names = tuple(classifier.names)
    if isinstance(name, int) and not isinstance(name, bool):
        if not 0 <= name < len(names):
            raise ValueError(f"variable {name} was asked for, but there are {len(names)}: {', '.join(names)}")
        return name
    plain = [bare(one) for one in names]
    if bare(str(name)) in plain:
        return plain.index(bare(str(name)))
    every = (*names, *also)
    close = difflib.get_close_matches(bare(str(name)), map(bare, every), n=1)
    listed = sorted(every, key=lambda one: bare(one) not in close)  # stable: others keep their order
    raise ValueError(f"the classifier knows nothing of {name!r}, expected one of: {', '.join(listed)}")


def bare(name: str) -> str:
    """A name without what does not matter in it."""
    return "".join(letter for letter in name.lower() if letter not in " _-")
