"""The sheet of large holes shows the completions of every model, with the spread of their pixels."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch
from helpers.baseline_models import baseline_file, small_baseline
from helpers.fixtures import FIXTURES
from helpers.recipe_calls import run
from PIL import Image
from torch import Tensor

from condvae import load
from condvae.completers.interface import paste_known
from condvae.completers.learned_completer import LearnedCompleter
from condvae.data import open_data
from condvae.observe import Observation
from recipes.mode_collapse import Options, completions_of, hidden_of, pixel_std, problems_of, sheet_of

RECIPE = "mode_collapse.py"
DATA = FIXTURES / "faces32.zip"
CPU = torch.device("cpu")


@dataclass(frozen=True, kw_only=True, eq=False)
class Levels:
    """Fills the hole of completion i with the grey level 10 i."""

    name: str = "levels"
    varies: bool = True

    def complete(self, observation: Observation, k: int, seed: int, *, places: Sequence[int] = ()) -> Tensor:
        flat = (10 * torch.arange(k, dtype=torch.uint8)).view(1, k, 1, 1, 1).expand(len(observation), -1, 3, 32, 32)
        return paste_known(observation, flat)


def test_the_spread_is_that_of_hidden_pixels() -> None:
    hidden = torch.zeros(1, 4, 4, dtype=torch.bool)
    hidden[0, 0, :2] = True
    images = torch.full((3, 3, 4, 4), 7, dtype=torch.uint8)
    assert pixel_std(images, hidden) == 0
    images[:, :, 0, 0] = torch.tensor([0, 10, 20], dtype=torch.uint8)[:, None]
    assert pixel_std(images, hidden) == pytest.approx(5)  # a standard deviation of 10 at one of two hidden pixels
    images[0, :, 3, 3] = 255  # known pixels do not count
    assert pixel_std(images, hidden) == pytest.approx(5)
    assert pixel_std(images[:1], hidden) == 0


def test_each_model_has_two_rows_of_ten() -> None:
    test = open_data(DATA).test
    problems = problems_of(test, [2, 0], 0, CPU)
    assert all(0.8 <= float(hidden_of(one).double().mean()) <= 1 for one in problems)
    options = Options(data=(DATA,), models=())
    made = {
        "levels": completions_of(Levels(), problems, options),
        "ce": completions_of(small_baseline("ce", size=32), problems, options),
    }
    assert [len(drawn[0]) for drawn in made.values()] == [20, 1]
    sheet = np.asarray(sheet_of(problems, made))
    rows, pitch = 2 * (1 + 2 + 1), 68
    top, left = sheet.shape[0] - rows * pitch, sheet.shape[1] - 10 * pitch

    def tile(row: int, column: int) -> np.ndarray:
        found: np.ndarray = sheet[top + row * pitch :, left + column * pitch :][:64:2, :64:2]
        return found

    for i, problem in enumerate(problems):
        first = 4 * i
        assert (tile(first, 0) == problem.truth.permute(1, 2, 0).numpy()).all()
        hidden = hidden_of(problem)[0].numpy()
        assert (tile(first, 1)[~hidden] == tile(first, 0)[~hidden]).all() and np.ptp(tile(first, 1)[hidden]) == 0
        for k in range(20):
            assert (tile(first + 1 + k // 10, k % 10)[hidden] == 10 * k).all()
        assert (tile(first + 3, 1) == 255).all()  # a model with one answer has only one picture
    assert (problems[0].truth.numpy() == test.take(np.array([2])).images[0].numpy()).all()


def test_from_files_to_a_sheet(tmp_path: Path) -> None:
    gan, out = baseline_file(tmp_path, "anp", size=32), tmp_path / "sheets" / "collapse.png"
    done = run(
        RECIPE, "--data", DATA, "--models", f"gan={gan}", "cifar10", "--positions", 1, "--n", 3, "--out", out,
        "--device", "cpu",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    result = json.loads(out.with_suffix(".json").read_text())
    assert result["format"] == "condvae mode collapse" and result["positions"] == [1]
    (problem,) = problems_of(open_data(DATA).test, [1], 0, CPU)
    model = load(gan)
    assert isinstance(model, LearnedCompleter)
    made = model.complete(problem.observation, 3, 0, places=[1])[0]
    assert result["pixel_std"]["gan"] == [pytest.approx(pixel_std(made, hidden_of(problem)))]
    assert result["pixel_std"]["cifar10"][0] > 1
    with Image.open(out) as sheet:
        assert sheet.height > 3 * 64


def test_bad_input_is_one_sentence(tmp_path: Path) -> None:
    gan = baseline_file(tmp_path, "ce", size=32)
    for words, message in (
        (("--models",), "no --models were given"),
        (("--models", "gan=nogan"), "unknown model 'nogan'"),
        (("--models", "faces64"), "faces64 makes images of 64 x 64 x 3"),
        (("--models", gan, gan), "two models are called ce"),
        (("--models", gan, "--positions", 99999), "--positions has 99999, expected positions from 0 to"),
        (("--models", gan, "--positions"), "no --positions were given"),
        (("--models", gan, "--n", 0), "--n is 0"),
        (("--models", gan, "--out", tmp_path / "x.txt"), "expected a .png or .webp file"),
    ):
        done = run(RECIPE, "--data", DATA, "--out", tmp_path / "out.png", *words)
        assert (done.returncode, len(done.stderr.strip().splitlines())) == (2, 1), done.stderr
        assert message in done.stderr
    assert not (tmp_path / "out.png").exists()
