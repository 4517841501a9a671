"""One image scanned step by step, and everything that a picture of it shows."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from condvae.design.candidates import Candidates
from condvae.design.classifier import Classifier
from condvae.design.information import entropy
from condvae.design.location import Location
from condvae.design.lookahead import log_posteriors
from condvae.design.panel import PanelStep
from condvae.design.policies import Choice, Estimator, Policy
from condvae.design.question import Question
from condvae.design.scanning import scan
from condvae.observe import Observation
from condvae.runtime.pixels import to_uint8


@dataclass(frozen=True, kw_only=True, eq=False)
class Scan:
    """One scan: where, why, and what came of it."""

    index: int
    """Into the candidates."""
    nats: float
    """The information that it was expected to give, by the estimator that chose it."""
    before: Tensor
    """[K]: g's probabilities without it ..."""
    after: Tensor | None
    """... and with it; None where it has not been taken."""
    step: PanelStep
    """As it is drawn."""


def follow(
    image: Tensor,
    policy: Policy,
    classifier: Classifier,
    candidates: Candidates,
    question: Question,
    *,
    steps: int = 5,
    estimator: Estimator = "eig",
    seed: int = 0,
    place: int = 0,
    on_scan: Callable[[Scan], None] | None = None,
) -> list[Scan]:
    """Scan one image [C, H, W] uint8 by a policy that says why, until `steps` scans or all there is to see.

    estimator: what the policy's scores are.
    on_scan: told of every scan when it has been taken.
    """
    image = image[None]
    nothing = torch.zeros_like(image[:, :1], dtype=torch.bool)
    said = [log_posteriors(classifier, image, nothing)[0, question.variable]]
    scans: list[Scan] = []

    def note(_: int, before: Observation, choice: Choice, after: Observation) -> None:
        if choice.scores is None or choice.images is None:
            raise ValueError(f"{policy.name} does not say why it scans where it does, so there is nothing to draw")
        assert after.known is not None
        said.append(log_posteriors(classifier, image, after.known)[0, question.variable])
        scans.append(
            _scan(
                before,
                index=int(choice.index),
                scores=choice.scores[0],
                gains=None if choice.gains is None else choice.gains[0],
                images=choice.images[0],
                said=said[-2:],
                after=after,
                question=question,
                estimator=estimator,
            )
        )
        if on_scan is not None:
            on_scan(scans[-1])

    scan(image, policy, classifier, candidates, steps=steps, seed=seed, places=[place], on_step=note, ends_early=True)
    return scans


def advised(observation: Observation, location: Location, question: Question, *, estimator: Estimator = "eig") -> Scan:
    """The scan that `next_location` would take."""
    return _scan(
        observation,
        index=location.index,
        scores=location.scores,
        gains=location.gains,
        images=location.completions,
        said=[location.posterior.log()],
        after=None,
        question=question,
        estimator=estimator,
    )


def _scan(
    before: Observation,
    *,
    index: int,
    scores: Tensor,
    gains: Tensor | None,
    images: Tensor,
    said: Sequence[Tensor],
    after: Observation | None,
    question: Question,
    estimator: Estimator,
) -> Scan:
    assert before.known is not None and before.pixels is not None
    if estimator == "epe":  # what is expected to be left of the doubt, as what is expected to go (eq:old-eig)
        scores = scores + entropy(said[0]).to(scores.device)
    probabilities = [log_p.exp().cpu() for log_p in said]
    answers = [question.answer(p) for p in probabilities]
    step = PanelStep(
        seen=to_uint8(before.pixels[0]).cpu(),
        known=before.known[0].cpu(),
        images=images.cpu(),
        gains=None if gains is None else gains.cpu(),
        scores=scores.cpu(),
        chosen=index,
        after=None if after is None or after.pixels is None else to_uint8(after.pixels[0]).cpu(),
        says=answers[0],
        says_after=answers[-1] if after is not None else "",
    )
    return Scan(
        index=index,
        nats=float(step.scores[index]),
        before=probabilities[0],
        after=None if after is None else probabilities[-1],
        step=step,
    )
