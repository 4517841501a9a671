r"""Compare IPA with learned baselines at an equal training budget: train all methods on the same images and the same
kind of holes, and measure them together with the embedded model cifar10 and the simple baselines.

    condvae fetch metrics && condvae fetch cifar10
    python recipes/baselines.py --data cifar10 --out out/baselines --minutes 4

Each method has a run folder in out/baselines: ce, anp, pic, rfr and ipa; vae is the artifact of ipa, whose training
is part of the budget of ipa. The numbers are in out/baselines/baselines.json, the whole report of the evaluation is in
out/baselines/evaluation, and sheet.png and large_holes.png show completions of all methods. If the command is
interrupted, repeat it to resume. recipes/baselines_results.py makes docs/results/baselines.md from the numbers.

To train on several GPUs, give each one some of the methods, then evaluate:

    python recipes/baselines.py --data cifar10 --out out/baselines --minutes 4 --only ce anp
    python recipes/baselines.py --data cifar10 --out out/baselines --minutes 4 --only pic rfr ipa
    python recipes/baselines.py --data cifar10 --out out/baselines --minutes 4 --only evaluate
"""

import json
import statistics
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from PIL import Image

import condvae
from condvae import weights
from condvae.data import open_data
from condvae.experiments.evaluation.methods import check_fit
from condvae.experiments.evaluation.plan import EvaluationSettings
from condvae.experiments.evaluation.problems import Problems
from condvae.metrics import LPIPS
from condvae.metrics.feature_networks import FeatureNetworks
from condvae.runtime.atomic import write_text
from condvae.runtime.checks import check_choice
from condvae.runtime.ranks import join
from condvae.runtime.scripts import run_script
from condvae.training.presets import TRAIN_PRESETS
from condvae.training.run_folder import RunFolder

sys.path.insert(0, str(Path(__file__).parents[1]))
from recipes.baselines_pictures import completer_of, large_hole_sheet, sharpness_of, sheet_of
from recipes.pages import DIGITS, compact, rounded

FORMAT = "condvae baselines"
BASELINES = ("ce", "anp", "pic", "rfr")
IPA, VAE, EVALUATE = "ipa", "vae", "evaluate"
METHODS = (*BASELINES, IPA)
"""The methods that are trained, by the names of their run folders."""
EMBEDDED = "cifar10"
TITLES = {**{name: name.upper() for name in (IPA, *BASELINES)}, EMBEDDED: "IPA, embedded"}
"""The names of trained models on pages and sheets, in the order of their rows."""
PRESET = "cifar10-small"
"""The preset of IPA. Its holes are those of all methods."""
VAE_SHARE = 0.7
"""The part of IPA's budget that is spent on its VAE. The rest is for the partial encoder."""
SHARPNESS_IMAGES = 500
SHEETS: dict[str, Callable[..., Image.Image]] = {"sheet": sheet_of, "large_holes": large_hole_sheet}
"""The pictures of the comparison, by the names of their files."""
INTERVALS = {"evaluate_every": 5000, "checkpoint_every": 5000, "log_every": 100, "sheet_every": 0}
"""How many steps lie between two evaluations and so on. They are the same for all methods, since they take time."""


@dataclass(frozen=True, kw_only=True)
class Options:
    """Train all methods, then measure them together."""

    data: tuple[Path, ...]
    """Training and test images of 32 x 32 pixels: a data set in any layout that `condvae train` reads, or cifar10."""
    out: Path
    """Folder for the run folders, the evaluation, baselines.json and the sheets."""
    minutes: float = 4.0
    """The training budget of each method, in minutes."""
    only: tuple[str, ...] = ()
    """Train only these methods: ce, anp, pic, rfr, ipa. Add evaluate to measure all methods afterwards; alone, it
    trains nothing."""
    model: str = EMBEDDED
    """An embedded model, or another finished conditional model, that is measured too."""
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


