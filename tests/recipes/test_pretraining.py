"""The recipe of the experiment on pretraining, with networks and images that take milliseconds."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.pretraining_runs import inputs, small_data
from helpers.recipe_calls import Call, run
from helpers.resumed_runs import times

from condvae import weights
from condvae.vdvae import Normalisation

QUICK = {
    "preset": "tiny", "seeds": 1, "steps": 1, "scratch-steps": 1, "pace-steps": 4, "device": "cpu", "validation": 4,
    "images": 5, "deep-images": 5, "n": 1, "bound-images": 5, "other-minutes": 0.001,
}  # fmt: skip


pytestmark = pytest.mark.usefixtures("small_experiment")


def call(out: Path, *words: object, **options: Any) -> Call:
    """Run the recipe. options: other values of its options; `words` come last."""
    given = {"out": out, "data": inputs().data, "artifact": inputs().artifacts["ipa"], **QUICK, **options}
    flat = [word for name, value in given.items() for word in (f"--{name}", value)]
    return run("pretraining.py", *flat, *(words or ("--conditions",)))


def test_it_trains_the_artifacts_first_and_shards_share_the_rest(tmp_path: Path) -> None:
    out, dark = tmp_path / "out", tmp_path / "dark.npy"
    np.save(dark, np.random.default_rng(0).integers(0, 99, (20, 16, 16, 3), dtype=np.uint8))  # larger than the network
    words = ("--other", dark, "--conditions")
    early = call(out, *words, "--shard", "1/2")
    assert (early.returncode, len(early.stderr.strip().splitlines())) == (2, 1)
    assert "vae-other/model.safetensors does not exist yet: run the command with --pace-only before" in early.stderr
    assert not out.exists()
    assert call(out, *words, "--pace-only").returncode == 0
    vae = out / "vae-other" / "model.safetensors"
    normalisation = weights.load_vae(vae).config.normalisation
    assert isinstance(normalisation, Normalisation) and -70 < normalisation.shift < -30  # of the dark images
    for number in (1, 2):
        done = call(out, *words, "--shard", f"{number}/2")
        assert done.returncode == 0, done.stderr
    before = times(out)
    done = call(out, *words)
    assert done.returncode == 0, done.stderr
    assert "FID at the end, over 1 seed: scratch " in done.stdout
    assert times(out) == before
    result = json.loads((out / "experiment" / "results.json").read_text())
    assert list(result["arms"]) == ["scratch", "ipa", "transfer"]
    assert result["arms"]["ipa"]["pretraining_minutes"] == 7.5
    assert result["arms"]["transfer"]["pretraining"]["steps"] == weights.describe(vae).record["steps"]
    assert (result["settings"]["images"], result["conditions"]) == (5, {})


def test_bad_input_is_one_sentence_and_writes_nothing(tmp_path: Path) -> None:
    out = tmp_path / "out"
    unlabelled = small_data(tmp_path / "unlabelled", labelled=False)
    cases: list[tuple[dict[str, Any], tuple[object, ...], str]] = [
        ({"data": tmp_path / "none"}, (), "does not exist"),
        ({"data": unlabelled}, ("--conditions", "label,classes=10"), "no labels for the condition label,classes=10"),
        ({"artifact": "cifar10"}, (), "makes images of 32 x 32 x 3, but the network tiny makes 8 x 8 x 3"),
        ({"artifact": tmp_path / "none.safetensors"}, (), "none.safetensors"),
        ({"images": 18}, (), "17 test images, but --images is 18"),
        ({"validation": 21}, (), "3 training images beside the 21 for validation, but a batch has 4"),
        ({"shard": "3/2"}, (), "'3/2' is not a shard"),
        ({}, ("--steps", "4", "2"), "--steps is (4, 2), expected numbers of steps in rising order"),
        ({"preset": "cifar11"}, (), "unknown preset 'cifar11', expected one of small32"),
        ({"seeds": 0}, (), "--seeds is 0"),
    ]
    for options, words, message in cases:
        done = call(out, *words, **options)
        assert (done.returncode, len(done.stderr.strip().splitlines())) == (2, 1), done.stderr
        assert done.stderr.startswith("pretraining: ") and message in done.stderr
    assert not out.exists()
