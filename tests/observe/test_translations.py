"""Observations that are another image or a label."""

from typing import Any

import pytest
import torch
from helpers.models import generator, images

from condvae.observe import Edges, Grey, Label, LowResolution, Observation, Paired, Process
from condvae.observe.batch import Batch
from condvae.observe.canny import canny
from condvae.observe.translations import random_boxes


def observe(process: Process, batch: Batch) -> Observation:
    observation = process.observe(batch, normalise=lambda x: 2 * x + 0.5, generator=generator())
    assert observation.known is None
    assert observation.pixels is None
    assert observation.y.shape == (len(batch), process.channels(batch.x.shape[1]), *batch.x.shape[2:])
    return observation


def test_edges_are_dark_lines_on_white_in_every_channel() -> None:
    x = images(3, size=32)
    y = observe(Edges(), Batch(x=x)).y
    grey = (0.299 * x[:, :1] + 0.587 * x[:, 1:2] + 0.114 * x[:, 2:] + 1) / 2
    lines = canny(grey, sigma=1.0, low=0.05, high=0.15)
    assert torch.equal(y, torch.where(lines, -1.5, 2.5).expand(3, 3, 32, 32))
    assert set(observe(Edges(), Batch(x=x[:, :1])).y.unique().tolist()) <= {-1.5, 2.5}


def test_edges_show_a_black_square_on_white() -> None:
    x = torch.ones(1, 3, 32, 32)
    x[:, :, 8:24, 8:24] = -1
    lines = observe(Edges(), Batch(x=x)).y[0, 0] < 0
    either_side = torch.zeros(32, 32, dtype=torch.bool)
    either_side[7:25, 7:25] = True
    either_side[9:23, 9:23] = False
    assert not (lines & ~either_side).any()
    # The lines are on the brighter side of the edges; only near the corners, which are rounded, on the darker side.
    assert lines[7, 12:20].all() and lines[24, 12:20].all() and lines[12:20, 7].all() and lines[12:20, 24].all()
    assert int(lines.sum()) == 4 * 8 + 4 * 7


def test_grey_shows_the_luminance() -> None:
    white, red, green, blue = torch.ones(3), *torch.eye(3) * 2 - 1
    x = torch.stack((white, red, green, blue))[:, :, None, None].expand(4, 3, 8, 8)
    y = (observe(Grey(), Batch(x=x)).y - 0.5) / 2
    for value, expected in zip(y[:, 0, 0, 0].tolist(), (1, 2 * 0.299 - 1, 2 * 0.587 - 1, 2 * 0.114 - 1), strict=True):
        assert value == pytest.approx(expected, abs=1e-6)
    one = images(2, channels=1)
    assert torch.equal(observe(Grey(), Batch(x=one)).y, 2 * one + 0.5)
    with pytest.raises(ValueError, match="2 channels"):
        observe(Grey(), Batch(x=images(1, channels=2)))


def test_low_resolution_shows_averages_over_squares() -> None:
    x = images(2, size=8)
    y = (observe(LowResolution(factor=4), Batch(x=x)).y - 0.5) / 2
    for i, j in ((0, 0), (0, 4), (4, 4)):
        square = (slice(None), slice(None), slice(i, i + 4), slice(j, j + 4))
        assert torch.allclose(y[square], x[square].mean(dim=(2, 3), keepdim=True).expand(2, 3, 4, 4), atol=1e-6)
    assert torch.equal(observe(LowResolution(factor=1), Batch(x=x)).y, 2 * x + 0.5)
    with pytest.raises(ValueError, match="8 x 8 pixels"):
        observe(LowResolution(factor=3), Batch(x=x))


def test_labels_are_channels_of_ones() -> None:
    x = images(3)
    y = observe(Label(classes=4), Batch(x=x, labels=torch.tensor([2, 0, 3]))).y
    assert torch.equal(y.mean(dim=(2, 3)), torch.eye(4)[[2, 0, 3]])
    assert set(y.unique().tolist()) == {0, 1}
    findings = torch.tensor([[0, 1], [1, 1], [0, 0]], dtype=torch.uint8)
    assert torch.equal(observe(Label(classes=2), Batch(x=x, labels=findings)).y[:, :, 5, 5], findings.float())


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (None, "no labels"),
        (torch.tensor([0, 1, 4]), "labels are from 0 to 4"),
        (torch.tensor([-1, 1, 3]), "labels are from -1 to 3"),
        (torch.zeros(3, 5, dtype=torch.uint8), r"shape \(3, 5\)"),
        (torch.full((3, 4), 2, dtype=torch.uint8), "values other than 0 and 1"),
    ],
)
def test_wrong_labels_are_errors(labels: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        observe(Label(classes=4), Batch(x=images(3), labels=labels))


def test_paired_images_are_normalised() -> None:
    x, partners = images(2), images(2, channels=1, seed=1)
    assert torch.equal(observe(Paired(channels_of_pair=1), Batch(x=x, paired=partners)).y, 2 * partners + 0.5)
    with pytest.raises(ValueError, match="no paired images"):
        observe(Paired(), Batch(x=x))
    with pytest.raises(ValueError, match=r"shape \(2, 1, 8, 8\)"):
        observe(Paired(), Batch(x=x, paired=partners))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Edges(sigma=-1), "sigma is -1"),
        (lambda: Edges(low=0.3, high=0.2), "low 0.3 and high 0.2"),
        (lambda: Edges(gaps=-1), "gaps is -1"),
        (lambda: Edges(gaps=101), "gaps is 101, expected at most 100"),
        (lambda: LowResolution(factor=0), "factor is 0"),
        (lambda: Label(classes=0), "classes is 0"),
        (lambda: Paired(channels_of_pair=0), "channels_of_pair is 0"),
    ],
)
def test_wrong_parameters_are_errors(make: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()


def test_gaps_erase_lines_only_with_a_generator() -> None:
    x = torch.rand(40, 3, 32, 32, generator=generator()) * 2 - 1
    whole, gapped = Edges(sigma=0.5, low=0.02, high=0.05), Edges(sigma=0.5, low=0.02, high=0.05, gaps=4)
    pictures = gapped.pictures_of(Batch(x=x))
    assert torch.equal(pictures, whole.pictures_of(Batch(x=x)))  # gaps are no part of a picture
    shown = gapped.show(pictures, normalise=lambda y: y).y
    assert torch.equal(shown, pictures)
    erased = gapped.show(pictures, normalise=lambda y: y, generator=generator(1)).y
    assert torch.equal(whole.show(pictures, normalise=lambda y: y, generator=generator(1)).y, pictures)
    changed = (erased != pictures).any(dim=1)
    assert (erased[changed[:, None].expand_as(erased)] == 1).all() and (erased >= pictures).all()
    each = changed.flatten(1).any(dim=1).float().mean()
    assert 0.5 < each < 1  # about a fifth of the images get no box


def test_a_random_box_is_a_rectangle_of_the_right_size() -> None:
    boxes = random_boxes(1, 400, 64, generator())[:, 0]
    some = boxes.flatten(1).any(dim=1)
    assert 0.4 < some.float().mean() < 0.6  # none or one, equally often
    rows, columns = boxes.any(dim=2), boxes.any(dim=1)
    assert torch.equal(boxes, rows[:, :, None] & columns[:, None, :])
    sides = torch.cat((rows.sum(dim=1)[some], columns.sum(dim=1)[some]))
    assert sides.max() <= 0.35 * 64 + 1 and sides.float().mean() > 0.1 * 64
    assert not random_boxes(3, 5, 8, generator())[:, 0].all()
