"""Judge how strange a picture is for the model that completes or scans it.

`condvae.ood` computes the judgement. Because `condvae.ood` imports this package, it is imported here by name, on first
use. Completing and scanning work without it.
"""

import importlib
from collections.abc import Callable
from typing import Any, Literal, NamedTuple, Protocol, TypeAlias

from condvae.conditional import ConditionalVAE
from condvae.images.model_view import ModelView
from condvae.weights.cached_models import ModelId


class Judgement(Protocol):
    """How strange a picture is for a model; `condvae.ood.Strangeness` implements this protocol."""

    @property
    def score(self) -> float:
        """The score of the picture. The higher it is, the more ordinary is the picture."""

    @property
    def percentile(self) -> float:
        """Percentage of held-out images that are at least as strange, among those with a similar hidden share."""

    @property
    def strange(self) -> bool:
        """Whether the percentile is 1 or less."""


class Inspected(NamedTuple):
    """What an inspector found out about one picture."""

    strangeness: Judgement | None = None
    """How strange the picture is for the model; None if the picture was not judged."""
    warning: str | None = None
    """A message for the user if the picture is strange, otherwise None."""
    failure: str | None = None
    """A message for the user with the reason why judging failed; None if it did not fail."""


class Inspector(Protocol):
    """Judges for one model how strange pictures are."""

    @property
    def failure(self) -> str | None:
        """A message for the user with the reason why no picture can be judged; None if pictures can be judged."""

    def __call__(self, view: ModelView) -> Inspected:
        """Judge one picture, from the same observation that it is completed with, or from the whole picture."""


Inspection: TypeAlias = Callable[[ConditionalVAE, ModelId, int], Inspector | None]
"""A function of a model, its identity and a seed. It returns an inspector, or None if the model has no fit."""


def strangeness_inspector(
    model: ConditionalVAE, identity: ModelId, seed: int, *, judged: Literal["known", "whole"] = "known"
) -> Inspector | None:
    """Return the inspector that `condvae.ood` provides for this model, or None if the model has no fit.

    judged: what is judged of a picture: its observation, such as its known pixels ("known"), or all of it ("whole").
    """
    found: Any = importlib.import_module("condvae.ood.completion_warnings")
    kind = "whole" if judged == "whole" else "partial"
    inspector: Inspector | None = found.warnings_of_completions(model, identity, seed, kind=kind)
    return inspector
