"""The embedded model shoes64 draws shoes and bags from three drawings that it was not trained on."""

import functools
from pathlib import Path

import numpy as np
import pytest
import torch
from helpers.drawings import FOLDER
from numpy.typing import NDArray
from PIL import Image

import condvae
from condvae import weights
from condvae.cli import main
from condvae.completion import Completion
from condvae.images.model_levels import as_batch
from condvae.observe import Edges

DRAWINGS = sorted(FOLDER.glob("*.png"))
NAMES = [path.stem for path in DRAWINGS]
Flags = NDArray[np.bool_]


@functools.cache
def answers(drawing: Path) -> Completion:
    return condvae.complete(drawing, model="shoes64", n=8, judge=False)


def near(flags: Flags, pixels: int) -> Flags:
    """Where a pixel is at most so many pixels away from a flag that is set."""
    grown = torch.nn.functional.max_pool2d(torch.from_numpy(flags)[None].float(), 2 * pixels + 1, 1, pixels)
    return np.asarray(grown[0].bool())


def inside_of(lines: Flags) -> Flags:
    """The pixels that cannot be reached from the border of the image without crossing a line."""
    closed = near(lines, 1)
    reached = np.zeros_like(closed)
    reached[0], reached[-1], reached[:, 0], reached[:, -1] = True, True, True, True
    while True:
        grown = near(reached, 1) & ~closed
        if (grown == reached).all():
            return ~reached & ~closed
        reached = grown


def test_the_file_has_the_process_and_the_size_that_were_asked_for() -> None:
    model = weights.load_conditional("shoes64")
    assert model.process == Edges(gaps=4)
    assert model.artifact.config.image_size == 64
    assert weights.locate("shoes64").stat().st_size <= 6 * 2**20
    assert all(torch.isfinite(tensor).all() for tensor in model.state_dict().values())


@pytest.mark.parametrize("drawing", DRAWINGS, ids=NAMES)
def test_answers_fill_the_outline_on_white_and_differ(drawing: Path) -> None:
    result = answers(drawing)
    lines: Flags = result.observed[:, :, 0] < 128
    inside, far = inside_of(lines), ~near(lines | inside_of(lines), 8)
    assert inside.sum() > 300 and far.sum() > 300
    images = result.images.astype(np.float64)
    assert images[:, far].mean() > 240  # white paper around the object
    assert images[:, inside].mean() < 200
    assert images[:, inside].mean(axis=(1, 2)).max() - images[:, inside].mean(axis=(1, 2)).min() > 20
    colours = images[:, inside].mean(axis=1)  # [n, 3]: the mean colour of each answer
    assert np.abs(colours[:, None] - colours).max() > 40


@pytest.mark.parametrize("drawing", DRAWINGS, ids=NAMES)
def test_answers_follow_the_lines(drawing: Path) -> None:
    """Drawn lines are near edges of the answers, far more often than near edges of the answers upside down."""
    result = answers(drawing)
    lines: Flags = result.observed[:, :, 0] < 128
    outline = lines & near(~inside_of(lines) & ~lines, 1)
    found = []
    for image in result.images:
        edges = Edges().pictures_of(as_batch(image))[0, 0].numpy() < 0
        found.append([near(edges, 1)[outline].mean(), near(edges[::-1].copy(), 1)[outline].mean()])
    follows, turned = np.mean(found, axis=0)
    assert follows > 0.8 and follows > turned + 0.2


def test_a_large_drawing_gives_the_lines_of_a_small_one(tmp_path: Path) -> None:
    (sneaker,) = (path for path in DRAWINGS if path.stem == "sneaker")
    with Image.open(sneaker) as drawing:
        scale = 2000 / max(drawing.size)
        large = drawing.convert("L").resize((round(drawing.width * scale), round(drawing.height * scale)))
    large.save(tmp_path / "large.png")
    lines, before = (one.observed[:, :, 0] < 128 for one in (answers(tmp_path / "large.png"), answers(sneaker)))
    assert near(before, 1)[lines].mean() > 0.95 and near(lines, 1)[before].mean() > 0.95


def test_info_says_what_to_give(capsys: pytest.CaptureFixture[str]) -> None:
    main(["info", "shoes64"])
    words = " ".join(capsys.readouterr().out.split())
    assert "give it a drawing, with dark lines on white or the reverse; or a photo, whose edges are then found" in words
