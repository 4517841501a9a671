"""Sharpness has its closed forms, and the sheet shows the completions of every method."""

from collections.abc import Sequence

import numpy as np
import pytest
import torch
from helpers.fixtures import FIXTURES
from numpy.typing import NDArray
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
    sheet = np.asarray(sheet_of(methods, problems, CPU, n=3))
    side, pitch = 64, 68
    top, left = sheet.shape[0] - 3 * pitch, sheet.shape[1] - 15 * pitch

    def tile(row: int, column: int) -> NDArray[np.uint8]:
        y, x = top + row * pitch, left + column * pitch
        return sheet[y : y + side, x : x + side]

    def is_white(row: int, column: int) -> bool:
        return bool((tile(row, column) == 255).all())

    columns = range(15)
    assert [is_white(0, column) for column in columns] == [False, False, True] * 5  # original and known pixels
    assert [is_white(1, column) for column in columns] == [False, True, True] * 5  # one completion
    assert not any(is_white(2, column) for column in columns)
    for i in range(5):
        original, seen = tile(0, 3 * i), tile(0, 3 * i + 1)
        known = (seen == original).all(axis=2)
        for row, column in ((1, 3 * i), (2, 3 * i), (2, 3 * i + 2)):
            assert (tile(row, column)[known] == original[known]).all()
        assert (tile(2, 3 * i) != tile(2, 3 * i + 1)).any()
    hidden = [1 - (tile(0, 3 * i) == tile(0, 3 * i + 1)).all(axis=2).mean() for i in range(5)]
    assert hidden == sorted(hidden)


def test_large_holes_have_a_row_for_each_method(data: Dataset, problems: Problems) -> None:
    methods: dict[str, Completer] = {"copies": Copies(problems, 1.0), "harmonic": HarmonicFill()}
    sheet = np.asarray(large_hole_sheet(methods, problems, CPU, images=5))
    top, left, pitch = sheet.shape[0] - 4 * 68, sheet.shape[1] - 5 * 68, 68
    tiles = [[sheet[top + r * pitch :, left + c * pitch :][:64, :64] for c in range(5)] for r in range(4)]
    for original, seen, copied, filled in zip(*tiles, strict=True):
        known = (seen == original).all(axis=2)
        assert known.mean() < 0.2  # the bin of the largest holes
        assert (copied == original).all() and (filled[known] == original[known]).all() and (filled != original).any()
