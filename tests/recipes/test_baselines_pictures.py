"""Sharpness has its closed forms, and the sheet shows the completions of every method."""

from collections.abc import Sequence

import numpy as np
import pytest
import torch
from helpers.fixtures import FIXTURES
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor

from condvae.completers import Completer, HarmonicFill, RandomTrainingImage
from condvae.data import Dataset, open_data
from condvae.experiments.evaluation.plan import EvaluationSettings
from condvae.experiments.evaluation.problems import Problems
from condvae.observe import Observation
from recipes.baselines_pictures import differences, large_hole_sheet, sharpness_of, sheet_of

CPU = torch.device("cpu")


class Copies:
    """Completes an image with a contrast that is `contrast` times that of the original."""

    name = "copies"
    varies = False

    def __init__(self, problems: Problems, contrast: float) -> None:
        self.truth = problems.truth(np.arange(len(problems)), CPU).double()
        self.contrast = contrast

    def complete(self, observation: Observation, k: int, seed: int, *, places: Sequence[int] = ()) -> Tensor:
        made = 128 + self.contrast * (self.truth[list(places)] - 128)
        return made.round().to(torch.uint8)[:, None].expand(-1, k, -1, -1, -1)


@pytest.fixture(scope="module")
def data() -> Dataset:
    return open_data(FIXTURES / "faces32.zip")


@pytest.fixture(scope="module")
def problems(data: Dataset) -> Problems:
    return Problems.choose(data, EvaluationSettings(images=12, deep_images=2))


def tiles_of(sheet: Image.Image, *, rows: int, columns: int) -> list[list[NDArray[np.uint8]]]:
    """Cut a contact sheet into its pictures, which are at its lower right."""
    levels, side, pitch = np.asarray(sheet), 64, 68
    top, left = levels.shape[0] - rows * pitch, levels.shape[1] - columns * pitch
    return [[levels[top + r * pitch :, left + c * pitch :][:side, :side] for c in range(columns)] for r in range(rows)]


def test_differences_count_pairs_of_hidden_pixels() -> None:
    board = torch.tensor([[0, 10, 0], [10, 0, 10], [0, 10, 0]], dtype=torch.uint8).expand(1, 3, 3, 3)
    whole = torch.ones(1, 1, 3, 3, dtype=torch.bool)
    corner = torch.zeros_like(whole)
    corner[..., :2, :2] = True
    apart = torch.zeros_like(whole)
    apart[..., 0, 0] = apart[..., 1, 1] = True
    assert [differences(board, hidden).tolist() for hidden in (whole, corner, apart)] == [[360], [120], [0]]


def test_sharpness_is_the_contrast_of_neighbours(problems: Problems) -> None:
    for contrast, expected in ((1.0, 1.0), (0.5, 0.5), (0.0, 0.0)):
        found = sharpness_of(Copies(problems, contrast), problems, CPU, images=12)
        assert list(found) == ["0-0.2", "0.2-0.4", "0.4-0.6", "0.6-0.8", "0.8-1", "mixture"]
        for cell in found.values():
            assert cell["mean"] == pytest.approx(expected, abs=0.02)  # grey levels are rounded
            assert cell["standard_error"] < 0.01
    fill = sharpness_of(HarmonicFill(), problems, CPU, images=12)
    assert all(0 < cell["mean"] < 0.9 and cell["standard_error"] > 0 for cell in fill.values())
    assert fill["0.8-1"]["mean"] < fill["0-0.2"]["mean"]  # it is smoother in larger holes


def test_the_sheet_has_a_row_for_each_method(data: Dataset, problems: Problems) -> None:
    methods: dict[str, Completer] = {"harmonic": HarmonicFill(), "random": RandomTrainingImage(images=data.train)}
    tiles = tiles_of(sheet_of(methods, problems, CPU, n=3), rows=3, columns=15)

    def is_white(row: int, column: int) -> bool:
        return bool((tiles[row][column] == 255).all())

    columns = range(15)
    assert [is_white(0, column) for column in columns] == [False, False, True] * 5  # original and known pixels
    assert [is_white(1, column) for column in columns] == [False, True, True] * 5  # one completion
    assert not any(is_white(2, column) for column in columns)
    for i in range(5):
        original, seen = tiles[0][3 * i], tiles[0][3 * i + 1]
        known = (seen == original).all(axis=2)
        for row, column in ((1, 3 * i), (2, 3 * i), (2, 3 * i + 2)):
            assert (tiles[row][column][known] == original[known]).all()
        assert (tiles[2][3 * i] != tiles[2][3 * i + 1]).any()
    hidden = [1 - (tiles[0][3 * i] == tiles[0][3 * i + 1]).all(axis=2).mean() for i in range(5)]
    assert hidden == sorted(hidden)


def test_large_holes_have_a_row_for_each_method(data: Dataset, problems: Problems) -> None:
    methods: dict[str, Completer] = {"copies": Copies(problems, 1.0), "harmonic": HarmonicFill()}
    sheet = large_hole_sheet(methods, problems, CPU, images=5)
    for original, seen, copied, filled in zip(*tiles_of(sheet, rows=4, columns=5), strict=True):
        known = (seen == original).all(axis=2)
        assert known.mean() < 0.2  # the bin of the largest holes
        assert (copied == original).all() and (filled[known] == original[known]).all() and (filled != original).any()
