"""Experimental design for something other than x-rays: find the class of a CIFAR-10 picture from scans of 8 x 8 of its
32 x 32 pixels. The script trains a classifier that predicts from known pixels, which takes minutes on a CPU, and
completes pictures with the embedded model `cifar10`. Each scan is taken where its expected information gain is highest.
The script prints how often the classifier is right after each scan, compared with random scans, and draws a figure that
explains the scans of one picture.

    condvae fetch cifar10
    python recipes/design_cifar10.py            (20 minutes on one core of a CPU)
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from condvae import weights
from condvae.completers.model_completer import ModelCompleter
from condvae.data import Dataset, open_data
from condvae.design import Candidates, Completions, Greedy, Random, TrainingImages, full_image, scan
from condvae.design.avp_cnn.classifier_file import load_classifier
from condvae.design.avp_cnn.classifier_options import ClassifierOptions
from condvae.design.avp_cnn.classifier_training import train_classifier
from condvae.design.avp_cnn.network import AVPCNN
from condvae.design.prediction_task import PredictionTask
from condvae.design.scan_figure import draw_figure, draw_frames, gif_options
from condvae.design.single_image import scan_image
from condvae.runtime.atomic import writing
from condvae.runtime.checks import check_whole, option_name
from condvae.runtime.scripts import run_script
from condvae.sampling.sampler import Sampler
from condvae.vdvae.temperature import parse

_TOGETHER = 16
"""How many pictures are scanned together."""
_RANDOM_DRAWS = 20
"""How many random sequences of scans are drawn for each picture."""


@dataclass(frozen=True, kw_only=True)
class Options:
    """Train a classifier, scan test pictures, and draw the scans of one of them."""

    data: Path = Path("cifar10")
    """32 x 32 RGB pictures with one class label each."""
    model: str = "cifar10"
    """The conditional model that completes the pictures."""
    classifier: Path | None = None
    """A classifier file from an earlier training. If it is not given, a new classifier is trained."""
    out: Path = Path("out/design_cifar10")
    """Folder for classifier.safetensors, panel.png and panel.gif."""
    steps: int = 2000
    """How many updates to train the classifier for."""
    batch: int = 128
    """How many pictures each update uses."""
    images: int = 256
    """How many test pictures to scan."""
    scans: int = 5
    """How many scans to make of each picture."""
    n: int = 10
    """How many completions to draw in order to choose each scan."""
    points: int = 9
    """How many locations there are along each side of the picture."""
    first_n: int = 200
    """How many training pictures to use in order to choose the first scan, which is the same for all pictures."""
    drawn: int = 0
    """Which test picture to draw, counted from 0."""
    seed: int = 0


def main(options: Options) -> None:
    for name in ("steps", "batch", "images", "scans", "n", "first_n"):
        check_whole(getattr(options, name), option_name(name), least=1)
    data = open_data(options.data)
    if not 0 <= options.drawn < len(data.test):
        raise ValueError(f"--drawn is {options.drawn}, expected a test picture from 0 to {len(data.test) - 1}")
    model = weights.load_conditional(options.model)
    file = options.classifier or train_classifier(classifier_options(options))
    classifier = load_classifier(file)
    candidates = Candidates.grid(data.test.size, side=data.test.size // 4, points=options.points)
    sampler = Sampler(model, precision="fp32")
    heat = parse("1", model.artifact.config)
    policy = Greedy(
        name="EIG",
        classifier=classifier,
        candidates=candidates,
        variable=0,
        source=Completions(
            completer=ModelCompleter(name=options.model, sampler=sampler, temperature=heat, pixels="mean")
        ),
        n=options.n,
        first=TrainingImages(images=data.train),
        first_n=options.first_n,
    )
    draw(options, data, classifier, candidates, policy)
    compare(options, data, classifier, candidates, policy)


def classifier_options(options: Options) -> ClassifierOptions:
    return ClassifierOptions(
        data=(options.data,),
        out=options.out / "classifier.safetensors",
        trunk="plain",
        blocks=1,
        stem_stride=1,
        head=0,
        steps=options.steps,
        batch=options.batch,
        lr=2e-3,
        warm_up=min(100, options.steps // 10),
        evaluate_every=max(1, options.steps // 5),
        draws=1,
        seed=options.seed,
        device="cpu",
    )


def draw(options: Options, data: Dataset, classifier: AVPCNN, candidates: Candidates, policy: Greedy) -> None:
    """Draw the scans of one picture."""
    task = PredictionTask.of(classifier, outcomes=classifier.config.outcome_names)
    levels = data.test.take(np.array([options.drawn]))
    scans = scan_image(levels.images[0], policy, classifier, candidates, task, steps=options.scans, seed=options.seed)
    steps = [one.step for one in scans]
    label = int(labels_of(levels.labels)[0])
    title = f"test picture {options.drawn}: {task.outcomes[label] if task.outcomes else label}"
    with writing(options.out / "panel.png") as temporary:
        draw_figure(steps, candidates, title=title).save(temporary, format="png")
    pictures = draw_frames(steps, candidates, title=title)
    with writing(options.out / "panel.gif") as temporary:
        pictures[0].save(temporary, format="gif", **gif_options(pictures))
    print(f"wrote {options.out / 'panel.png'} and panel.gif", flush=True)


def compare(options: Options, data: Dataset, classifier: AVPCNN, candidates: Candidates, policy: Greedy) -> None:
    """Print accuracy and log-probability of the true class, after each number of scans and for whole pictures."""
    count = min(options.images, len(data.test))
    levels = data.test.take(np.arange(count))
    images, labels = levels.images, labels_of(levels.labels)
    chosen = []
    for first in range(0, count, _TOGETHER):
        places = range(first, min(first + _TOGETHER, count))
        some = images[first : places.stop]
        scans = scan(some, policy, classifier, candidates, steps=options.scans, seed=options.seed, places=places)
        chosen.append(scans.log_p[:, :, 0])
        print(f"scanned {places.stop} of {count} test pictures", flush=True)
    anywhere = Random(candidates=candidates)
    random = [
        scan(images, anywhere, classifier, candidates, steps=options.scans, seed=seed).log_p[:, :, 0]
        for seed in range(options.seed, options.seed + _RANDOM_DRAWS)
    ]
    predictions = {"EIG": torch.cat(chosen)[None], "random": torch.stack(random)}
    whole = full_image(images, classifier)[None, :, None, 0]
    for title, measure in (("accuracy, %", accuracy), ("log g(true class), nats", log_score)):
        print(f"{title:24}{''.join(f'{t:8}' for t in range(options.scans + 1))}   whole picture")
        each = {name: measure(log_p, labels) for name, log_p in predictions.items()}
        upper = float(measure(whole, labels).mean())
        for name, values in each.items():
            print(f"{name:24}{numbers(values.mean(dim=0))}{upper:16.2f}")
        more = each["EIG"] - each["random"]
        print(f"{'EIG - random':24}{numbers(more.mean(dim=0))}")
        print(f"{'    standard error':24}{numbers(more.std(dim=0) / count**0.5)}")


def accuracy(log_p: Tensor, labels: Tensor) -> Tensor:
    """Return the accuracy in per cent: how often, among R sequences of scans, the most likely class is the true one.

    log_p: log-probabilities [R, B, T, K] of K classes after T numbers of scans. The result is [B, T].
    """
    return 100 * (log_p.argmax(dim=-1) == labels[:, None]).double().mean(dim=0)


def log_score(log_p: Tensor, labels: Tensor) -> Tensor:
    """Return the log-probability of the true class, averaged over R sequences of scans.

    log_p: log-probabilities [R, B, T, K] of K classes after T numbers of scans. The result is [B, T].
    """
    truth = labels[:, None, None].expand(*log_p.shape[:-1], 1)
    return log_p.gather(-1, truth)[..., 0].double().mean(dim=0)


def numbers(values: Tensor) -> str:
    return "".join(f"{value:8.2f}" for value in values.tolist())


def labels_of(labels: Tensor | None) -> Tensor:
    if labels is None or labels.ndim != 1:
        raise ValueError("the pictures do not have one class label each: give data with class labels")
    return labels


if __name__ == "__main__":
    run_script(main, Options, __doc__)
