"""Fit a score to a model: estimate the density of its features on training images, and score held-out images."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike

import condvae
from condvae import observe
from condvae.conditional import ConditionalVAE
from condvae.data import Dataset, ImageSet
from condvae.data.image_set import Indices
from condvae.data.order import spread
from condvae.observe import Observation
from condvae.ood.completion_score import Completed
from condvae.ood.density import DensityValues, GaussianDensity
from condvae.ood.features import check_kind, known_share, measure_observation
from condvae.ood.inference import EncoderKind, Inference
from condvae.ood.scores import Score
from condvae.runtime.checks import check_seed, check_whole
from condvae.runtime.messages import Say, silent, warn_with
from condvae.runtime.progress import track
from condvae.runtime.seeds import Seeds
from condvae.sampling.cpu_workers import on_workers

STRANGE = 1.0
"""An image is called strange if its percentile is at most this number."""
_FEWEST, _MOST = 200, 1000
"""A percentile uses a fifth of the held-out observations, those with the nearest known share, but at least 200 and at
most 1,000 of them."""
_BLOCK = 100
"""The number of images whose observations are drawn with the same random generator. It is the same for all devices, so
that the observations are too."""
_MEASURED = 5 * _BLOCK
"""The number of images whose features are computed in one call."""
VALIDATION, UNFITTED = "validation images", "training images that were not fitted"
"""The two possible origins of held-out images, as the record of a fit states them."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Fit:
    """A density of training images and scores of held-out images, with which images are compared to judge them."""

    score: str
    """The name of the score, from which `score_of` makes the score."""
    kind: EncoderKind
    density: GaussianDensity | None
    """The density of the features of training images; None if the score is a single feature and needs no density."""
    held_scores: DensityValues
    """The scores of M held-out observations, [M]; higher is more ordinary."""
    held_shares: DensityValues
    """The known share of each of the M held-out observations, [M], from 0 to 1."""
    record: Mapping[str, Any]
    """How the fit was made, as values that JSON can store. The entry "model" identifies the model."""

    def score_values(self, features: ArrayLike) -> DensityValues:
        """Convert F features of each of B observations, [B, F], to scores, [B].

        The score is the log-density of the features. If the fit has no density, there is one feature, which is the
        score.
        """
        return _scores(features, self.density, self.score)

    def percentile(self, scores: ArrayLike, shares: ArrayLike) -> DensityValues:
        """Return the percentile of each of B observations, [B], given their scores, [B], and known shares, [B].

        The percentile is the percentage of held-out observations that are at least as strange: 100 (1 + n) / (1 + N),
        where n of N held-out scores are not higher. It is above 0 and at most 100. Only held-out observations with a
        similar known share are counted, because the known share affects the score more than the content of the image
        does. They are the fifth with the nearest known shares (at least 200, at most 1,000, and all that are equally
        near). A new ordinary image has a random rank among held-out images, so about p % of ordinary images, or fewer,
        get a percentile of p or less. This is approximate for two reasons: the known shares are similar but not equal,
        and several held-out observations may show the same image with different holes. A score that is NaN or infinite
        gets the lowest percentile, so that it is never taken for ordinary.
        """
        scores, shares = (np.asarray(values, dtype=np.float64) for values in (scores, shares))
        if scores.ndim != 1 or shares.shape != scores.shape:
            raise ValueError(
                f"the scores have shape {list(scores.shape)} and the known shares have shape {list(shares.shape)}, "
                "expected [B] for both: one number per observation"
            )
        count = len(self.held_scores)
        neighbours = min(count, max(_FEWEST, min(_MOST, count // 5)))
        found = np.empty(len(scores))
        for i, (score, share) in enumerate(zip(scores, shares, strict=True)):
            distances = np.abs(self.held_shares - share)
            # The tolerance keeps shares that are equally near in spite of rounding.
            near = distances <= np.partition(distances, neighbours - 1)[neighbours - 1] + 1e-9
            no_higher = np.count_nonzero(near & (self.held_scores <= score)) if np.isfinite(score) else 0
            found[i] = 100 * (1 + no_higher) / (1 + np.count_nonzero(near))
        return found


def fit_score(
    score: Score,
    inference: Inference,
    data: Dataset,
    *,
    images: int = 5000,
    held_out: int = 5000,
    seed: int = 0,
    say: Say = silent,
) -> Fit:
    """Fit a score to training images, observed as in the training of the partial encoder, and score held-out images.

    images: the number of training images to fit to. held_out: the number of held-out observations. The held-out images
    are the validation images or, if there are none, the training images that were not fitted. If there are fewer images
    than `held_out`, each is observed several times with different holes; whole images are used only once.
    """
    check_fittable(score)
    check_kind(score, inference)
    check_whole(images, "the number of images to fit", least=2)
    check_whole(held_out, "the number of held-out observations", least=1)
    check_seed(seed)
    chosen = spread(len(data.train), images)
    held, positions, origin = _held_out(data, chosen, held_out, inference.kind, say)
    density = None
    if score.fitted:
        density = GaussianDensity.fit(training_features(score, inference, data, images=images, seed=seed))
    features, shares = _measured(score, inference, held, positions, seed=seed, purpose="held out")
    held_scores = _scores(features, density, score.name)
    if not np.isfinite(held_scores).all():
        raise ValueError(
            f"the score {score.name} is NaN or infinite on held-out images: use another score, or fewer passes"
        )
    record = {
        "model": inference.identity,
        "process": _process(inference),
        "data": data.summary(),
        "images": len(chosen) if score.fitted else 0,
        "held_out": len(positions),
        "held_out_images": len(np.unique(positions)),
        "held_out_from": origin,
        "seed": seed,
        "versions": {"condvae": condvae.__version__, "torch": torch.__version__, "numpy": np.__version__},
    }
    return Fit(
        score=score.name,
        kind=inference.kind,
        density=density,
        held_scores=held_scores,
        held_shares=shares,
        record=record,
    )


def check_fittable(score: Score) -> None:
    """Raise ValueError for a `Completed` score: it needs a density of whole images, which `fit_score` cannot fit."""
    if isinstance(score, Completed):
        raise ValueError(
            f"the score {score.name} only works in condvae ood experiment, which fits its density to whole images: fit "
            f"another score, such as {score.inner.name}"
        )


def training_features(
    score: Score,
    inference: Inference,
    data: Dataset,
    *,
    images: int = 5000,
    seed: int = 0,
    first: int = 0,
    stop: int | None = None,
) -> DensityValues:
    """Return F features of each of N training images, [N, F], to which the density is fitted.

    images: the number of training images to choose, evenly spread. first, stop: compute only these rows of the result;
    each row has the same values as in the full result.
    """
    check_kind(score, inference)
    chosen = spread(len(data.train), images)
    return _measured(score, inference, data.train, chosen, seed=seed, purpose="fit", first=first, stop=stop)[0]


def _held_out(data: Dataset, chosen: Indices, count: int, kind: EncoderKind, say: Say) -> tuple[ImageSet, Indices, str]:
    """Return a set of held-out images, the indices of those to observe, and the origin of the set for the record."""
    if len(data.validation):
        held, origin = data.validation, VALIDATION
    else:
        held = data.train.subset(np.setdiff1d(np.arange(len(data.train)), chosen))
        origin = UNFITTED
        if not len(held):
            raise ValueError(
                f"there are no validation images, and the fit uses all {len(chosen):,} training images, so none are "
                "held out: hold some out with --validation, or fit fewer images"
            )
        warn_with(say)(
            f"there are no validation images: {len(held):,} training images that are not fitted are held out instead"
        )
    positions = spread(len(held), count)
    if kind == "partial" and len(positions) < count:  # observe images several times, with different holes
        positions = np.resize(positions, count)
    return held, positions, origin


def _measured(
    score: Score,
    inference: Inference,
    images: ImageSet,
    positions: Indices,
    *,
    seed: int,
    purpose: str,
    first: int = 0,
    stop: int | None = None,
) -> tuple[DensityValues, DensityValues]:
    """Observe N images as in training; return their features, [N, F], and their known shares, [N].

    positions: the indices of the N images. purpose: a text from which random seeds are derived. first, stop: compute
    only these rows of the results; each row has the same values as in the full results.
    """
    draws = Seeds(seed, f"ood {purpose}: observations")
    noise = Seeds(seed, f"ood {purpose}: latents")(0)
    stop = len(positions) if stop is None else min(stop, len(positions))
    features, shares = [], []

    def draw(start: int) -> Observation:
        batch = images.take(positions[start : start + _BLOCK]).batch()
        return inference.draw(batch, draws.generator(start // _BLOCK))

    with track("scoring images", total=stop - first, inner=True) as job:
        for start in range(first - first % _BLOCK, stop, _MEASURED):
            end = min(start + _MEASURED, stop)
            with on_workers(_MEASURED // _BLOCK) as each:
                drawn = joined(each(draw, range(start, end, _BLOCK)))
            rows = range(max(first, start), end)
            observation = drawn[rows.start - start : rows.stop - start]
            features.append(measure_observation(score, inference, observation, seed=noise, places=rows))
            shares.append(known_share(observation))
            job.update(len(rows))
    return np.concatenate(features), np.concatenate(shares)


def joined(observations: Iterable[Observation]) -> Observation:
    """Concatenate observations into one batch, contiguous because another memory layout could round differently."""
    parts = list(observations)
    known = [part.known for part in parts if part.known is not None]
    pixels = [part.pixels for part in parts if part.pixels is not None]
    return Observation(
        y=torch.cat([part.y for part in parts]).contiguous(),
        known=torch.cat(known).contiguous() if known else None,
        pixels=torch.cat(pixels).contiguous() if pixels else None,
    )


def _scores(features: ArrayLike, density: GaussianDensity | None, name: str) -> DensityValues:
    if density is not None:
        return density.log_density(features)
    values = np.asarray(features, dtype=np.float64)
    if values.ndim != 2 or values.shape[1] != 1:
        raise ValueError(f"the features have shape {list(values.shape)}, expected [B, 1] for the score {name}")
    return values[:, 0]


def _process(inference: Inference) -> str | None:
    if inference.kind == "whole":
        return None
    assert isinstance(inference.model, ConditionalVAE)
    return observe.describe(inference.model.process) if inference.model.process else None
