"""Edges that are made once, before training, give the same training as edges that are made in every step."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from helpers.models import generator, small_vae
from helpers.training import assert_same_model, few_faces, log_of, smallest_network

from condvae import weights
from condvae.conditional import ConditionalVAE, PartialConfig
from condvae.data import ImageSet, open_data
from condvae.observe import Edges, Grey, Process
from condvae.runtime.pixels import from_uint8
from condvae.runtime.ranks import World
from condvae.training import TrainOptions, pictures, train
from condvae.training.task import ConditionalTraining

CPU = torch.device("cpu")
QUICK: dict[str, Any] = {
    "data": (few_faces(),), "size": 8, "batch": 8, "steps": 6, "warm_up": 2, "log_every": 3, "evaluate_every": 3,
    "evaluate_on": 16, "sheet_every": 0, "device": "cpu",
}  # fmt: skip


@pytest.mark.parametrize("observe", ["edges,sigma=0.5,low=0.02,high=0.05", "edges,sigma=0.5,low=0.02,high=0.05,gaps=3"])
def test_training_is_the_same_bit_for_bit(
    observe: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    options = {**QUICK, "scratch": smallest_network(), "observe": (observe,)}
    once = train(TrainOptions(**options, out=tmp_path / "once"))
    assert "too much memory" not in "".join(capsys.readouterr())
    monkeypatch.setattr(pictures, "free_host_bytes", lambda: 0)
    each = train(TrainOptions(**options, out=tmp_path / "each"))
    assert "the edges of all images need too much memory" in "".join(capsys.readouterr())
    assert_same_model(once, each)
    assert log_of(once.parent, "train", "evaluation") == log_of(each.parent, "train", "evaluation")
    assert weights.describe(once).process == weights.describe(each).process


def faces() -> ImageSet:
    return open_data(few_faces(), size=8, validation=40).validation


def task_for(process: Process) -> ConditionalTraining:
    model = ConditionalVAE(small_vae(), PartialConfig(channels=process.channels(3)), process=process)
    return ConditionalTraining(model, process)


def test_pictures_are_those_of_the_process_in_the_order_of_the_set() -> None:
    process, images = Edges(sigma=0.5, low=0.02, high=0.05), faces()
    made = pictures.with_pictures(images, process, CPU)
    assert made is not None
    positions = np.array([3, 0, 39])
    batch = made.take(positions)
    assert torch.equal(batch.images, images.take(positions).images)
    assert batch.paired is not None
    assert torch.equal(from_uint8(batch.paired), process.pictures_of(images.take(positions).batch()))
    assert (batch.paired == 0).any()


def test_the_step_shows_given_pictures_and_does_not_make_them_again() -> None:
    task, images = task_for(Edges(sigma=0.5, low=0.02, high=0.05)), faces()
    train_set, held_out = pictures.prepare_pictures(task, images, images, World(0, 1, CPU), pytest.fail)
    assert train_set is held_out and task.pictures_given
    batch = train_set.take(np.arange(4)).batch()
    expected = task.bound(batch, generator(1)).kl_nats
    monochrome = type(batch)(x=batch.x, paired=torch.ones_like(batch.x))
    assert not torch.equal(task.bound(monochrome, generator(1)).kl_nats, expected)
    task.pictures_given = False  # the pictures are made from the images
    assert torch.equal(task.bound(monochrome, generator(1)).kl_nats, expected)


def test_pictures_that_cost_little_are_made_in_the_step() -> None:
    task, images = task_for(Grey()), faces()
    assert pictures.prepare_pictures(task, images, images, World(0, 1, CPU), pytest.fail) == (images, images)
    assert not task.pictures_given