def main(options: Options) -> None:
    for name in options.only:
        check_choice(name, "--only", (*METHODS, EVALUATE))
    if not options.minutes > 0:
        raise ValueError(f"--minutes is {options.minutes:g}, expected more than 0")
    evaluates = not options.only or EVALUATE in options.only
    trained = [name for name in METHODS if not options.only or name in options.only]
    if evaluates:
        check_evaluation(options, missing=set(METHODS) - set(trained))
    if "rfr" in trained:
        LPIPS.load(trunk="vgg")  # a part of its loss
    for name in trained:
        train(name, options)
    if evaluates:
        measure(options)


def settings_of(options: Options) -> EvaluationSettings:
    deep = min(options.deep_images, options.images)
    return EvaluationSettings(images=options.images, deep_images=deep, n=options.n, seed=options.seed)


def check_evaluation(options: Options, *, missing: set[str]) -> None:
    """Raise a ValueError before the first training if the evaluation could not run.

    missing: the methods that this call does not train.
    """
    problems = Problems.choose(open_data(options.data), settings_of(options))
    check_fit(weights.load_conditional(options.model), options.model, problems)
    for name in sorted(missing):
        if not (options.out / name / "model.safetensors").is_file():
            raise ValueError(f"{options.out / name} has no finished model: train it first, with --only {name}")
    FeatureNetworks.load(torch.device("cpu"))


def train(name: str, options: Options) -> None:
    """Train one method into its run folder, or continue to train it. A finished run stays as it is."""
    shared: dict[str, Any] = {"seed": options.seed, "steps": options.steps, "validation": options.validation}
    if options.batch is not None:
        shared["batch"] = options.batch
    observe = TRAIN_PRESETS[PRESET]["observe"]
    rest = {"data": options.data, "device": options.device, "evaluate_on": options.validation, "resume": True}

    def run(training: Callable[..., Path], folder: Path, minutes: float, **own: Any) -> Path:
        budget = {**shared, "minutes": minutes}
        if is_finished(folder, budget):
            return folder
        print(f"training {folder.name} for {minutes:g} minutes", flush=True)
        return training(**own, **budget, **rest, **INTERVALS, out=folder)

    if name != IPA:
        run(condvae.train, options.out / name, options.minutes, baseline=name, observe=observe)
        return
    first = round(VAE_SHARE * options.minutes, 6)
    vae = run(condvae.pretrain, options.out / VAE, first, preset=PRESET)
    second = round(options.minutes - first, 6)
    run(condvae.train, options.out / IPA, second, preset=PRESET, observe=observe, artifact=vae)


def is_finished(folder: Path, options: Mapping[str, Any]) -> bool:
    """Return whether a run folder has a model that was trained with these options."""
    run = RunFolder(folder)
    return run.model.is_file() and options.items() <= run.stored_options().items()


def measure(options: Options) -> None:
    """Evaluate all methods together, and write baselines.json and the sheets."""
    trainings = {name: training_of(name, options.out) for name in METHODS}
    check_equal(trainings)
    check_budgets(trainings, options)
    with join(options.device) as world:
        device = world.device
    fast = device.type == "cuda" if options.precision == "auto" else options.precision == "fast"
    settings = settings_of(options)
    report = condvae.evaluate(
        options.model,
        options.data,
        against=[options.out / name for name in (IPA, *BASELINES)],
        out=options.out / "evaluation",
        settings=settings,
        precision="fast" if fast else "exact",
        device=options.device,
    )
    if report is None:  # another process writes the report
        return
    problems = Problems.choose(open_data(options.data), settings)
    completers = {name: completer_of(options.out / name, device) for name in (IPA, *BASELINES)}
    finished = weights.title_of(options.model, weights.locate(options.model))
    completers[finished] = completer_of(options.model, device)
    titled = {TITLES.get(name, name): one for name, one in completers.items()}
    for name, draw in SHEETS.items():
        draw(titled, problems, device).save(options.out / f"{name}.png")
    images = min(SHARPNESS_IMAGES, options.images)
    sharpness = {name: sharpness_of(one, problems, device, images=images) for name, one in completers.items()}
    result = {
        **with_metric(report, "sharpness", sharpness),
        "format": FORMAT,
        "budget_minutes": options.minutes,
        "training": {**trainings, finished: training_in(options.model)},
    }
    write_text(options.out / "baselines.json", compact(rounded(result, DIGITS)) + "\n")
    print(f"wrote {options.out / 'baselines.json'}, and {' and '.join(f'{name}.png' for name in SHEETS)} next to it")


