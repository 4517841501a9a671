"""A scanner simulated on whole images: a policy says where, and g says what it makes of the pixels seen so far."""

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
"""Called with the step, what was known before it, what was chosen, and what is known after it."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Scans:
    """Where was scanned, and what g said."""

    chosen: Tensor
    """[B, T] int64 into the candidates."""
    log_p: Tensor
    """[B, T + 1, V, K] float32: log g after 0, ..., T scans, of all variables."""


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
    """Scan images [B, C, H, W] uint8, of which nothing is known at first; a policy is only given what was scanned.

    places: what stands for image b in all randomness, where these are some of many; 0, 1, ... if not given.
    ends_early: take fewer scans rather than none that shows anything new of any image, which is a ValueError otherwise.
    """
    _check(images, candidates)
    check_whole(steps, "the number of scans", least=1)
    check_seed(seed)
    places = list(range(len(images))) if places is None else [int(place) for place in places]
    if len(places) != len(images):
        raise ValueError(f"{len(places)} places were given for {len(images)} images, expected one for each")
    candidates = candidates.to(images.device)
    observation = observe_levels(images, torch.zeros_like(images[:, :1], dtype=torch.bool))
    chosen, said = [], [_said(classifier, images, observation)]
    for step in range(steps):
        assert observation.known is not None
        if ends_early and not candidates.new(observation.known).any():
            break
        choice = policy.choose(observation, step, seed=seed, places=places)
        index = _index(choice, policy.name, len(images), len(candidates)).to(images.device)
        after = observe_levels(images, observation.known | candidates.windows[index])
        if on_step is not None:
            on_step(step, observation, choice, after)
        observation = after
        chosen.append(index)
        said.append(_said(classifier, images, observation))
    return Scans(chosen=torch.stack(chosen, dim=1), log_p=torch.stack(said, dim=1))


def full_image(images: Tensor, classifier: Classifier) -> Tensor:
    """[B, V, K] float32: log g of whole images [B, C, H, W] uint8, to compare scans with. It is no bound: a part can
    serve g better than the whole.
    """
    return log_posteriors(classifier, images, torch.ones_like(images[:, :1], dtype=torch.bool))


def _said(classifier: Classifier, images: Tensor, observation: Observation) -> Tensor:
    assert observation.known is not None
    return log_posteriors(classifier, images, observation.known)


def _index(choice: Choice, name: str, images: int, candidates: int) -> Tensor:
    """[B]: what a policy chose, or a ValueError if there is no such candidate."""
    index = choice.index if isinstance(choice, Choice) else None
    if not isinstance(index, Tensor) or index.dtype != torch.int64 or index.shape != (images,):
        found = f"{index.dtype} of {list(index.shape)}" if isinstance(index, Tensor) else type(index).__name__
        raise ValueError(f"{name} chose {found}, expected a candidate for each image: torch.int64 of [{images}]")
    if bool(((index < 0) | (index >= candidates)).any()):
        raise ValueError(f"{name} chose another candidate than the {candidates} that there are: give both the same")
    return index


def _check(images: Tensor, candidates: Candidates) -> None:
    if not isinstance(images, Tensor) or images.dtype != torch.uint8 or images.ndim != 4 or not len(images):
        kind = f"{images.dtype} of {tuple(images.shape)}" if isinstance(images, Tensor) else type(images).__name__
        raise ValueError(f"the images are {kind}, expected a uint8 tensor of [B, C, H, W]: grey levels 0 to 255")
    if images.shape[2:] != (candidates.size, candidates.size):
        raise ValueError(
            f"the images are {images.shape[2]} x {images.shape[3]}, the candidates are windows of "
            f"{candidates.size} x {candidates.size}: give candidates of the images' size"
        )
