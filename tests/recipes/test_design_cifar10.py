"""The example recipe for CIFAR-10, run on a few pictures of noise."""

import runpy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from helpers.factor_worlds import linear_classifier
from helpers.recipe_calls import RECIPES, run
from PIL import Image

from condvae.data import Dataset, ImageSet
from condvae.design import Candidates, Random, scan
from condvae.design.avp_cnn.classifier_file import describe_classifier

RECIPE = "design_cifar10.py"
QUICK = ("--steps", 2, "--batch", 4, "--images", 2, "--n", 2, "--points", 2, "--first-n", 3)


def pictures(folder: Path, *, labelled: bool = True) -> Path:
    folder.mkdir()
    rng = np.random.default_rng(0)
    for split, count in (("train", 30), ("test", 3)):
        arrays: dict[str, Any] = {"images": rng.integers(0, 256, (count, 32, 32, 3), dtype=np.uint8)}
        if labelled:
            arrays["labels"] = np.arange(count) % 10
        np.savez(folder / f"{split}.npz", **arrays)
    return folder


def test_it_trains_scans_and_draws(tmp_path: Path) -> None:
    data, out = pictures(tmp_path / "data"), tmp_path / "out"
    done = run(RECIPE, "--data", data, "--out", out, "--scans", 2, "--drawn", 1, *QUICK)
    assert done.returncode == 0, done.stderr
    assert sorted(path.name for path in out.iterdir()) == ["classifier.safetensors", "panel.gif", "panel.png"]
    config = describe_classifier(out / "classifier.safetensors").config
    assert (config.size, config.channels, config.names, config.outcomes) == (32, 3, ("class",), 10)
    with Image.open(out / "panel.gif") as gif:
        assert gif.n_frames == 2  # type: ignore[attr-defined]
    rows = [line.split() for line in done.stdout.splitlines() if line.startswith(("EIG  ", "random"))]
    assert [row[0] for row in rows] == ["EIG", "random"] * 2
    assert all(len(row) == 1 + 3 + 1 for row in rows)  # after 0, 1 and 2 scans, and for the whole picture
    differences = [line.split()[-3:] for line in done.stdout.splitlines() if line.startswith("EIG - random")]
    assert [float(values[0]) for values in differences] == [0, 0]
    eig, random = (np.array(row[1:], dtype=float) for row in rows[2:])
    assert (eig < 0).all()
    assert eig[0] == random[0] and eig[-1] == random[-1]  # without scans, and for whole pictures, both are equal
    again = run(
        RECIPE, "--data", data, "--out", out, "--classifier", out / "classifier.safetensors", "--scans", 1, *QUICK
    )
    assert "training" not in again.stdout
    later = [line.split() for line in again.stdout.splitlines() if line.startswith("EIG  ")]
    assert later[1][1:3] == rows[2][1:3]  # seeded: the first scan is the same


def test_random_is_the_mean_of_twenty_tries(capsys: pytest.CaptureFixture[str]) -> None:
    recipe = runpy.run_path(str(RECIPES / RECIPE))
    grid, g = Candidates.grid(8, side=2, points=4), linear_classifier(names=("class",))
    rng = np.random.default_rng(0)
    test = ImageSet(images=rng.integers(0, 256, (3, 8, 8, 1), dtype=np.uint8), labels=np.arange(3), rows=np.arange(3))
    data = Dataset(kind="", train=test, validation=test, test=test, label_names=None, flips=False, skipped=())
    recipe["compare"](recipe["Options"](scans=2, seed=5), data, g, grid, Random(candidates=grid))
    images, truth = test.take(np.arange(3)).images, torch.arange(3)[:, None, None].expand(3, 3, 1)
    tries = [scan(images, Random(candidates=grid), g, grid, steps=2, seed=seed).log_p for seed in range(5, 25)]
    scores = torch.stack([log_p[:, :, 0].gather(2, truth)[..., 0].mean(dim=0) for log_p in tries])
    assert scores.std(dim=0)[1:].min() > 0.1  # large enough for a smaller number of tries to fail this test
    (_, told) = (line.split()[1:4] for line in capsys.readouterr().out.splitlines() if line.startswith("random"))
    assert [float(number) for number in told] == pytest.approx(scores.mean(dim=0).tolist(), abs=0.0051)


def test_bad_input_is_one_sentence(tmp_path: Path) -> None:
    data, out = pictures(tmp_path / "data"), tmp_path / "out"
    unlabelled = pictures(tmp_path / "unlabelled", labelled=False)
    for words, message in (
        (("--data", tmp_path / "none"), "does not exist"),
        (("--data", unlabelled), "no labels"),
        (("--data", data, "--scans", 0), "--scans is 0"),
        (("--data", data, "--drawn", 3), "expected a test picture from 0 to 2"),
        (("--data", data, "--model", "cifar01"), "cifar10"),
        (("--data", data, "--classifier", tmp_path / "none.safetensors"), "does not exist"),
    ):
        done = run(RECIPE, "--out", out, *words)
        assert (done.returncode, len(done.stderr.strip().splitlines())) == (2, 1)
        assert message in done.stderr
    assert not out.exists()
