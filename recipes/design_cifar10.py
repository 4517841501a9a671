r"""Experimental design for something other than x-rays: find the class of a CIFAR-10 picture from scans of 8 x 8 of its
32 x 32 pixels. The script trains a classifier that predicts from known pixels, which takes minutes on a CPU, and
completes pictures with the embedded model `cifar10`. Each scan is taken where its expected information gain (EIG) is
highest. The script prints how often the classifier is right after each scan, compared with random scans, and draws a
figure that explains the scans of one picture.

    condvae fetch cifar10
    python recipes/design_cifar10.py            (20 minutes on one core of a CPU)

Other models can complete the pictures, too. Each adds a policy eig-NAME, which chooses scans with its completions. All
policies have the same classifier, locations, first scan, seed and number of completions:

    python recipes/design_cifar10.py --against comodgan=out/comodgan diffusion=out/diffusion --training-images

All numbers are also in results.json: means and standard errors of each policy after each scan, paired differences
between eig-ipa and the other policies, and how long each policy took.
"""

import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated

import numpy as np
import torch
import tyro
from torch import Tensor

from condvae.completers import Completer
from condvae.completers.by_place import identity_of
from condvae.data import Dataset, ImageSet, open_data
from condvae.design import Candidates, Completions, Greedy, Random, TrainingImages, full_image, scan
from condvae.design.avp_cnn.classifier_file import load_classifier
from condvae.design.avp_cnn.classifier_options import ClassifierOptions
from condvae.design.avp_cnn.classifier_training import train_classifier
from condvae.design.avp_cnn.network import AVPCNN
from condvae.design.classifier import Classifier
from condvae.design.policies import FirstScanCache, Policy
from condvae.design.prediction_task import PredictionTask
from condvae.design.scan_figure import draw_figure, draw_frames, gif_options
from condvae.design.single_image import scan_image
from condvae.design.sources import ImageSource
from condvae.experiments.design.measure import identity_of_classifier
from condvae.experiments.named_completers import CompleterLike, named_models, open_completers
from condvae.runtime.atomic import write_text, writing
from condvae.runtime.checks import check_whole, option_name
from condvae.runtime.devices import resolve_device, time_at
from condvae.runtime.formats import json_text
from condvae.runtime.scripts import run_script
from condvae.runtime.versions import device_name, versions

sys.path.insert(0, str(Path(__file__).parents[1]))
from recipes.design_comparison import OURS, RANDOM, Scanned, TimedSource, show, summarise

FORMAT = "condvae design cifar10"
IPA, TRAINING = "ipa", "training"
"""The names of the own model and of training images in policies such as eig-ipa."""
_TOGETHER = {"cuda": 256, "cpu": 16}
"""How many pictures are scanned together. On a GPU, their completions and predictions fill large batches."""
_RANDOM_DRAWS = 20
"""How many random sequences of scans are drawn for each picture."""


@dataclass(frozen=True, kw_only=True)
class Options:
    """Train a classifier, scan test pictures, and draw the scans of one of them."""

    data: Path = Path("cifar10")
    """32 x 32 RGB pictures with one class label each."""
    model: str = "cifar10"
    """The conditional model that completes the pictures: a name, a file or a run folder."""
    against: Annotated[tuple[str, ...], tyro.conf.arg(metavar="MODEL|NAME=MODEL")] = ()
    """Other models that complete the pictures, such as baselines from `condvae train --baseline`. Each adds a policy
    eig-NAME."""
    training_images: bool = False
    """Add the policy eig-training, which uses n random training pictures instead of completions. It ignores the known
    pixels, except that they need not be scanned again."""
    classifier: Path | None = None
    """A classifier file from an earlier training. If it is not given, a new classifier is trained."""
    out: Path = Path("out/design_cifar10")
    """Folder for classifier.safetensors, panel.png, panel.gif and results.json."""
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
    device: str = "auto"
    """Where to compute. auto uses a GPU if there is one."""
    seed: int = 0


def main(options: Options) -> None:
    for name in ("steps", "batch", "images", "scans", "n", "first_n"):
        check_whole(getattr(options, name), option_name(name), least=1)
    device = resolve_device(options.device)
    data = open_data(options.data)
    if not 0 <= options.drawn < len(data.test):
        raise ValueError(f"--drawn is {options.drawn}, expected a test picture from 0 to {len(data.test) - 1}")
    candidates = candidates_of(options, data.test.size).to(device)
    completers = completers_of(options, data.test, device)
    file = options.classifier or train_classifier(classifier_options(options))
    classifier = load_classifier(file).to(device)
    policies = policies_of(options, data, classifier, candidates, completers)
    draw(options, data, classifier, candidates, policies[OURS], device)
    scanned, whole, labels = compare(options, data, classifier, candidates, policies, device)
    result = {
        "format": FORMAT,
        "options": {name: str(value) if isinstance(value, Path) else value for name, value in asdict(options).items()},
        "images": len(labels),
        "classifier": identity_of_classifier(classifier),
        "completers": {f"eig-{name}": identity_of(completer) for name, completer in completers.items()},
        "device": device_name(device),
        "versions": versions(),
        **summarise(scanned, whole, labels),
    }
    show(result)
    write_text(options.out / "results.json", json_text(result))
    print(f"wrote {options.out / 'results.json'}")


