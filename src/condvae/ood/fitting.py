"""Fitting a score to a model: the density of its features on training images, and scores of held-out images."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike
from tqdm import tqdm

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
from condvae.runtime.messages import Say, silent
from condvae.runtime.seeds import Seeds
from condvae.sampling.cpu_workers import on_workers

STRANGE = 1.0
"""An image whose percentile is at most this is called strange."""
_FEWEST, _MOST = 200, 1000
"""A score is compared with the fifth of the held-out observations of nearest known share, within these limits."""
_BLOCK = 100
"""Images whose observations are drawn with one generator: constant, so that draws do not depend on the device."""
_MEASURED = 5 * _BLOCK
"""Images whose features are computed in one call."""
VALIDATION, UNFITTED = "validation images", "training images that were not fitted"
"""Where held-out images come from, as written in a fit's record."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Fit:
    """What a score of one model is compared with: a density of training images, and scores of held-out images."""

    score: str
    """The score's name, as `score_of` takes it."""
    kind: EncoderKind
    density: GaussianDensity | None
    """The density of training images' features; None if the score is a single feature without a density."""
    held_scores: DensityValues
    """Scores of M held-out observations, [M]."""
    held_shares: DensityValues
    """The share of known pixels in each held-out observation, from 0 to 1, [M]."""
    record: Mapping[str, Any]
    """How the fit was made, as plain values; its entry "model" identifies the model."""

    def score_values(self, features: ArrayLike) -> DensityValues:
        """Return the scores [B] of features [B, F]: their log-density, or the feature itself without a density."""
        return _scores(features, self.density, self.score)

    def percentile(self, scores: ArrayLike, shares: ArrayLike) -> DensityValues:
        """Return the percentage of ordinary observations that are at least as strange, [B], above 0 and at most 100.

        The percentile is 100 (1 + number of held-out scores that are not higher) / (1 + number of held-out scores). The
        rank of a new ordinary image among held-out images is random, so about p % of ordinary images, or fewer, get a
        percentile of p or less. A score is compared only with the fifth of the held-out observations whose known share
        is nearest (at least 200, at most 1,000, and all that are equally near), because the known share affects the
        score more than the content of the image does. The percentage is approximate for two reasons: the known shares
        are similar but not equal, and several held-out observations may show one image behind different holes.
        """
        scores, shares = (np.asarray(values, dtype=np.float64) for values in (scores, shares))
        if scores.ndim != 1 or shares.shape != scores.shape:
            raise ValueError(
                f"scores are {list(scores.shape)} and known shares {list(shares.shape)}, expected [B] for both"
            )
        count = len(self.held_scores)
        neighbours = min(count, max(_FEWEST, min(_MOST, count // 5)))
        found = np.empty(len(scores))
        for i, (score, share) in enumerate(zip(scores, shares, strict=True)):
            distances = np.abs(self.held_shares - share)
            # The tolerance keeps shares that are equally near in spite of rounding.
            near = distances <= np.partition(distances, neighbours - 1)[neighbours - 1] + 1e-9
            no_higher = np.count_nonzero(near & (self.held_scores <= score))
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
    """Fit a score to training images, observed as in the partial encoder's training, and score held-out images.

    The held-out images are the validation images; if there are none, the training images that were not fitted. If there
    are fewer than `held_out`, partly hidden images are used several times, each time with another observation.
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
        raise ValueError(f"the score {score.name} is NaN or infinite on held-out images: use another, or fewer passes")
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
    """Raise ValueError for a score of completed images, whose density must be fitted to whole images instead."""
    if isinstance(score, Completed):
        raise ValueError(
            f"the score {score.name} only works in condvae ood experiment, which fits it to whole images: fit another "
            f"score, such as {score.inner.name}"
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
    """Return the features of training images that the density is fitted to, [N, F].

    first and stop select rows without changing their values.
    """
    check_kind(score, inference)
    chosen = spread(len(data.train), images)
    return _measured(score, inference, data.train, chosen, seed=seed, purpose="fit", first=first, stop=stop)[0]


def _held_out(data: Dataset, chosen: Indices, count: int, kind: EncoderKind, say: Say) -> tuple[ImageSet, Indices, str]:
    """Return images that are not fitted, the positions of those to observe, and where the images come from."""
    if len(data.validation):
        held, origin = data.validation, VALIDATION
    else:
        held = data.train.subset(np.setdiff1d(np.arange(len(data.train)), chosen))
        origin = UNFITTED
        if not len(held):
            raise ValueError(
                f"there are no validation images, and all {len(chosen):,} training images are fitted: hold some out "
                "with --validation, or fit fewer images"
            )
        say(f"there are no validation images: {len(held):,} training images that are not fitted are used instead")
    positions = spread(len(held), count)
    if kind == "partial" and len(positions) < count:  # observe images again, behind other holes
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
    """Observe images as in training; return their features, [N, F], and the share of known pixels of each, [N].

    first and stop select rows without changing their values.
    """
    draws = Seeds(seed, f"ood {purpose}: observations")
    noise = Seeds(seed, f"ood {purpose}: latents")(0)
    stop = len(positions) if stop is None else min(stop, len(positions))
    features, shares = [], []

    def draw(start: int) -> Observation:
        batch = images.take(positions[start : start + _BLOCK]).batch()
        return inference.draw(batch, draws.generator(start // _BLOCK))

    # disable=None shows the bar on a terminal only.
    with tqdm(total=stop - first, desc=purpose, unit="image", leave=False, disable=None) as bar:
        for start in range(first - first % _BLOCK, stop, _MEASURED):
            end = min(start + _MEASURED, stop)
            with on_workers(_MEASURED // _BLOCK) as each:
                drawn = joined(each(draw, range(start, end, _BLOCK)))
            rows = range(max(first, start), end)
            observation = drawn[rows.start - start : rows.stop - start]
            features.append(measure_observation(score, inference, observation, seed=noise, places=rows))
            shares.append(known_share(observation))
            bar.update(len(rows))
    return np.concatenate(features), np.concatenate(shares)


def joined(observations: Iterable[Observation]) -> Observation:
    """Concatenate observations into one contiguous batch; the memory layout could change how networks round."""
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
        raise ValueError(f"features are {list(values.shape)}, expected [B, 1] for the score {name}")
    return values[:, 0]


def _process(inference: Inference) -> str | None:
    if inference.kind == "whole":
        return None
    assert isinstance(inference.model, ConditionalVAE)
    return observe.describe(inference.model.process) if inference.model.process else None
