from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from helpers.labelled_images import FINDINGS, classes_file, findings_pack

from condvae.data import open_data
from condvae.design.avp_cnn.targets import targets_of


def test_findings_and_any_finding(tmp_path: Path) -> None:
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
    assert 0 < shares[2].item() < 0.01  # no image has it


def test_a_class_is_one_variable(tmp_path: Path) -> None:
    data = open_data(classes_file(tmp_path / "data.npz", classes=3))
    targets = targets_of(data)
    assert (targets.names, targets.outcomes, targets.findings) == (("class",), 3, False)
    assert targets.of(torch.tensor([2, 0])).tolist() == [2, 0]
    shares = targets.frequencies(data.train)
    assert shares.sum().item() == pytest.approx(1) and len(shares) == 3
    assert data.train.labels is not None
    assert shares.argmax().item() == np.bincount(data.train.labels[data.train.rows]).argmax()


def test_two_classes_are_one_yes_or_no_variable(tmp_path: Path) -> None:
    targets = targets_of(open_data(classes_file(tmp_path / "data.npz", classes=2)))
    assert (targets.names, targets.outcomes) == (("class",), 2)
    assert targets.of(torch.tensor([1, 0])).tolist() == [[1], [0]]


def test_unusable_labels_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="the npz data has no labels, which a classifier needs"):
        targets_of(open_data(classes_file(tmp_path / "bare.npz", labelled=False)))
    with pytest.raises(ValueError, match="at least two classes"):
        targets_of(open_data(classes_file(tmp_path / "one.npz", classes=1)))
    far = open_data(classes_file(tmp_path / "far.npz", n=40))
    assert far.train.labels is not None
    far.train.labels[far.train.rows[0]] = 10**9
    with pytest.raises(ValueError, match="the largest label is 1,000,000,000, more than the number of images"):
        targets_of(far)


@pytest.mark.parametrize(
    ("names", "words"),
    [
        (("Mass", "Nodule"), "each image has 3 labels but there are 2 names"),
        (("Mass", "mass", "Edema"), "a finding is called 'mass', which repeats 'Mass'"),
        (
            ("Mass", "Edema", "No Finding"),
            "'No Finding', which is derived from the other findings: remove or rename it",
        ),
        (("any_finding", "Edema", "Mass"), "'any_finding', which is derived from the other findings"),
    ],
)
def test_names_of_findings_must_be_distinct(tmp_path: Path, names: tuple[str, ...], words: str) -> None:
    data = replace(open_data(findings_pack(tmp_path / "pack.zip", train=20, test=4)), label_names=names)
    with pytest.raises(ValueError, match=words):
        targets_of(data)
