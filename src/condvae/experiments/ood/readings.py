"""The methods of a comparison, and the readings that they need.

A reading is one kind of features, measured with one encoder. Scores that use the same decoder passes share a reading.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from condvae.conditional import ConditionalVAE
from condvae.experiments.ood.plan import WHOLE, DetectionMethod
from condvae.observe.hole_bins import HOLE_BINS
from condvae.ood.completion_score import Completed
from condvae.ood.density import DensityValues, GaussianDensity
from condvae.ood.inference import EncoderKind, Inference
from condvae.ood.scores import Score
from condvae.runtime.fingerprints import fingerprint

BINS = tuple(map(str, HOLE_BINS))
"""Names of the table columns for images with hidden pixels: one column per bin of hidden shares."""


@runtime_checkable
class Derived(Protocol):
    """A score whose features can be computed from the features of another score, its source."""

    @property
    def source(self) -> Score:
        """The score whose features are measured, and from which the features of this score are computed."""

    def of_source(self, values: DensityValues) -> DensityValues:
        """Compute the features of this score, [N, F], from the features of `source` for the same N images."""


@dataclass(frozen=True, kw_only=True, eq=False)
class FeatureReading:
    """A kind of measurement: the features of one score, computed with one encoder of one model."""

    name: str
    inference: Inference
    score: Score
    identity: str
    """A fingerprint of everything that determines the features of an image, except the image and its random numbers."""

    @property
    def columns(self) -> tuple[str, ...]:
        return BINS if self.inference.kind == "partial" else (WHOLE,)


@dataclass(frozen=True, kw_only=True, eq=False)
class ScoreSpec:
    """How the scores of a method are computed in some columns of the tables."""

    score: Score
    reading: FeatureReading
    training: FeatureReading | None
    """The reading whose features, of training images, the density is fitted to; None if the score has no density."""

    def density(self, values: DensityValues) -> GaussianDensity:
        """Fit the density of the score's features. values: what the reading `training` measured on training images."""
        # The density of a completion score is that of its inner score on whole images.
        return GaussianDensity.fit(
            _features(self.score.inner if isinstance(self.score, Completed) else self.score, values)
        )

    def scores(self, values: DensityValues, density: GaussianDensity | None) -> DensityValues:
        """Compute the scores of N images, [N]; higher is more ordinary. values: what `reading` measured on them."""
        features = _features(self.score, values)
        return features[:, 0] if density is None else density.log_density(features)


def _features(score: Score, values: DensityValues) -> DensityValues:
    return score.of_source(values) if isinstance(score, Derived) else values


class FeatureReadings:
    """All readings that the methods of an experiment need. Methods that need the same reading share it."""

    def __init__(self, models: Mapping[str, ConditionalVAE], training_images: str) -> None:
        """Start without readings. training_images: a digest of the training images, which some completers draw from."""
        self.models, self.training_images = models, training_images
        self.all: dict[str, FeatureReading] = {}
        self._inferences: dict[tuple[str, EncoderKind], Inference] = {}

    @property
    def identities(self) -> dict[str, str]:
        """A fingerprint of each model, by the model's name."""
        return {name: self._inference(name, "partial").identity for name in self.models}

    def methods(self, scores: Sequence[Score]) -> dict[DetectionMethod, dict[str, ScoreSpec]]:
        """Return {method: {column: how to compute its scores}} for every pair of a model and a score."""
        return {
            DetectionMethod(model, score.name): self._specs(model, score) for model in self.models for score in scores
        }

    def _specs(self, model: str, score: Score) -> dict[str, ScoreSpec]:
        """Return how the score is computed in each column that the score supports.

        Latents are inferred by c(z | y) for images with holes, and by q(z | x) for whole images.
        """
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
        """Return the reading that a score needs. Models with the same artifact share it if it uses nothing else."""
        source = score.source if isinstance(score, Derived) else score
        artifact_only = kind == "whole" or (isinstance(source, Completed) and source.completer is not None)
        used = self._inference(model, "whole" if artifact_only else "partial")
        made_of = {"asked": used.identity, "score": source.name, "kind": kind}
        if isinstance(source, Completed):
            made_of |= {"completer": source.identity, "training images": self.training_images}
        identity = fingerprint(made_of)
        if identity not in self.all:
            name = f"{model} {source.name}" + (", whole" if kind == "whole" else "")
            inference = self._inference(model, kind)
            self.all[identity] = FeatureReading(name=name, inference=inference, score=source, identity=identity)
        return self.all[identity]

    def _inference(self, model: str, kind: EncoderKind) -> Inference:
        """Return the `Inference` of a model and kind. It is made once, because its digest of all weights is slow."""
        key = (model, kind)
        if key not in self._inferences:
            self._inferences[key] = Inference.of(self.models[model], kind)
        return self._inferences[key]
