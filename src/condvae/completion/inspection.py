"""What is found out about a picture beside completing it: how strange it is to the model.

`condvae.ood` judges that, a room that comes after this one: it is found on first use, and completing needs none of it.
"""

import importlib
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol, TypeAlias

from condvae.conditional import ConditionalVAE
from condvae.images.model_view import ModelView
from condvae.weights.cached_models import ModelId


class Judgement(Protocol):
    """How strange a picture is to a model, as `condvae.ood.Strangeness` says it."""

    @property
    def score(self) -> float:
        """Higher is more ordinary."""

    @property
    def percentile(self) -> float:
        """How many in a hundred held-out training images with about as much known are as strange, or stranger."""

    @property
    def strange(self) -> bool:
        """Whether it is in the strangest 1 %."""


class Inspected(NamedTuple):
    """What was found out about one picture."""

    strangeness: Judgement | None = None
    """None: it was not judged."""
    warning: str | None = None
    """A sentence, if it is strange."""
    failure: str | None = None
    """A sentence, if it could not be judged."""


class Inspector(Protocol):
    """Judges pictures as one model sees them."""

    @property
    def failure(self) -> str | None:
        """A sentence, if no picture can be judged."""

    def __call__(self, view: ModelView) -> Inspected: ...


Inspection: TypeAlias = Callable[[ConditionalVAE, ModelId, int], Inspector | None]
"""Makes an inspector for a model and a seed; None: there is nothing to judge by."""


def by_strangeness(model: ConditionalVAE, identity: ModelId, seed: int) -> Inspector | None:
    """The inspection of `condvae.ood`."""
    found: Any = importlib.import_module("condvae.ood.completion_warnings")
    inspector: Inspector | None = found.warnings_of_completions(model, identity, seed)
    return inspector
