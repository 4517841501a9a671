"""The recipe that compares short trainings, with networks and images that take milliseconds."""

import json
from pathlib import Path

import pytest
from helpers.fixtures import ROOT
from helpers.pretraining_runs import inputs
from helpers.recipe_calls import Call, run
from helpers.resumed_runs import times

from condvae import weights
from condvae.conditional import ConditionalVAE
from condvae.training.run_folder import RunFolder
from condvae.vdvae import VDVAEConfig
from recipes import arms

pytestmark = pytest.mark.usefixtures("small_experiment")

PLAN = """
pretrain = { preset = "tiny", steps = 2, validation = 4, log_every = 1 }
train = { preset = "tiny", steps = 2, validation = 4, log_every = 1 }
evaluate = { images = 5, deep_images = 4, n = 2, metrics = ["inception", "lpips", "coverage"] }

[[arms]]
name = "first"

[[arms]]
name = "direct"
train = { form = "direct" }

[[arms]]
name = "other VAE"
pretrain = { optimiser = "muon" }
noise_floor = 0.2
stages = [[8, 8, 8, 1, 2, 0], [4, 16, 8, 1, 1]]
"""


def call(folder: Path, *words: object, plan: str = PLAN) -> Call:
    file = folder / "plan.toml"
    file.write_text(plan)
    return run("arms.py", file, "--data", inputs().data, "--out", folder / "out", "--device", "cpu", *words)


def folder(out: Path, name: str) -> Path:
    """Return the run folder of an arm's partial encoder, which was trained with only one set of options."""
    (found,) = out.glob(f"{name}-????????")
    return found


def test_arms_share_a_vae_if_it_is_the_same_and_are_not_trained_twice(tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert call(tmp_path, "--vaes").returncode == 0
    assert len(list(out.glob("vae-*.json"))) == 2
    done = call(tmp_path)
    assert done.returncode == 0, done.stderr
    first, direct, other = (weights.load(folder(out, name)) for name in ("first", "direct", "other-VAE"))
    assert isinstance(first, ConditionalVAE) and isinstance(direct, ConditionalVAE)
    assert isinstance(other, ConditionalVAE)
    same = zip(first.artifact.parameters(), direct.artifact.parameters(), strict=True)
    assert all(bool((one == two).all()) for one, two in same)
    assert (first.partial_config.form, direct.partial_config.form) == ("relative", "direct")
    assert [stage.width for stage in other.artifact.config.stages] == [8, 16]
    assert other.artifact.config.likelihood.noise_floor == 0.2  # type: ignore[union-attr]
    rows = json.loads((out / "arms.json").read_text())
    assert list(rows) == ["first", "direct", "other VAE"]
    counts = [sum(p.numel() for p in part.parameters()) for part in (other.artifact, other.partial)]
    assert [rows["other VAE"][part]["weights"] for part in ("VAE", "partial encoder")] == counts
    assert rows["first"]["metrics"]["lpips_gt"]["mean"] > 0
    table = (out / "arms.md").read_text().splitlines()
    assert len(table) == 5 and table[4].startswith("| other VAE | ")
    before = times(folder(out, "first"))
    assert call(tmp_path, "--arms", "first").returncode == 0
    assert times(folder(out, "first")) == before


def test_a_trial_takes_three_steps_and_measures_nothing(tmp_path: Path) -> None:
    assert call(tmp_path, "--trial", "--arms", "first").returncode == 0
    out = tmp_path / "out"
    assert weights.describe(folder(out, "first")).record["steps"] == 3
    assert not (out / "arms.json").exists()
    # The real run does not take the model of the trial for its own.
    assert call(tmp_path, "--arms", "first").returncode == 0
    parts = json.loads((out / "arms.json").read_text())["first"]
    assert [parts[part]["steps"] for part in ("VAE", "partial encoder")] == [2, 2]


@pytest.mark.parametrize(
    ("plan", "words", "message"),
    [
        (PLAN, ("--arms", "third"), "has no arm 'third', expected some of first, direct, other VAE"),
        (PLAN + '[[arms]]\nname = "first"\n', (), "each needs a name of its own"),
        (PLAN + '[[arms]]\nname = "bad"\npretrain = { speed = 1 }\n', (), "speed"),
        (PLAN + '[[arms]]\nname = "bad"\nsize = 1\n', (), "size"),
        (PLAN + '[[arms]]\nname = "bad"\ntrain = { lr = -1 }\n', (), "the learning rate is -1"),
        (PLAN.replace("deep_images", "deepest"), (), "deepest"),
        ("pretrain = {", (), "is not valid TOML"),
    ],
)
def test_bad_input_is_one_sentence_and_trains_nothing(
    plan: str, words: tuple[object, ...], message: str, tmp_path: Path
) -> None:
    done = call(tmp_path, *words, plan=plan)
    assert (done.returncode, len(done.stderr.strip().splitlines())) == (2, 1), done.stderr
    assert done.stderr.startswith("arms: ") and message in done.stderr
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("plan", sorted((ROOT / "recipes" / "arms").glob("*.toml")), ids=lambda path: path.stem)
def test_the_options_of_the_published_plans_are_valid(plan: Path, tmp_path: Path) -> None:
    read = arms.Plan.read(plan)
    options = arms.Options(plan=plan, data=(tmp_path,), out=tmp_path)
    for arm in read.arms.values():
        own, network = arms.pretrain_options(read, arm, options)
        own.check()
        arms.train_options(read, arm, RunFolder(own.out), options).check()
        assert VDVAEConfig.from_dict(network).image_size == 64
