r"""Compare IPA with learned baselines at an equal training budget: train all methods on the same images and the same
kind of holes, and measure them together with the embedded model cifar10 and the simple baselines.

    condvae fetch metrics && condvae fetch cifar10
    python recipes/baselines.py --data cifar10 --out out/baselines --minutes 4

Each method has a run folder in out/baselines: ce, anp, pic, rfr, comodgan, vqvae, diffusion and ipa; vae is the
artifact of ipa, whose training is part of the budget of ipa. Unless --no-long is given, comodgan and diffusion are
trained for twice the budget, and are measured after the budget and at the end. The numbers are in
out/baselines/baselines.json, the whole report of the evaluation is in out/baselines/evaluation, and sheet.png and
large_holes.png show completions of all methods. If the command is interrupted, repeat it to resume.
recipes/baselines_results.py makes docs/results/baselines.md from the numbers.

To share the trainings between several GPUs, give each one some of the methods, then measure all of them:

    python recipes/baselines.py --data cifar10 --out out/baselines --minutes 4 --methods ce anp --no-evaluate
    python recipes/baselines.py --data cifar10 --out out/baselines --minutes 4 --methods pic rfr ipa --no-evaluate
    python recipes/baselines.py --data cifar10 --out out/baselines --minutes 4

Without --no-evaluate, a call measures its own methods. recipes/baselines_results.py joins the numbers of several calls,
which may come from different machines. recipes/baselines_speed.py measures how fast the methods draw completions.
"""

import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from PIL import Image

import condvae
from condvae import weights
from condvae.completers.by_name import TITLES as SIMPLE
from condvae.data import open_data
from condvae.experiments.evaluation.methods import check_fit
from condvae.experiments.evaluation.plan import EvaluationSettings
from condvae.experiments.evaluation.problems import Problems
from condvae.experiments.named_completers import open_completers
from condvae.metrics import LPIPS
from condvae.metrics.feature_networks import FeatureNetworks
from condvae.runtime.atomic import write_text
from condvae.runtime.checks import check_choice
from condvae.runtime.ranks import join
from condvae.runtime.scripts import run_script

sys.path.insert(0, str(Path(__file__).parents[1]))
from recipes.baselines_pictures import large_hole_sheet, sharpness_of, sheet_of
from recipes.baselines_training import (
    IPA,
    RUNS,
    Limits,
    check_budgets,
    check_equal,
    model_of,
    models_of,
    train,
    training_in,
    training_of,
)
from recipes.pages import DIGITS, compact, rounded

FORMAT = "condvae baselines"
EMBEDDED = "cifar10"
TITLES = {
    **{name: name.upper() for name in (IPA, "ce", "anp", "pic", "rfr")},
    "comodgan": "CoModGAN",
    "comodgan-long": "CoModGAN, long",
    "vqvae": "VQ-VAE",
    "diffusion": "Diffusion",
    "diffusion-long": "Diffusion, long",
    EMBEDDED: "IPA, embedded",
}
"""The names of trained models on pages and sheets, in the order of their rows."""
SHARPNESS_IMAGES = 500
SHEETS: dict[str, Callable[..., Image.Image]] = {"sheet": sheet_of, "large_holes": large_hole_sheet}
"""The pictures of the comparison, by the names of their files."""


@dataclass(frozen=True, kw_only=True)
class Options:
    """Train all methods, then measure them together."""

    data: tuple[Path, ...]
    """Training and test images of 32 x 32 pixels: a data set in any layout that `condvae train` reads, or cifar10."""
    out: Path
    """Folder for the run folders, the evaluation, baselines.json and the sheets."""
    minutes: float = 4.0
    """The training budget of each method, in minutes."""
    long: bool = True
    """Train comodgan and diffusion for twice the budget, and measure them after the budget and at the end."""
    methods: tuple[str, ...] = RUNS
    """The methods to train and to measure."""
    evaluate: bool = True
    """Measure the methods when they are trained."""
    model: str = EMBEDDED
    """An embedded model, or another finished conditional model, that is measured too."""
    simple: tuple[str, ...] = tuple(SIMPLE)
    """Simple baselines that are measured too. Give no value to leave them out."""
    validation: int = 1000
    """How many training images to hold out. They are the same for all methods."""
    images: int = 10_000
    """How many test images are completed once, for FID and P-IDS."""
    deep_images: int = 500
    """How many of them are completed n times, for the other metrics."""
    n: int = 100
    """How many completions LPIPS-GT chooses the best of."""
    precision: Literal["auto", "exact", "fast"] = "auto"
    """Precision of the Inception network; see `condvae evaluate --help`. auto: fast on a GPU, else exact."""
    device: str = "auto"
    """Where to compute. auto uses a GPU if there is one."""
    seed: int = 0
    """The seed of all trainings and of the evaluation."""
    steps: int | None = None
    """Maximum number of steps of each training, for a quick trial."""
    batch: int | None = None
    """How many images each update uses. By default, as in the preset of each method."""

    @property
    def budget(self) -> Limits:
        return Limits(self.minutes, self.steps)


