"""The recipe of the experiment on edges, with networks and images that take milliseconds."""

import json
from pathlib import Path
from typing import Any

import pytest
from helpers.pretraining_runs import artifact, inputs, small_data
from helpers.recipe_calls import Call, run
from helpers.resumed_runs import times

from recipes.edges import Options, tasks_of
from recipes.pretraining_work import shards_of

QUICK = {
    "preset": "tiny", "seeds": 1, "pace-steps": 4, "device": "cpu", "validation": 4, "deep-images": 5, "n": 2,
}  # fmt: skip
STEPS = ("--steps", 1, 2, "--scratch-steps", 1)


pytestmark = pytest.mark.usefixtures("small_experiment")


@pytest.fixture
def bags(tmp_path: Path) -> Path:
    """A second data set, with fewer test images than the first."""
    return small_data(tmp_path / "bags-data", train=20, test=9, labelled=False)


def call(out: Path, second: Path, /, *words: object, **options: Any) -> Call:
    """Run the recipe without artifacts. options: other values of its options."""
    given = {"out": out, "shoes": inputs().data, "bags": second, **QUICK, **options}
    flat = [word for name, value in given.items() if value is not None for word in (f"--{name}", value)]
    return run("edges.py", *flat, *STEPS, *words)


def artifacts(transfer: Path, ipa: Path) -> tuple[object, ...]:
    return ("--transfer-artifact", transfer, "--ipa-artifact", ipa)


def test_pace_then_scratch_then_the_rest(tmp_path: Path, bags: Path) -> None:
    out, brief = tmp_path / "out", artifact(tmp_path / "brief.safetensors", seed=5)
    done = call(out, bags, *artifacts(brief, brief), "--pace-only")
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("artifact, edges, pace: ") == done.stdout.count("scratch, edges, pace: ") == 4
    assert done.stdout.count(" ms per step") == 4  # two kinds of two data sets
    pace = times(out)
    done = call(out, bags, "--only", "scratch")  # before there are artifacts
    assert done.returncode == 0, done.stderr
    both = times(out)
    assert pace.items() < both.items() and not list(out.glob("*/results.json"))
    whole = artifacts(inputs().artifacts["transfer"], inputs().artifacts["ipa"])
    for number in (1, 2):
        assert call(out, bags, *whole, "--shard", f"{number}/2").returncode == 0
    last = times(out)
    assert both.items() < last.items()
    done = call(out, bags, *whole)
    assert done.returncode == 0, done.stderr
    assert times(out) == last
    for name, images in (("shoes", 17), ("bags", 9)):
        result = json.loads((out / name / "results.json").read_text())
        assert list(result["arms"]) == ["scratch", "transfer", "ipa"]
        assert (result["settings"]["condition"], result["settings"]["images"]) == ("edges", images)
        assert [point["steps"] for point in result["arms"]["transfer"]["points"]] == [1, 2]
        minutes = {arm: result["arms"][arm]["pretraining_minutes"] for arm in ("transfer", "ipa")}
        assert minutes == {"transfer": 3.25, "ipa": 7.5}
        assert (out / name / "sheet-edges.png").is_file()


def test_each_training_is_one_shard_and_scratch_comes_first(tmp_path: Path, bags: Path) -> None:
    given: dict[str, Any] = {
        "out": tmp_path, "shoes": inputs().data, "bags": bags, "preset": "tiny", "seeds": 2,
        "transfer_artifact": inputs().artifacts["transfer"], "ipa_artifact": inputs().artifacts["ipa"],
    }  # fmt: skip
    options = Options(**given)
    shards = shards_of(options, tasks_of(options))  # the first two of eight measure the pace
    scratch = [(number, f"{i}/8") for number in (0, 1) for i in (3, 4)]
    assert shards == [*scratch, *((number, f"{i}/8") for number in (0, 1) for i in (5, 6, 7, 8))]
    only = Options(**given, only=("scratch",))
    assert shards_of(only, tasks_of(only)) == [(number, f"{i}/3") for number in (0, 1) for i in (2, 3)]


def test_bad_input_is_one_sentence_and_writes_nothing(tmp_path: Path, bags: Path) -> None:
    out, good = tmp_path / "out", artifacts(*inputs().artifacts.values())
    large = small_data(tmp_path / "large", size=16)
    cases: list[tuple[dict[str, Any], tuple[object, ...], str]] = [
        ({}, (), "the arm transfer has no artifact: give --transfer-artifact, or other arms with --only"),
        ({}, ("--only", "ipa"), "the arm ipa has no artifact: give --ipa-artifact, or other arms with --only"),
        ({}, ("--only", "scratsch"), "--only contains scratsch, expected some of scratch, transfer, ipa"),
        ({"shoes": None, "bags": None}, good, "no data set was given: give --shoes, --bags or both"),
        ({"bags": large}, good, "the data has images of 16 x 16 x 3, but the network tiny makes 8 x 8 x 3"),
        ({"condition": "boxes"}, good, "--condition is boxes, expected completion or a translation"),
        ({"processes": 2}, (*good, "--pace-only"), "--processes cannot be combined with --shard or --pace-only"),
    ]
    for options, words, message in cases:
        done = call(out, bags, *words, **options)
        assert (done.returncode, len(done.stderr.strip().splitlines())) == (2, 1), done.stderr
        assert done.stderr.startswith("edges: ") and message in done.stderr
    assert not out.exists()