def candidates_of(options: Options, size: int) -> Candidates:
    candidates = Candidates.grid(size, side=size // 4, points=options.points)
    if options.scans > candidates.scans_for_all:
        raise ValueError(
            f"--scans is {options.scans}, but {candidates.scans_for_all} scans can cover all locations, after which "
            "nothing is left to scan: give fewer --scans or more --points"
        )
    return candidates


def completers_of(options: Options, test: ImageSet, device: torch.device) -> dict[str, Completer]:
    """Open the own model and the models of --against, by the NAME of their policies eig-NAME."""
    others = named_models(options.against)
    for name in (IPA, TRAINING):
        if name in others:
            raise ValueError(f"a model of --against cannot be called {name}, since eig-{name} is another policy")
    given: dict[str, CompleterLike] = {IPA: options.model, **others}
    completers = open_completers(given, size=test.size, channels=test.channels, device=device)
    for name, completer in completers.items():
        if not completer.varies:
            print(f"eig-{name} chooses at random: all completions of a picture by {completer.name} are equal")
    return completers


def policies_of(
    options: Options,
    data: Dataset,
    classifier: Classifier,
    candidates: Candidates,
    completers: Mapping[str, Completer],
) -> dict[str, Greedy]:
    """Return the policies that maximise the EIG, by name. They differ only in the images that they use for it."""
    training, cache = TrainingImages(images=data.train), FirstScanCache()
    sources: dict[str, ImageSource] = {name: Completions(completer=one) for name, one in completers.items()}
    if options.training_images:
        sources[TRAINING] = training
    return {
        f"eig-{name}": Greedy(
            name=f"eig-{name}",
            classifier=classifier,
            candidates=candidates,
            variable=0,
            source=source,
            n=options.n,
            first=training,
            first_n=options.first_n,
            first_scans=cache,
        )
        for name, source in sources.items()
    }


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
        device=options.device,
    )


def draw(
    options: Options, data: Dataset, classifier: AVPCNN, candidates: Candidates, policy: Greedy, device: torch.device
) -> None:
    """Draw the scans of one picture."""
    task = PredictionTask.of(classifier, outcomes=classifier.config.outcome_names)
    levels = data.test.take(np.array([options.drawn]))
    image = levels.images[0].to(device)
    scans = scan_image(image, policy, classifier, candidates, task, steps=options.scans, seed=options.seed)
    steps = [one.step for one in scans]
    label = int(labels_of(levels.labels)[0])
    title = f"test picture {options.drawn}: {task.outcomes[label] if task.outcomes else label}"
    with writing(options.out / "panel.png") as temporary:
        draw_figure(steps, candidates, title=title).save(temporary, format="png")
    pictures = draw_frames(steps, candidates, title=title)
    with writing(options.out / "panel.gif") as temporary:
        pictures[0].save(temporary, format="gif", **gif_options(pictures))
    print(f"wrote {options.out / 'panel.png'} and panel.gif", flush=True)


def compare(
    options: Options,
    data: Dataset,
    classifier: Classifier,
    candidates: Candidates,
    policies: Mapping[str, Policy],
    device: torch.device,
) -> tuple[dict[str, Scanned], Tensor, Tensor]:
    """Scan test pictures with each policy and at random.

    Returns the predictions by the name of the policy, those for whole pictures [1, B, 1, K], and the labels [B].
    """
    levels = data.test.take(np.arange(min(options.images, len(data.test))))
    images, labels = levels.images.to(device), labels_of(levels.labels)
    together = _TOGETHER.get(device.type, _TOGETHER["cpu"])

    def scan_blocks(policy: Policy, seed: int, size: int) -> Tensor:
        found = []
        for first in range(0, len(images), size):
            places = range(first, min(first + size, len(images)))
            some = images[first : places.stop]
            scans = scan(some, policy, classifier, candidates, steps=options.scans, seed=seed, places=places)
            found.append(scans.log_p[:, :, 0].cpu())
            if size < len(images):
                print(f"{policy.name}: scanned {places.stop} of {len(images)} test pictures", flush=True)
        return torch.cat(found)

    scanned: dict[str, Scanned] = {}
    for name, policy in policies.items():
        timed = None
        if isinstance(policy, Greedy):
            timed = TimedSource(source=policy.source)
            policy = replace(policy, source=timed)
        start = time_at(device)
        log_p = scan_blocks(policy, options.seed, together)[None]
        spent = time_at(device) - start
        scanned[name] = Scanned(log_p, spent, timed.drawn, timed.seconds) if timed else Scanned(log_p, spent)
    start = time_at(device)
    anywhere = Random(candidates=candidates)
    draws = [scan_blocks(anywhere, options.seed + i, len(images)) for i in range(_RANDOM_DRAWS)]
    scanned[RANDOM] = Scanned(torch.stack(draws), time_at(device) - start)
    return scanned, full_image(images, classifier)[None, :, None, 0].cpu(), labels


def labels_of(labels: Tensor | None) -> Tensor:
    if labels is None or labels.ndim != 1:
        raise ValueError("the pictures do not have one class label each: give data with class labels")
    return labels


if __name__ == "__main__":
    run_script(main, Options, __doc__)
