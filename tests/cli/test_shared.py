"""The same option has the same name, type, default and meaning in every verb."""

import dataclasses
import inspect
import subprocess
import sys
from typing import Any

import tyro
from helpers.cli_options import options, verbs

from condvae import cli
from condvae.cli import shared

_CLASSIFIER = "a classifier is a smaller network that is trained on one device"

# What may differ between verbs, and why. Of every option, "type", "default" and "help" are compared unless listed here.
DIFFER = {
    "out": ("type default help", "every verb writes other files, to a folder or to one file"),
    "n": ("default help", "verbs need different numbers, and `sample` draws images instead of completions"),
    "model": (
        "type default help",
        "design has models of x-rays, ood experiment compares several, some verbs allow none",
    ),
    "data": (
        "type default help",
        "training joins several data sets, a classifier needs labels, --redraw needs no data",
    ),
    "preset": ("help", "pretrain and train have different presets"),
    "init": ("help", "train takes more from a conditional model"),
    "images": ("type default help", "files to work on, or how many test images an experiment uses"),
    "temperature": ("type default help", "evaluate measures several"),
    "pixels": ("type default help", "evaluate measures both"),
    "baselines": (
        "type default help",
        "those of evaluate complete images, those of ood experiment score completed images",
    ),
    "against": ("help", "evaluate compares with other models, ood experiment with other images"),
    "metrics": ("type help", "evaluate has groups of metrics, compare has single metrics"),
    "precision": ("type default help", "it belongs to the networks of training, to Inception, or to a classifier"),
    "resamples": ("default", "a resample is cheaper in design experiment"),
    "validation": ("help", "the record of a trained model has the split of its data"),
    "split-seed": ("type default help", "the record of a trained model has the split of its data"),
    "steps": ("type default help", "training counts updates, design scans"),
    "network": ("type default help", "pretrain makes a network, import recognises it"),
    "start": ("type help", "a partial encoder can start from the encoder, a classifier from ImageNet weights"),
    "observe": ("default help", "a classifier is also trained on whole images, and needs known pixels"),
    "shift": ("type default help", "import scales the network's input, design train shifts and scales images"),
    "scale": ("type default help", "import scales the network's input, design train shifts and scales images"),
    "batch": ("default help", _CLASSIFIER),
    "lr": ("default help", _CLASSIFIER),
    "weight-decay": ("default help", _CLASSIFIER),
    "clip": ("default", _CLASSIFIER),
    "ema": ("default", _CLASSIFIER),
    "evaluate-every": ("default help", _CLASSIFIER),
    "log-every": ("default help", _CLASSIFIER),
}


def test_an_option_is_the_same_in_every_verb() -> None:
    first: dict[str, tuple[str, dict[str, Any]]] = {}
    used = set()
    for verb, kind in verbs().items():
        for option, told in options(kind).items():
            where, before = first.setdefault(option, (verb, told))
            differ = [key for key in ("type", "default", "help") if told[key] != before[key]]
            used |= {(option, key) for key in differ}
            allowed = DIFFER.get(option, ("", ""))[0].split()
            strange = {key: (before[key], told[key]) for key in differ if key not in allowed}
            assert not strange, f"--{option} of {where} and of {verb}: {strange}"
    listed = {(option, key) for option, (keys, _) in DIFFER.items() for key in keys.split()}
    assert listed == used  # every exception is needed


def test_verbs_that_compute_have_a_device_and_verbs_that_write_have_an_out() -> None:
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
                told["default"] in (dataclasses.MISSING, ())
                and option not in ("completions", "against", "observe", "snapshot-at", "snapshot-minutes", "completers")
            ):
                assert told["help"].endswith("(required)"), f"{verb} --{option}"


def test_help_and_the_first_line_are_quick_because_torch_stays_out() -> None:
    program = (
        "import sys\nfrom condvae.cli import main\n"
        "for verb in ([], ['evaluate'], ['train'], ['design', 'train'], ['ood', 'experiment'], ['fetch']):\n"
        "    try:\n        main([*verb, '--help'])\n    except SystemExit:\n        pass\n"
        "from condvae.cli import shared\nfrom condvae.cli.sample import Sample\nshared.opening(Sample())\n"
        "sys.exit(any(name in sys.modules for name in ('torch', 'numpy', 'PIL')))"
    )
    subprocess.run([sys.executable, "-c", program], check=True, stdout=subprocess.DEVNULL)


def test_defaults_without_torch_are_those_of_the_library() -> None:
    from condvae.cli.complete import Complete
    from condvae.cli.evaluate import Evaluate
    from condvae.completers import BASELINES
    from condvae.completion.settings import CompletionSettings
    from condvae.sampling.sampler import Sampler

    assert Evaluate().baselines == BASELINES
    drawn = inspect.signature(Sampler.__call__).parameters
    for name in ("temperature", "pixels", "seed", "share"):
        assert drawn[name].default == getattr(CompletionSettings, name)
    assert float(Complete().temperature) == CompletionSettings.temperature


def test_a_command_first_says_what_it_opens() -> None:
    for words, expected in (
        (["sample"], "opening the model faces64"),
        (["complete", "x.png", "--repeat", "a/record.json"], "opening a/record.json"),
        (["evaluate", "--data", "cifar10", "--redraw", "out"], "opening out"),
        (["evaluate", "--data", "b.zip"], "opening the model faces64 and the data b.zip"),
        (["evaluate", "--data", "b.zip", "--model", "none"], "opening the data b.zip"),
        (["pretrain", "--data", "a", "b", "--steps", "1", "-o", "run"], "opening the data a and b"),
        (["compare", "real", "fake"], "opening real and fake"),
        (["import", "a.th", "-o", "b.safetensors"], "opening a.th"),
        (["fetch", "metrics"], "looking for metrics"),
        (
            ["ood", "experiment", "--model", "a", "b=c", "--data", "d"],
            "opening the model a and b=c and the data d",
        ),
    ):
        verb = tyro.cli(cli._verbs(words), args=words)
        assert shared.opening(getattr(verb, "job", verb)) == expected