def method_of(name: str, methods: Mapping[str, Any]) -> str:
    """Return the name in the report of a model: its title, with the temperature if it is a conditional VAE."""
    return name if name in methods else f"{name}, t 1"


def with_metric(report: Mapping[str, Any], metric: str, found: Mapping[str, Any]) -> dict[str, Any]:
    """Return a report with one more metric. found: its values by bin, by the name of the model."""
    methods = dict(report["methods"])
    for name, columns in found.items():
        key = method_of(name, methods)
        methods[key] = {**methods[key], "metrics": {**methods[key]["metrics"], metric: columns}}
    return {**report, "methods": methods}


def training_of(name: str, out: Path) -> dict[str, Any]:
    """Return what the model files and logs of a method say about its training: the sums, and each of its parts."""
    folders = {"VAE": out / VAE, "partial encoder": out / IPA} if name == IPA else {"network": out / name}
    parts = {part: of_run(folder) for part, folder in folders.items()}
    return summed(weights.describe(out / name).parameters, parts)


def summed(count: int, parts: Mapping[str, Any]) -> dict[str, Any]:
    minutes = round(sum(part["minutes"] for part in parts.values()), 2)
    return {"weights": count, "minutes": minutes, "parts": parts}


def of_run(folder: Path) -> dict[str, Any]:
    """Return what a run folder says about its training."""
    record = weights.describe(folder).record
    lines = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
    speeds = [line["images_per_second"] for line in lines if line.get("images_per_second")]
    trained = [line["weights"] for line in lines if line["event"] == "start"]
    return {
        **part_of(record),
        "trained_weights": trained[0] if trained else None,
        "images_per_second": round(statistics.median(speeds), 1) if speeds else None,
    }


def part_of(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return the entries of a training record that describe the budget and the data."""
    options = record["options"]
    return {
        **{key: record[key] for key in ("minutes", "steps", "images_seen", "device", "data")},
        **{key: options.get(key) for key in ("batch", "lr", "seed", "split_seed", "validation", "observe")},
        "budget": {key: options.get(key) for key in ("minutes", "steps")},
    }


def training_in(model: str) -> dict[str, Any]:
    """Return the training of a finished conditional model, of which there is a model file, but no log."""
    header = weights.describe(model)
    trained = {"VAE": header.record.get("artifact"), "partial encoder": header.record}
    return summed(header.parameters, {name: part_of(record) for name, record in trained.items() if record})


def check_equal(trainings: Mapping[str, Any]) -> None:
    """Raise a ValueError unless all methods were trained on the same images and with the same kind of holes."""
    parts = [(name, part) for name, found in trainings.items() for part in found["parts"].values()]
    for key in ("data", "split_seed", "validation", "seed", "observe"):
        first, *others = [(name, part[key]) for name, part in parts if part[key] is not None]
        for name, value in others:
            if value != first[1]:
                raise ValueError(
                    f"{name} was trained with {key} {value}, but {first[0]} with {first[1]}: train all methods with "
                    "the same options"
                )


def check_budgets(trainings: Mapping[str, Any], options: Options) -> None:
    """Raise a ValueError unless each method was trained with the budget of the options."""
    for name, found in trainings.items():
        budgets = [part["budget"] for part in found["parts"].values()]
        minutes = round(sum(budget["minutes"] for budget in budgets), 4)
        if minutes != round(options.minutes, 4) or any(budget["steps"] != options.steps for budget in budgets):
            raise ValueError(
                f"{name} was trained with --minutes {minutes:g} and --steps {budgets[-1]['steps']}: give the same "
                "--minutes and --steps for all trainings and for the evaluation"
            )


if __name__ == "__main__":
    run_script(main, Options, __doc__)
