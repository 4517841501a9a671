from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from helpers.labelled_images import FINDINGS, classes_file, findings_pack

from condvae.data import open_data
from condvae.design.avp_cnn.targets import targets_of


def test_findings_and_whether_there_is_any(tmp_path: Path) -> None:
    data = open_data(findings_pack(tmp_path / "pack.zip"))
    targets = targets_of(data)
    assert targets.names == (*FINDINGS, "any finding") and targets.outcomes == 2 and targets.findings
    labels = torch.tensor([[0, 0, 0], [1, 0, 0], [1, 1, 0]], dtype=torch.uint8)
    assert targets.of(labels).tolist() == [[0, 0, 0, 0], [1, 0, 0, 1], [1, 1, 0, 1]]
    shares = targets.frequencies(data.train)
    assert data.train.labels is not None
    truth = data.train.labels[data.train.rows].astype(bool)
    assert shares[0].item() == pytest.approx((truth[:, 0].sum() + 0.5) / (len(truth) + 1))
    assert shares[3].item() == pytest.approx((truth.any(axis=1).sum() + 0.5) / (len(truth) + 1))
    assert 0 < shares[2].item() < 0.01  # nobody has it


def test_a_class_is_one_variable(tmp_path: Path) -> None:
    data = open_data(classes_file(tmp_path / "data.npz", classes=3))
    targets = targets_of(data)
    assert (targets.names, targets.outcomes, targets.findings) == (("class",), 3, False)
    assert targets.of(torch.tensor([2, 0])).tolist() == [2, 0]
    shares = targets.frequencies(data.train)
    assert shares.sum().item() == pytest.approx(1) and len(shares) == 3
    assert data.train.labels is not None
    assert shares.argmax().item() == np.bincount(data.train.labels[data.train.rows]).argmax()


def test_of_two_classes_one_is_asked_for(tmp_path: Path) -> None:
    targets = targets_of(open_data(classes_file(tmp_path / "data.npz", classes=2)))
    assert (targets.names, targets.outcomes) == (("class",), 2)
    assert targets.of(torch.tensor([1, 0])).tolist() == [[1], [0]]


def test_data_without_use_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="these npz data have no labels, from which a classifier learns"):
        targets_of(open_data(classes_file(tmp_path / "bare.npz", labelled=False)))
    with pytest.raises(ValueError, match="two or more"):
        targets_of(open_data(classes_file(tmp_path / "one.npz", classes=1)))
    far = open_data(classes_file(tmp_path / "far.npz", n=40))
    assert far.train.labels is not None
    far.train.labels[far.train.rows[0]] = 10**9
    with pytest.raises(ValueError, match="labels go up to 1,000,000,000, more than there are images"):
        targets_of(far)


@pytest.mark.parametrize(
    ("names", "words"),
    [
        (("Mass", "Nodule"), "there are 3 labels of each image and 2 names"),
        (("Mass", "mass", "Edema"), "a finding is called 'mass', which is 'Mass' again"),
        (("Mass", "Edema", "No Finding"), "'No Finding', which is what follows from the others: leave it out"),
        (("any_finding", "Edema", "Mass"), "'any_finding', which is what follows from the others"),
    ],
)
def test_names_of_findings_tell_them_apart(tmp_path: Path, names: tuple[str, ...], words: str) -> None:
    data = replace(open_data(findings_pack(tmp_path / "pack.zip", train=20, test=4)), label_names=names)
    with pytest.raises(ValueError, match=words):
        targets_of(data)
