"""What is ordinary to a model: the density of a score's features on training images, and scores of held-out ones."""

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
from condvae.ood.completed import Completed
from condvae.ood.density import DensityValues, GaussianDensity
from condvae.ood.inference import EncoderKind, Inference
from condvae.ood.measuring import check_kind, known_share, measure_observation
from condvae.ood.scores import Score
from condvae.runtime.checks import check_seed, check_whole
from condvae.runtime.messages import Say, silent
from condvae.runtime.seeds import Seeds
from condvae.sampling.cpu_workers import on_workers

STRANGE = 1.0
"""Percentiles up to this are worth a warning."""
_FEWEST, _MOST = 200, 1000
"""Held-out observations of nearest known share with which one is compared: a fifth of them all, between these."""
_BLOCK = 100
"""Images whose observations are drawn with one generator: a constant, so that nothing hangs on devices or memory."""
_MEASURED = 5 * _BLOCK
"""Images measured together."""
VALIDATION, UNFITTED = "validation images", "training images that were not fitted"
"""Where held-out images are from, in a fit's record."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Fit:
    """A score made ready for one model."""

    score: str
    """Its name: `score_of` has it."""
    kind: EncoderKind
    density: GaussianDensity | None
    """Of the features of training images; None where the score is its one feature."""
    held_scores: DensityValues
    """[M]: of observations of images that the fit has not seen."""
    held_shares: DensityValues
    """[M]: how much of each image was known, from 0 to 1."""
    record: Mapping[str, Any]
    """How it came to be, as plain values; under "model", of which model it is."""

    def score_values(self, features: ArrayLike) -> DensityValues:
        """[B] scores of features [B, F]: their log-density, or the feature itself."""
        return _scores(features, self.density, self.score)

    def percentile(self, scores: ArrayLike, shares: ArrayLike) -> DensityValues:
        """[B], above 0, at most 100: how many in a hundred ordinary observations are as strange, or stranger.

        100 (1 + the number of held-out scores that are no higher) / (1 + their number): where a fresh ordinary image
        is among them is a matter of chance, so it comes out at p or below in about p of a hundred cases, or fewer.
        Compared are the fifth of held-out observations of nearest known share (200 to 1,000), and all as near as the
        last of them: how much is seen of an image changes its score more than what it shows. About, for two reasons:
        they have nearly as much known, not as much; and several may be of one image, behind different holes, which
        are not as many chances as different images.
        """
        scores, shares = (np.asarray(values, dtype=np.float64) for values in (scores, shares))
        if scores.ndim != 1 or shares.shape != scores.shape:
            raise ValueError(
                f"scores are {list(scores.shape)} and known shares {list(shares.shape)}, expected [B] of both"
            )
        count = len(self.held_scores)
        neighbours = min(count, max(_FEWEST, min(_MOST, count // 5)))
        found = np.empty(len(scores))
        for i, (score, share) in enumerate(zip(scores, shares, strict=True)):
            distances = np.abs(self.held_shares - share)
            # Shares are fractions of pixels: what is as near must not be lost to rounding.
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
    """Fit the score to training images, observed as the partial encoder was trained, and score held-out ones.

    Held out are validation images, each as often as needed with another draw of what is seen of it; where there are
    none, training images that the fit has left.
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
        raise ValueError(f"the score {score.name} is NaN or infinite on held-out images: take another, or fewer walks")
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
    """Raise a ValueError for a score of completed images: here its density would be of completions."""
    if isinstance(score, Completed):
        raise ValueError(
            f"the score {score.name} is for condvae ood experiment, which fits it to whole images: fit another, such "
            f"as {score.inner.name}"
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
    """[N, F]: what the density is fitted to. Rows first to stop of it are the same as among all of them."""
    check_kind(score, inference)
    chosen = spread(len(data.train), images)
    return _measured(score, inference, data.train, chosen, seed=seed, purpose="fit", first=first, stop=stop)[0]


def _held_out(data: Dataset, chosen: Indices, count: int, kind: EncoderKind, say: Say) -> tuple[ImageSet, Indices, str]:
    """Images that the fit does not see, which of them are observed, and where they are from."""
    if len(data.validation):
        held, origin = data.validation, VALIDATION
    else:
        held = data.train.subset(np.setdiff1d(np.arange(len(data.train)), chosen))
        origin = UNFITTED
        if not len(held):
            raise ValueError(
                f"there are no validation images, and all {len(chosen):,} training images are fitted: hold some out "
                "with --validation, or fit fewer"
            )
        say(f"there are no validation images: {len(held):,} training images that are not fitted stand in for them")
    positions = spread(len(held), count)
    if kind == "partial" and len(positions) < count:  # the same image behind another hole
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
    """[N, F] features of images, observed as in training, and [N] how much of each was known; of rows first to stop,
    which are the same as among all.
    """
    draws = Seeds(seed, f"ood {purpose}: observations")
    noise = Seeds(seed, f"ood {purpose}: latents")(0)
    stop = len(positions) if stop is None else min(stop, len(positions))
    features, shares = [], []

    def draw(start: int) -> Observation:
        batch = images.take(positions[start : start + _BLOCK]).batch()
        return inference.draw(batch, draws.generator(start // _BLOCK))

    # disable=None: no bar where there is no terminal.
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
    """One batch of them, contiguous wherever they come from, so that networks compute the same bits."""
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
        raise ValueError(f"features are {list(values.shape)}, expected [B, 1]: the score {name} is one number")
    return values[:, 0]


def _process(inference: Inference) -> str | None:
    if inference.kind == "whole":
        return None
    assert isinstance(inference.model, ConditionalVAE)
    return observe.describe(inference.model.process) if inference.model.process else None
