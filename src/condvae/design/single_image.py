"""Scan one image step by step, and keep everything that a figure of these scans shows."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from condvae.design.candidates import Candidates
from condvae.design.choose_location import Location
from condvae.design.classifier import Classifier
from condvae.design.information import entropy
from condvae.design.lookahead import log_posteriors
from condvae.design.policies import Choice, Policy
from condvae.design.prediction_task import PredictionTask
from condvae.design.scan_figure import FigureRow
from condvae.design.scan_settings import Estimator
from condvae.design.scanning import scan
from condvae.observe import Observation
from condvae.runtime.pixels import to_uint8


@dataclass(frozen=True, kw_only=True, eq=False)
class Scan:
    """One scan of an image: the location, the expected gain, and the predictions before and after the scan."""

    index: int
    """Index of the location among the candidates."""
    nats: float
    """Expected gain of the scan in nats, by the estimator that chose the scan."""
    before: Tensor
    """[K]: the classifier's probabilities of the K outcomes before the scan."""
    after: Tensor | None
    """[K]: the classifier's probabilities of the K outcomes after the scan. None if the scan has not been taken."""
    step: FigureRow
    """The row of the figure that shows the scan."""


def scan_image(
    image: Tensor,
    policy: Policy,
    classifier: Classifier,
    candidates: Candidates,
    task: PredictionTask,
    *,
    steps: int = 5,
    estimator: Estimator = "eig",
    seed: int = 0,
    place: int = 0,
    on_scan: Callable[[Scan], None] | None = None,
) -> list[Scan]:
    """Scan one image [C, H, W] uint8 until `steps` scans are taken or all windows are known.

    policy: its choices must contain scores and images, since the figure shows them.
    estimator: the estimator that the policy's scores come from.
    place: a number that identifies the image in random draws; see `scan`.
    on_scan: a function that is called with each scan when it has been taken.
    """
    image = image[None]
    nothing = torch.zeros_like(image[:, :1], dtype=torch.bool)
    predictions = [log_posteriors(classifier, image, nothing)[0, task.variable]]
    scans: list[Scan] = []

    def note(_: int, before: Observation, choice: Choice, after: Observation) -> None:
        if choice.scores is None or choice.images is None:
            raise ValueError(f"the policy {policy.name} gives no scores, which the figure shows: use a Greedy policy")
        assert after.known is not None
        predictions.append(log_posteriors(classifier, image, after.known)[0, task.variable])
        scans.append(
            _make_scan(
                before,
                index=int(choice.index),
                scores=choice.scores[0],
                gains=None if choice.gains is None else choice.gains[0],
                images=choice.images[0],
                predictions=predictions[-2:],
                after=after,
                task=task,
                estimator=estimator,
            )
        )
        if on_scan is not None:
            on_scan(scans[-1])

    scan(image, policy, classifier, candidates, steps=steps, seed=seed, places=[place], on_step=note, ends_early=True)
    return scans


def planned_scan(
    observation: Observation, location: Location, task: PredictionTask, *, estimator: Estimator = "eig"
) -> Scan:
    """Describe the scan that `next_location` has chosen and that has not been taken yet."""
    return _make_scan(
        observation,
        index=location.index,
        scores=location.scores,
        gains=location.gains,
        images=location.completions,
        predictions=[location.posterior.log()],
        after=None,
        task=task,
        estimator=estimator,
    )


def _make_scan(
    before: Observation,
    *,
    index: int,
    scores: Tensor,
    gains: Tensor | None,
    images: Tensor,
    predictions: Sequence[Tensor],
    after: Observation | None,
    task: PredictionTask,
    estimator: Estimator,
) -> Scan:
    """Make a `Scan`. predictions: log g [K] before the scan and, if the scan was taken, after it."""
    assert before.known is not None and before.pixels is not None
    if estimator == "epe":  # turn minus the EPE into an expected reduction of the entropy (the paper's eq:old-eig)
        scores = scores + entropy(predictions[0]).to(scores.device)
    probabilities = [log_p.exp().cpu() for log_p in predictions]
    captions = [task.describe(p) for p in probabilities]
    step = FigureRow(
        seen=to_uint8(before.pixels[0]).cpu(),
        known=before.known[0].cpu(),
        images=images.cpu(),
        gains=None if gains is None else gains.cpu(),
        scores=scores.cpu(),
        chosen=index,
        after=None if after is None or after.pixels is None else to_uint8(after.pixels[0]).cpu(),
        caption=captions[0],
        caption_after=captions[-1] if after is not None else "",
    )
    return Scan(
        index=index,
        nats=float(step.scores[index]),
        before=probabilities[0],
        after=None if after is None else probabilities[-1],
        step=step,
    )
