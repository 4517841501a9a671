"""Who is compared, and what has to be measured for it: scores that come of the same walk are made of one reading."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from condvae.conditional import ConditionalVAE
from condvae.experiments.ood.plan import WHOLE, DetectionMethod
from condvae.observe.hole_bins import HOLE_BINS
from condvae.ood.completed import Completed
from condvae.ood.density import DensityValues, GaussianDensity
from condvae.ood.inference import EncoderKind, Inference
from condvae.ood.scores import Score
from condvae.runtime.fingerprints import fingerprint

BINS = tuple(map(str, HOLE_BINS))
"""Columns in which something is hidden."""


@runtime_checkable
class Derived(Protocol):
    """A score that can be had from what is measured for others, too."""

    @property
    def source(self) -> Score: ...

    def of_source(self, values: DensityValues) -> DensityValues: ...


@dataclass(frozen=True, kw_only=True, eq=False)
class FeatureReading:
    """What is measured: features of a score by one inference."""

    name: str
    inference: Inference
    score: Score
    identity: str
    """Of all that decides the features of an image, but for its noise."""

    @property
    def columns(self) -> tuple[str, ...]:
        return BINS if self.inference.kind == "partial" else (WHOLE,)


@dataclass(frozen=True, kw_only=True, eq=False)
class ScoreSpec:
    """How a method comes to its scores in some columns."""

    score: Score
    reading: FeatureReading
    training: FeatureReading | None
    """Whose features of training images the density is fitted to; None: the score is its one feature."""

    def density(self, values: DensityValues) -> GaussianDensity:
        """From what was measured of training images."""
        # To a density, a completion is a whole image like any other.
        return GaussianDensity.fit(
            _features(self.score.inner if isinstance(self.score, Completed) else self.score, values)
        )

    def scores(self, values: DensityValues, density: GaussianDensity | None) -> DensityValues:
        """[N] from what was measured of images: higher is more ordinary."""
        features = _features(self.score, values)
        return features[:, 0] if density is None else density.log_density(features)


def _features(score: Score, values: DensityValues) -> DensityValues:
    return score.of_source(values) if isinstance(score, Derived) else values


class FeatureReadings:
    """Every reading that somebody has asked for, once."""

    def __init__(self, models: Mapping[str, ConditionalVAE], training_images: str) -> None:
        """training_images: a digest of those that completers may be made of."""
        self.models, self.training_images = models, training_images
        self.all: dict[str, FeatureReading] = {}
        self._inferences: dict[tuple[str, EncoderKind], Inference] = {}

    @property
    def identities(self) -> dict[str, str]:
        """Of the models, by name."""
        return {name: self._inference(name, "partial").identity for name in self.models}

    def methods(self, scores: Sequence[Score]) -> dict[DetectionMethod, dict[str, ScoreSpec]]:
        """{method: {column: spec}} of every score by every model."""
        return {
            DetectionMethod(model, score.name): self._specs(model, score) for model in self.models for score in scores
        }

    def _specs(self, model: str, score: Score) -> dict[str, ScoreSpec]:
        """Behind holes by c(z | y), the whole image by q(z | x): as far as the score is for these."""
        found: dict[str, ScoreSpec] = {}
        if score.kind in (None, "partial"):
            reading = self._reading(model, score, "partial")
            fitted_to = self._reading(model, score.inner, "whole") if isinstance(score, Completed) else reading
            spec = ScoreSpec(score=score, reading=reading, training=fitted_to if score.fitted else None)
            found |= dict.fromkeys(BINS, spec)
        if score.kind in (None, "whole"):
            reading = self._reading(model, score, "whole")
            found[WHOLE] = ScoreSpec(score=score, reading=reading, training=reading if score.fitted else None)
        return found

    def _reading(self, model: str, score: Score, kind: EncoderKind) -> FeatureReading:
        """Models that share an artifact share what is asked of the artifact alone."""
        source = score.source if isinstance(score, Derived) else score
        alone = kind == "whole" or (isinstance(source, Completed) and source.completer is not None)
        asked = self._inference(model, "whole" if alone else "partial")
        made_of = {"asked": asked.identity, "score": source.name, "kind": kind}
        if isinstance(source, Completed):
            made_of |= {"completer": source.identity, "training images": self.training_images}
        identity = fingerprint(made_of)
        if identity not in self.all:
            name = f"{model} {source.name}" + (", whole" if kind == "whole" else "")
            inference = self._inference(model, kind)
            self.all[identity] = FeatureReading(name=name, inference=inference, score=source, identity=identity)
        return self.all[identity]

    def _inference(self, model: str, kind: EncoderKind) -> Inference:
        """Made once: it reads all weights to know itself."""
        key = (model, kind)
        if key not in self._inferences:
            self._inferences[key] = Inference.of(self.models[model], kind)
        return self._inferences[key]
