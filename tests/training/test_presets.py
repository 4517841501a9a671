"""Presets agree with the paper's table of experimental details and become defaults of the command line."""

from pathlib import Path

import pytest

from condvae import observe
from condvae.cli import main
from condvae.training import PRETRAIN_PRESETS, TRAIN_PRESETS, PretrainOptions, TrainOptions, options_for
from condvae.training.entry_points import network_config

# Learning rate, batch, thousands of iterations.
PAPER = {
    "ipa-r-cifar10": (2e-5, 16, 250),
    "scratch-cifar10": (2e-4, 9, 3050),
    "transfer-cifar10": (1.5e-4, 16, 700),
    "ipa-cifar10": (2e-4, 30, 550),
    "ipa-r-imagenet64": (5e-4, 1, 810),
    "scratch-imagenet64": (5e-5, 1, 1930),
    "ipa-imagenet64": (5e-5, 4, 700),
    "ipa-r-ffhq256": (5e-5, 8, 416),
    "ipa-ffhq256": (1.5e-4, 12, 626),
    "scratch-edges": (5e-5, 1, 750),
    "transfer-edges": (2e-4, 4, 250),
    "ipa-xray256": (1.5e-4, 8, 180),
}


@pytest.mark.parametrize("name", PAPER)
def test_presets_have_the_numbers_of_the_paper(name: str) -> None:
    options = options_for(TrainOptions, name, data=(Path("x"),), out=Path("y"))
    lr, batch, thousands = PAPER[name]
    assert (options.lr, options.batch, options.steps) == (lr, batch, 1000 * thousands)
    assert (options.optimiser, options.beta1, options.beta2, options.weight_decay) == ("adamw", 0.9, 0.9, 0.01)
    assert (options.warm_up, options.schedule) == (100, "constant")
    assert options.objective == ("reverse" if name.startswith("ipa-r-") else "forward")
    assert (options.scratch is not None) == name.startswith("scratch-")


def test_every_preset_can_be_used() -> None:
    for name in PRETRAIN_PRESETS:
        options = options_for(PretrainOptions, name, data=(Path("x"),), out=Path("y"))
        options.check()
        network_config(options.network)
    for name in TRAIN_PRESETS:
        conditional = options_for(TrainOptions, name, data=(Path("x"),), out=Path("y"))
        conditional.check()
        observe.parse(conditional.observe or ("freeform",))
        if conditional.scratch:
            network_config(conditional.scratch)


def test_the_command_line_shows_a_presets_defaults(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main(["train", "--preset", "ipa-ffhq256", "--help"])
    assert left.value.code == 0
    text = capsys.readouterr().out
    assert "(default: 0.00015)" in text and "(default: 626000)" in text
    # Every option is explained.
    from dataclasses import fields

    for field in fields(TrainOptions):
        assert f"--{field.name.replace('_', '-')}" in text, field.name


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["train", "--preset", "ipa-mnist"], "unknown preset 'ipa-mnist'"),
        (["train", "--lrr", "1"], "lrr"),
        (["pretrain", "--preset=nothing"], "unknown preset 'nothing'"),
        (["pretrain", "--data", "x"], "out"),
    ],
)
def test_unknown_options_are_errors(words: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main(words)
    assert left.value.code == 2
    captured = capsys.readouterr()
    assert message in captured.err + captured.out


def test_a_record_contains_file_names_but_no_folders() -> None:
    options = options_for(
        TrainOptions, "small32", data=(Path("/home/someone/photos"),), out=Path("/tmp/x"), artifact=Path("/a/b.st")
    )
    record = options.for_record()
    assert (record["data"], record["artifact"], record["lr"]) == (["photos"], "b.st", 1e-3)
    assert "out" not in record and "/" not in str(record)
