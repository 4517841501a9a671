from pathlib import Path

import pytest
import torch
from helpers.labelled_images import classes_file, findings_pack
from helpers.models import generator, randomise

from condvae.data import open_data
from condvae.design.avp_cnn.held_out import HeldOut, patches_inside
from condvae.design.avp_cnn.network import AVPCNN, ClassifierConfig
from condvae.design.avp_cnn.targets import targets_of
from condvae.observe import Boxes, Mixture, Patches, Pixels

SCANS = Mixture(parts=((Patches(most=3, side=0.25), 0.9), (Pixels(least=1), 0.1)))


def classifier(names: tuple[str, ...], outcomes: int = 2, channels: int = 1) -> AVPCNN:
    torch.manual_seed(0)
    config = ClassifierConfig(
        size=16, channels=channels, names=names, outcomes=outcomes, trunk="plain", widths=(4, 8), blocks=1, head=0
    )
    model = AVPCNN(config)
    randomise(model, 0)
    return model.eval()


def test_patches_inside_draws_whole_squares() -> None:
    none = patches_inside(3, 16, side=0.25, count=0, generator=generator())
    assert none.shape == (3, 1, 16, 16) and not none.any()
    one = patches_inside(500, 16, side=0.25, count=1, generator=generator())
    assert (one.sum(dim=(1, 2, 3)) == 16).all()
    assert one.any(dim=0).all()  # every pixel can be covered
    five = patches_inside(500, 16, side=0.25, count=5, generator=generator()).sum(dim=(1, 2, 3))
    assert five.max() <= 5 * 16 and five.min() > 16 and (five == 80).any()


def test_views_by_number_of_patches_are_the_same_every_time(tmp_path: Path) -> None:
    data = open_data(findings_pack(tmp_path / "pack.zip"))
    targets = targets_of(data)
    model = classifier(targets.names)
    held = HeldOut(data.test, targets, SCANS, seed=0, draws=2)
    found = held.logits(model)
    assert list(found) == ["0", "1", "2", "3", "whole"]
    assert all(logits.shape == (2, 40, 4) for logits in found.values())
    again = HeldOut(data.test, targets, SCANS, seed=0, draws=2).logits(model)
    assert all(torch.equal(again[view], logits) for view, logits in found.items())
    other = HeldOut(data.test, targets, SCANS, seed=1, draws=2).logits(model)
    assert torch.equal(other["whole"], found["whole"]) and not torch.equal(other["2"], found["2"])
    assert torch.equal(found["0"], found["0"][:1, :1].expand_as(found["0"]))  # no known pixels give equal predictions
    assert not torch.equal(found["1"][0], found["1"][1])
    report = held.report(found)
    assert report["0"]["auroc"] == 0.5 and report["0"]["auroc of"]["Hernia"] is None
    assert set(report["1"]) == {"nll", "ece", "auroc", "ece of", "auroc of"}
    rounding = 1e-6 * torch.randn(found["0"].shape, generator=generator())
    assert held.report({"0": found["0"] + rounding})["0"] == report["0"]


def test_other_processes_have_one_drawn_view(tmp_path: Path) -> None:
    data = open_data(classes_file(tmp_path / "data.npz"))
    held = HeldOut(data.test, targets_of(data), Boxes(), seed=0)
    found = held.logits(classifier(("class",), 3, channels=3))
    assert list(found) == ["drawn", "whole"] and found["drawn"].shape == (1, 20, 3)
    assert set(held.report(found)["drawn"]) == {"nll", "accuracy", "ece"}


def test_known_predictions_give_known_numbers(tmp_path: Path) -> None:
    data = open_data(findings_pack(tmp_path / "pack.zip"))
    held = HeldOut(data.test, targets_of(data), SCANS, seed=0)
    truth = held.truth
    sure = {"whole": (20 * truth - 10)[None]}
    report = held.report(sure)["whole"]
    assert report["auroc"] == 1 and report["ece"] < 1e-3 and report["nll"] < 1e-3
    assert held.nll({"whole": torch.zeros(1, *truth.shape)}) == pytest.approx(torch.tensor(2.0).log().item())
    classes = open_data(classes_file(tmp_path / "data.npz"))
    of_classes = HeldOut(classes.test, targets_of(classes), SCANS, seed=0)
    right = torch.nn.functional.one_hot(of_classes.truth, 3).float()[None] * 20
    assert of_classes.report({"whole": right})["whole"]["accuracy"] == 1
    assert of_classes.nll({"whole": 0 * right}) == pytest.approx(torch.tensor(3.0).log().item())


@pytest.mark.parametrize("classes", [False, True])
def test_calibration_lowers_the_loss_and_keeps_the_order(tmp_path: Path, classes: bool) -> None:
    data = open_data(classes_file(tmp_path / "d.npz") if classes else findings_pack(tmp_path / "d.zip"))
    targets = targets_of(data)
    model = classifier(targets.names, targets.outcomes, channels=3 if classes else 1)
    held = HeldOut(data.train, targets, SCANS, seed=0)
    before = held.logits(model)
    returned = held.calibrate(model)
    after = held.logits(model)
    assert all(torch.equal(returned[view], found) for view, found in after.items())
    assert held.nll(after) < held.nll(before)
    assert torch.equal(before["2"].argsort(dim=1, stable=True), after["2"].argsort(dim=1, stable=True)) or classes
    assert torch.equal(before["2"].argmax(dim=2), after["2"].argmax(dim=2)) or not classes
    gain = model.gain.clone()
    held.calibrate(model)  # starts from the network's own logits, not from the previous calibration
    torch.testing.assert_close(model.gain, gain)
