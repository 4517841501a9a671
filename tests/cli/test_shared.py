"""The same option has the same name, type, default and meaning in every verb."""

import dataclasses
import functools
import inspect
import subprocess
import sys
import typing
import warnings
from typing import Any, get_args

import tyro

from condvae.cli import VERBS
from condvae.cli.design import Design
from condvae.cli.ood import OOD

# What differs between verbs, and why. "type", "default" and "help" are compared unless they are named here.
DIFFER = {
    "out": ("type default help", "every verb writes something else, to a folder or a file of its own"),
    "n": ("default help", "how many suit the purpose; `sample` has no image to complete, its n are images"),
    "model": ("type default help", "design has models of x-rays; ood experiment compares several; none where it may"),
    "data": (
        "type default help",
        "training joins several sets, a classifier needs labels, figures are redrawn without",
    ),
    "preset": ("help", "pretrain and train have presets of their own"),
    "init": ("help", "a conditional model brings more with it"),
    "images": ("type default help", "files to work on, or how many test images an experiment takes"),
    "temperature": ("type default help", "evaluate measures several"),
    "pixels": ("type default help", "evaluate measures both"),
    "baselines": ("type default help", "other methods complete than judge"),
    "metrics": ("type help", "evaluate needs a model for some, compare has two folders alone"),
    "precision": ("type default help", "training has formats of numbers, metrics and classifiers exactness"),
    "resamples": ("default", "a resample of design is cheaper"),
    "validation": ("help", "a trained model knows how its data was split"),
    "split-seed": ("type default help", "likewise"),
    "steps": ("type default help", "training counts updates, design scans"),
    "network": ("type default help", "pretrain makes one, import recognises it"),
    "start": ("type help", "a partial encoder has the encoder to start from, a classifier ImageNet"),
    "observe": ("default help", "a classifier is also trained on whole images"),
    "shift": ("type default help", "import has the network's input, design train moves images"),
    "scale": ("type default help", "likewise"),
    "batch": ("default help", "a classifier is another network and trained on one device: other numbers"),
    "lr": ("default help", "likewise"),
    "weight-decay": ("default help", "likewise"),
    "clip": ("default", "likewise"),
    "ema": ("default", "likewise"),
    "evaluate-every": ("default help", "likewise"),
    "log-every": ("default help", "likewise"),
}


def verbs() -> dict[str, type]:
    """Every verb and sub-verb."""
    found = {word: kind for word, kind in VERBS.items() if kind not in (Design, OOD)}
    for word, group in (("design", Design), ("ood", OOD)):
        choices = typing.get_type_hints(group, include_extras=True)["job"]
        for choice in get_args(get_args(choices)[0]):
            kind, command = get_args(choice)
            found[f"{word} {command.name}"] = kind
    return found


@functools.cache
def options(kind: type) -> dict[str, dict[str, Any]]:
    """{option: its type, default and help} of a verb."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        actions = tyro.extras.get_parser(kind)._actions
    helps = {
        word.removeprefix("--"): action.help for action in actions for word in action.option_strings or [action.dest]
    }
    annotated, plain = typing.get_type_hints(kind, include_extras=True), typing.get_type_hints(kind)
    found: dict[str, dict[str, Any]] = {}
    for field in dataclasses.fields(kind):
        extras = get_args(annotated[field.name])[1:] if hasattr(annotated[field.name], "__metadata__") else ()
        named = [extra.name for extra in extras if getattr(extra, "name", None)]
        option = named[0] if named else field.name.replace("_", "-")
        if option == "n":
            assert "-n" in {word for action in actions for word in action.option_strings}
        text = " ".join(str(helps[option]).split()).partition(" (default:")[0]
        found[option] = {"type": plain[field.name], "default": field.default, "help": text}
    return found


def test_an_option_is_the_same_in_every_verb() -> None:
    first: dict[str, tuple[str, dict[str, Any]]] = {}
    used = set()
    for verb, kind in verbs().items():
        for option, told in options(kind).items():
            where, before = first.setdefault(option, (verb, told))
            differ = [key for key in told if told[key] != before[key]]
            used |= {(option, key) for key in differ}
            allowed = DIFFER.get(option, ("", ""))[0].split()
            strange = {key: (before[key], told[key]) for key in differ if key not in allowed}
            assert not strange, f"--{option} of {where} and of {verb}: {strange}"
    listed = {(option, key) for option, (keys, _) in DIFFER.items() for key in keys.split()}
    assert listed == used  # no exception that is none


def test_every_verb_that_computes_has_a_device_and_every_one_that_writes_an_out() -> None:
    told = {verb: options(kind) for verb, kind in verbs().items()}
    assert {verb for verb, found in told.items() if "device" not in found} == {"import", "export", "info", "fetch"}
    assert {verb for verb, found in told.items() if "out" not in found} == {"info"}
    experiments = [found["out"]["default"] for found in told.values() if "redraw" in found]
    assert len(set(experiments)) == len(experiments) == 3


def test_every_option_is_explained_and_says_if_it_is_required() -> None:
    for verb, kind in verbs().items():
        for option, told in options(kind).items():
            assert told["help"].removesuffix("(required)"), f"{verb} --{option}"
            if option == "data" or (
                told["default"] in (dataclasses.MISSING, ()) and option not in ("completions", "against", "observe")
            ):
                assert told["help"].endswith("(required)"), f"{verb} --{option}"


def test_help_is_quick_because_torch_stays_out() -> None:
    program = (
        "import sys\nfrom condvae.cli import main\n"
        "try:\n    main(['evaluate', '--help'])\nexcept SystemExit:\n    pass\n"
        "sys.exit(any(name in sys.modules for name in ('torch', 'numpy', 'PIL')))"
    )
    subprocess.run([sys.executable, "-c", program], check=True, stdout=subprocess.DEVNULL)


def test_what_is_said_without_torch_is_what_the_library_does() -> None:
    from condvae import observe
    from condvae.cli.complete import Complete
    from condvae.cli.evaluate import Evaluate
    from condvae.cli.shared import MODEL_HELP, NETWORK_HELP
    from condvae.completers.by_name import BASELINES
    from condvae.completion.settings import CompletionSettings
    from condvae.design.policies import ESTIMATORS
    from condvae.design.scan_settings import ScanSettings
    from condvae.sampling.sampler import Sampler
    from condvae.training import PRETRAIN_PRESETS, TRAIN_PRESETS
    from condvae.vdvae import PRESETS
    from condvae.weights import embedded_names

    assert Evaluate().baselines == BASELINES
    assert get_args(typing.get_type_hints(ScanSettings)["estimator"]) == ESTIMATORS
    drawn = inspect.signature(Sampler.__call__).parameters
    for name in ("temperature", "pixels", "seed", "share"):
        assert drawn[name].default == getattr(CompletionSettings, name)
    assert float(Complete().temperature) == CompletionSettings.temperature
    named = NETWORK_HELP.removeprefix("A network by name, such as ").partition(", or a JSON")[0].split(", ")
    assert set(named) <= set(PRESETS)
    told = {verb: options(kind) for verb, kind in verbs().items()}
    assert all(name in MODEL_HELP for name in embedded_names())
    assert all(name in told["train"]["preset"]["help"] for name in TRAIN_PRESETS)
    assert all(name in told["pretrain"]["preset"]["help"] for name in PRETRAIN_PRESETS)
    assert all(name in told["train"]["observe"]["help"] for name in observe.PROCESSES if name != "mixture")