def main(options: Options) -> None:
    for name in options.methods:
        check_choice(name, "--methods", RUNS)
    for name in options.simple:
        check_choice(name, "--simple", tuple(SIMPLE))
    if not options.methods:
        raise ValueError(f"no --methods were given: give some of {', '.join(RUNS)}")
    if not options.minutes > 0:
        raise ValueError(f"--minutes is {options.minutes:g}, expected more than 0")
    if options.evaluate:
        check_evaluation(options)
    if "rfr" in options.methods:
        LPIPS.load(trunk="vgg")  # a part of its loss
    for method in dict.fromkeys(options.methods):
        own = {name: getattr(options, name) for name in ("long", "batch", "seed", "validation", "data", "device")}
        train(method, options.out, options.budget, **own)
    if options.evaluate:
        measure(options)


def settings_of(options: Options) -> EvaluationSettings:
    deep = min(options.deep_images, options.images)
    return EvaluationSettings(images=options.images, deep_images=deep, n=options.n, seed=options.seed)


def check_evaluation(options: Options) -> None:
    """Raise a ValueError before the first training if the evaluation could not run."""
    problems = Problems.choose(open_data(options.data), settings_of(options))
    check_fit(weights.load_conditional(options.model), options.model, problems)
    FeatureNetworks.load(torch.device("cpu"))


def measure(options: Options) -> None:
    """Evaluate the methods together, and write baselines.json and the sheets."""
    names = models_of(options.methods, long=options.long)
    trainings = {name: training_of(name, options.out) for name in names}
    check_equal(trainings)
    check_budgets(trainings, options.budget)
    with join(options.device) as world:
        device = world.device
    fast = device.type == "cuda" if options.precision == "auto" else options.precision == "fast"
    settings, data = settings_of(options), open_data(options.data)
    finished = weights.title_of(options.model, weights.locate(options.model))
    models: dict[str, str | Path] = {**{name: model_of(name, options.out) for name in names}, finished: options.model}
    report = condvae.evaluate(
        None,
        options.data,
        against=models,
        out=options.out / "evaluation",
        settings=settings,
        baselines=options.simple,
        precision="fast" if fast else "exact",
        device=options.device,
    )
    if report is None:  # another process writes the report
        return
    problems = Problems.choose(data, settings)
    completers = open_completers(models, size=data.test.size, channels=data.test.channels, device=device)
    titled = {TITLES.get(name, name): one for name, one in completers.items()}
    for name, draw in SHEETS.items():
        draw(titled, problems, device).save(options.out / f"{name}.png")
    images = min(SHARPNESS_IMAGES, options.images)
    sharpness = {name: sharpness_of(one, problems, device, images=images) for name, one in completers.items()}
    measured = with_only(report, models=models, others=[SIMPLE[name] for name in options.simple])
    result = {
        **with_metric(measured, "sharpness", sharpness),
        "format": FORMAT,
        "budget_minutes": options.minutes,
        "training": {**trainings, finished: training_in(options.model)},
    }
    write_text(options.out / "baselines.json", compact(rounded(result, DIGITS)) + "\n")
    print(f"wrote {options.out / 'baselines.json'}, and {' and '.join(f'{name}.png' for name in SHEETS)} next to it")


def method_of(name: str, methods: Mapping[str, Any]) -> str:
    """Return the name in the report of a model: its title, with the temperature if it is a conditional VAE."""
    return name if name in methods else f"{name}, t 1"


def with_only(report: Mapping[str, Any], *, models: Iterable[str], others: Iterable[str]) -> dict[str, Any]:
    """Return a report of these models and other methods, without those that earlier calls measured in the folder."""
    methods = {*(method_of(name, report["methods"]) for name in models), *others}
    kept = {"models": set(models), "methods": methods}
    return {**report, **{key: {n: one for n, one in report[key].items() if n in names} for key, names in kept.items()}}


def with_metric(report: Mapping[str, Any], metric: str, found: Mapping[str, Any]) -> dict[str, Any]:
    """Return a report with one more metric. found: its values by bin, by the name of the model."""
    methods = dict(report["methods"])
    for name, columns in found.items():
        key = method_of(name, methods)
        methods[key] = {**methods[key], "metrics": {**methods[key]["metrics"], metric: columns}}
    return {**report, "methods": methods}


if __name__ == "__main__":
    run_script(main, Options, __doc__)
