"""The numbers of a snapshot are those that other functions of condvae compute, one image at a time."""

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from helpers.pretraining_runs import ALONE, SMALL, TEST, inputs, small_networks, small_settings
from safetensors.torch import load_file
from torch import Tensor

from condvae import weights
from condvae.conditional import ConditionalVAE
from condvae.data import open_data
from condvae.experiments.pretraining.measure import PretrainingContext
from condvae.experiments.pretraining.training_runs import Arm
from condvae.metrics import conditional_nats, fid, ids, observed_information
from condvae.observe import Grey, Label, Observation, Process
from condvae.observe.hole_bins import HOLE_BINS, known_in_bin
from condvae.runtime.seeds import Seeds
from condvae.sampling.sampler import Sampler

ROWS = np.arange(12) * TEST // 12  # the 12 of 17 test images that are measured


def context(**change: Any) -> PretrainingContext:
    data = inputs().data
    return PretrainingContext(open_data(data), data, small_settings(**change), small_networks(), ALONE.device)


def levels(position: int) -> Tensor:
    """One test image, uint8 [1, C, H, W]."""
    return open_data(inputs().data).test.take(ROWS[[position]]).images


def known_pixels(position: int) -> Tensor:
    """The hole of one test image, bool [1, 1, H, W]."""
    number, place = position % 5, position // 5
    return known_in_bin(HOLE_BINS[number], len(range(number, 12, 5)), 8, seed=0)[place, None]


def seen(model: ConditionalVAE, position: int, process: Process | None) -> tuple[Tensor, Observation]:
    """One test image in [-1, 1], and what a model sees of it. process: None for a hole."""
    batch = open_data(inputs().data).test.take(ROWS[[position]]).batch()
    if process is None:
        return batch.x, model.observe(batch.x, known_pixels(position))
    return batch.x, process.observe(batch, normalise=model.artifact.normalise, generator=torch.Generator())


def snapshot_and_numbers(folder: Path, run: str, step: int) -> tuple[ConditionalVAE, dict[str, Tensor]]:
    (place,) = (folder / "runs").glob(f"{run}-{24 * '[0-9a-f]'}")
    (numbers,) = place.glob(f"step-{step:09}-*")
    return weights.load_conditional(place / f"training/snapshots/step-{step:09}.safetensors"), load_file(numbers)


def test_image_i_has_a_hole_of_bin_i_mod_5() -> None:
    known = context().known
    assert known.shape == (12, 1, 8, 8) and known.dtype == torch.bool
    for position, hidden in enumerate((~known).float().mean(dim=(1, 2, 3)).tolist()):
        hole = HOLE_BINS[position % 5]
        assert hole.low <= hidden <= hole.high
        assert torch.equal(known[position, None], known_pixels(position))
    assert not torch.equal(known, context(seed=1).known)


@pytest.mark.parametrize("count", [5, 7, 10, 12])
def test_subsets_contain_each_bin_equally_often(count: int) -> None:
    found = context().subset(count)
    assert len(found) == len(set(found)) == count // 5 * 5 and set(found) <= set(range(12))
    assert np.bincount(found % 5).tolist() == 5 * [count // 5]


def test_subsets_are_spread_over_all_images() -> None:
    data = open_data(inputs().data)
    many = replace(data, test=replace(data.test, rows=np.zeros(100, dtype=np.int64)))
    settings = small_settings(images=100)
    found = PretrainingContext(many, inputs().data, settings, small_networks(), ALONE.device).subset(20)
    assert found.tolist() == [*range(5), *range(25, 30), *range(50, 55), *range(75, 80)]


@pytest.mark.parametrize(
    ("run", "step", "process"),
    [
        ("scratch-seed-0", 3, None),
        ("transfer-seed-1", 4, None),
        ("ipa-grey-seed-0", 1, Grey()),
        ("scratch-label-classes=10-seed-0", 2, Label(classes=10)),
    ],
)
def test_bounds_are_those_of_single_images(folder: Path, run: str, step: int, process: Process | None) -> None:
    model, numbers = snapshot_and_numbers(folder, run, step)
    assert numbers["nats"].shape == (10,)
    for i in range(10):
        found = conditional_nats(model, *seen(model, i, process), noise=[Seeds(0, "bounds")(i)])
        assert found.kl is not None
        assert float(numbers["nats"][i]) == pytest.approx(float(found.whole.native), rel=1e-5)


def test_completions_are_those_of_single_images(folder: Path) -> None:
    model, numbers = snapshot_and_numbers(folder, "ipa-seed-1", 2)
    networks, real, fake, nearest = small_networks(), [], [], []
    assert networks.inception is not None
    for i in range(12):
        made = Sampler(model)(seen(model, i, None)[1], 3, seed=0, places=[i])[0]
        real.append(networks.inception.features(levels(i)))
        fake.append(networks.inception.features(made[:1]))
        if i < SMALL["deep_images"]:
            distance = ((made.float() - levels(i)) / 127.5).square().sum(dim=(1, 2, 3))
            nearest.append(float(distance.min()))
    found = fid(torch.cat(real), torch.cat(fake), paired=True)
    assert numbers["fid"].tolist() == pytest.approx([found.mean, found.standard_error], rel=1e-3)
    discrimination = ids(torch.cat(real), torch.cat(fake))
    assert numbers["p_ids"].tolist() == pytest.approx(list(discrimination.p_ids), rel=1e-5)
    assert numbers["lpips_gt"].tolist() == pytest.approx(nearest, rel=1e-4)


def test_information_is_that_of_the_first_artifact(folder: Path) -> None:
    (path,) = (folder / "runs").glob("information-grey-*/information.safetensors")
    numbers, vae = load_file(path), weights.load_vae(inputs().artifacts["ipa"])
    for i in range(10):
        x = levels(i) / 127.5 - 1
        found = observed_information(vae, x, Grey(), noise=[Seeds(0, "bounds")(i)])
        assert float(numbers["measured"][i]) == pytest.approx(float(found.cross_entropy_nats), rel=1e-4)
        assert float(numbers["calibrated"][i]) == pytest.approx(float(found.calibrated_nats), rel=1e-4)


def test_a_label_contains_at_most_its_entropy() -> None:
    arm = Arm.with_artifact("ipa", inputs().artifacts["ipa"], small_settings())
    (most,) = context().information(arm, "label,classes=10")["most"].tolist()
    # Row i has the class i mod 10, so four classes occur twice.
    assert most == pytest.approx(math.log(12) - 4 * 2 / 12 * math.log(2))


def test_a_diverged_snapshot_is_reported(folder: Path) -> None:
    model, _ = snapshot_and_numbers(folder, "scratch-seed-0", 3)
    with torch.no_grad():
        next(model.artifact.decoder.parameters()).fill_(math.nan)
    with torch.inference_mode(), pytest.raises(ValueError, match="the bound of a snapshot is NaN or infinite: its"):
        context().bound(model, "completion")


def test_results_depend_on_the_images_the_counts_and_the_networks() -> None:
    first = context().identity
    assert context().identity == first
    assert context(seeds=9, steps=(1,)).identity == first
    changes: list[dict[str, Any]] = [{"images": 11}, {"n": 4}, {"deep_images": 6}, {"bound_images": 5}, {"seed": 1}]
    assert len({first, *(context(**change).identity for change in changes)}) == 6
