"""Judge how strange a picture is for the model that completes it.

`condvae.ood` computes this. That package depends on this one, so it is imported by name on first use; completing works
without it.
"""

import importlib
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol, TypeAlias

from condvae.conditional import ConditionalVAE
from condvae.images.model_view import ModelView
from condvae.weights.cached_models import ModelId


class Judgement(Protocol):
    """How strange a picture is for a model; `condvae.ood.Strangeness` implements this protocol."""

    @property
    def score(self) -> float:
        """The score of the picture. A higher score means a more ordinary picture."""

    @property
    def percentile(self) -> float:
        """Percentage of held-out images that are at least as strange, among those with a similar hidden share."""

    @property
    def strange(self) -> bool:
        """Whether the percentile is 1 or less."""


class Inspected(NamedTuple):
    """The result of judging one picture."""

    strangeness: Judgement | None = None
    """None if the picture was not judged."""
    warning: str | None = None
    """A warning for the user if the picture is strange, otherwise None."""
    failure: str | None = None
    """The reason if the picture could not be judged, otherwise None."""


class Inspector(Protocol):
    """Judges how strange pictures are for one model."""

    @property
    def failure(self) -> str | None:
        """The reason if no picture can be judged, otherwise None."""

    def __call__(self, view: ModelView) -> Inspected: ...


Inspection: TypeAlias = Callable[[ConditionalVAE, ModelId, int], Inspector | None]
"""A function that makes an inspector for a model and a seed, or returns None if the model has no fit."""


def strangeness_inspector(model: ConditionalVAE, identity: ModelId, seed: int) -> Inspector | None:
    """Return the inspector of `condvae.ood` for this model, or None if the model has no fit."""
    found: Any = importlib.import_module("condvae.ood.completion_warnings")
    inspector: Inspector | None = found.warnings_of_completions(model, identity, seed)
    return inspector
