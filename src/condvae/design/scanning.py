"""Simulate scans on whole images: a policy chooses each location, and g predicts from the pixels known so far."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import torch
from torch import Tensor

from condvae.design.candidates import Candidates
from condvae.design.classifier import Classifier
from condvae.design.lookahead import log_posteriors
from condvae.design.policies import Choice, Policy, check_seed
from condvae.observe import Observation
from condvae.observe.observation import observe_levels
from condvae.runtime.checks import check_whole

OnStep: TypeAlias = Callable[[int, Observation, Choice, Observation], None]
"""A function that is called after each step, with the number of the step (from 0), the observation before it, the
policy's choice, and the observation after it."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Scans:
    """The locations that were scanned in each image, and the classifier's predictions after each scan."""

    chosen: Tensor
    """[B, T] int64: for each of B images, the indices of the T scanned locations among the candidates."""
    log_p: Tensor
    """[B, T + 1, V, K] float32: the predictions log g of all V variables after 0, ..., T scans."""


@torch.no_grad()
def scan(
    images: Tensor,
    policy: Policy,
    classifier: Classifier,
    candidates: Candidates,
    *,
    steps: int = 5,
    seed: int = 0,
    places: Sequence[int] | None = None,
    on_step: OnStep | None = None,
    ends_early: bool = False,
) -> Scans:
    """Scan images [B, C, H, W] uint8, starting with no known pixels. The policy sees only the pixels scanned so far.

    places: one number per image, which identifies the image in random draws, so that it gets the same scans in any
    batch. The default is 0, 1, ...
    ends_early: stop when all windows of all images are known, instead of raising a ValueError.
    """
    _check(images, candidates)
    check_whole(steps, "the number of scans", least=1)
    check_seed(seed)
    places = list(range(len(images))) if places is None else [int(place) for place in places]
    if len(places) != len(images):
        raise ValueError(
            f"there are {len(places)} places, the numbers that identify images in random draws, for "
            f"{len(images)} images: give one place per image"
        )
    candidates = candidates.to(images.device)
    observation = observe_levels(images, torch.zeros_like(images[:, :1], dtype=torch.bool))
    chosen, predictions = [], [_predict(classifier, images, observation)]
    for step in range(steps):
        assert observation.known is not None
        if ends_early and not candidates.new(observation.known).any():
            break
        choice = policy.choose(observation, step, seed=seed, places=places)
        index = _check_index(choice, policy.name, len(images), len(candidates)).to(images.device)
        after = observe_levels(images, observation.known | candidates.windows[index])
        if on_step is not None:
            on_step(step, observation, choice, after)
        observation = after
        chosen.append(index)
        predictions.append(_predict(classifier, images, observation))
    return Scans(chosen=torch.stack(chosen, dim=1), log_p=torch.stack(predictions, dim=1))


def full_image(images: Tensor, classifier: Classifier) -> Tensor:
    """Predict log g [B, V, K] float32 from whole images [B, C, H, W] uint8, to compare with predictions after scans.

    They are not an upper bound on the quality of predictions: g sometimes predicts better from a part of an image.
    """
    return log_posteriors(classifier, images, torch.ones_like(images[:, :1], dtype=torch.bool))


def _predict(classifier: Classifier, images: Tensor, observation: Observation) -> Tensor:
    assert observation.known is not None
    return log_posteriors(classifier, images, observation.known)


def _check_index(choice: Choice, name: str, images: int, candidates: int) -> Tensor:
    """Return the indices [B] that a policy chose; raise a ValueError if they are not indices of candidates."""
    index = choice.index if isinstance(choice, Choice) else None
    if not isinstance(index, Tensor) or index.dtype != torch.int64 or index.shape != (images,):
        found = f"{index.dtype} of shape {list(index.shape)}" if isinstance(index, Tensor) else type(index).__name__
        raise ValueError(
            f"the policy {name} chose {found}, expected the index of one candidate per image: torch.int64 of shape "
            f"[{images}]"
        )
    if bool(((index < 0) | (index >= candidates)).any()):
        raise ValueError(
            f"the policy {name} chose an index outside 0 to {candidates - 1}: "
            "give the same candidates to the policy and to the scan"
        )
    return index


def _check(images: Tensor, candidates: Candidates) -> None:
    if not isinstance(images, Tensor) or images.dtype != torch.uint8 or images.ndim != 4 or not len(images):
        kind = f"{images.dtype} of shape {tuple(images.shape)}" if isinstance(images, Tensor) else type(images).__name__
        raise ValueError(f"the images are {kind}, expected a uint8 tensor of shape [B, C, H, W]: grey levels 0 to 255")
    if images.shape[2:] != (candidates.size, candidates.size):
        raise ValueError(
            f"the images are {images.shape[2]} x {images.shape[3]} but the candidate windows are for images of "
            f"{candidates.size} x {candidates.size}: make candidates for the size of the images"
        )
