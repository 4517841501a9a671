"""The embedded model and classifier work together."""

import torch

from condvae import weights
from condvae.design import Candidates, describe_classifier, load_classifier, next_location
from condvae.design.avp_cnn.classifier_file import locate_classifier
from condvae.design.prediction_task import PredictionTask
from condvae.design.sources import check_completes, check_pair
from condvae.experiments.design import TASKS


def test_xray_chooses_where_to_scan_next() -> None:
    model, classifier = weights.load_conditional("xray"), load_classifier("xray")
    check_completes(model)
    takes = classifier.config.size, classifier.config.channels
    check_pair(model, "xray", takes, "xray")
    assert takes == (64, 1) and len(classifier.names) == 15
    tasks = [PredictionTask.of(classifier, task) for task in TASKS]
    x = torch.rand(1, 1, 64, 64, generator=torch.Generator().manual_seed(0)) * 2 - 1
    known = torch.zeros(1, 1, 64, 64, dtype=torch.bool)
    known[..., 24:40, 24:40] = True
    grid = Candidates.grid(64, side=16, points=3)
    answer = next_location(model.observe(x, known), model, classifier, grid, variable=tasks[1].variable, n=2)
    assert answer.eig.shape == (9,) and (answer.eig >= 0).all() and answer.eig.max() > 0
    assert answer.index == int(answer.eig.argmax())
    assert answer.index != 4  # the middle is known
    torch.testing.assert_close(answer.posterior.sum(), torch.tensor(1.0))
    assert answer.completions.shape == (2, 1, 64, 64)
    assert not torch.equal(answer.completions[0], answer.completions[1])


def test_xray_is_small_and_records_its_quality() -> None:
    files = (weights.locate("xray"), locate_classifier("xray"))
    assert sum(path.stat().st_size for path in files) <= 5 * 2**20
    record = describe_classifier("xray").record
    assert record["test"]["5"]["auroc"] > 0.6 and record["test"]["5"]["ece"] < 0.05
