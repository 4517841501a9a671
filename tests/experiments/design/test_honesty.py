"""Intervals, means and calibration errors of a report agree with independent calculations."""

from typing import Any

import numpy as np
import pytest
import torch
from helpers.design_runs import SMALL, PatchClassifier, small_data

from condvae.design.avp_cnn.calibration import expected_calibration_error
from condvae.experiments.design.jobs import DesignJob, ScanResult
from condvae.experiments.design.plan import DesignSettings
from condvae.experiments.design.summary import summarise
from condvae.experiments.design.tasks import DesignTask
from condvae.experiments.resumable_work import ResultStore
from condvae.metrics.auroc import Resampled, bootstrap, interval, resampled_mean


def test_intervals_are_over_patients_and_not_over_images(whole: dict[str, Any]) -> None:
    test = small_data().test
    levels = test.take(np.arange(len(test)))
    assert levels.labels is not None and test.members is not None
    log_p = PatchClassifier().log_posterior(levels.images / 127.5 - 1, torch.ones(len(test), 1, 8, 8, dtype=torch.bool))
    losses = -log_p[:, 0].gather(1, levels.labels[:, :1].long())[:, 0].double().numpy()
    cell = whole["policies"]["full"]["nll"]["edema"][1]
    assert cell["mean"] == pytest.approx(losses.mean(), rel=1e-5)

    def interval_over(groups: Any) -> Any:
        return pytest.approx(interval(resampled_mean(losses, bootstrap(groups, SMALL.resamples, seed=0))), rel=1e-5)

    assert (cell["low"], cell["high"]) == interval_over(test.members)
    assert (cell["low"], cell["high"]) != interval_over(np.arange(len(test)))


def test_means_over_tasks_are_means(whole: dict[str, Any]) -> None:
    some = [Resampled(values=np.array([x]), resamples=np.array([[x], [x**2]])) for x in (1.0, 2.0, 6.0)]
    mean = Resampled.mean(some)
    assert mean.values.tolist() == [3.0] and mean.resamples.tolist() == [[3.0], [41 / 3]]
    for policy in whole["policies"].values():
        for metric in ("auroc", "nll"):
            cells = policy[metric]
            for t, cell in enumerate(cells["all tasks"]):
                assert cell["mean"] == pytest.approx(np.mean([cells[task][t]["mean"] for task in SMALL.tasks]))


def test_calibration_pools_all_tries() -> None:
    n, tries, dice = 50, 3, torch.Generator().manual_seed(0)
    task = DesignTask(name="edema", variable=0, positive=1, labels=np.arange(n) % 3 == 0)
    log_p = torch.randn(n, tries, 2, 1, 2, generator=dice).log_softmax(dim=-1)
    spec = DesignSettings().spec("random")
    job = DesignJob(name="", spec=spec, variable=None, units=(), store=ResultStore(None, kind=""))  # type: ignore[arg-type]
    scanned = ScanResult(log_p=log_p, chosen=torch.zeros(n, tries, 1, dtype=torch.int64), seconds=0.0)
    found = summarise([(job, scanned)], [task], bootstrap(np.arange(n), 2), steps=1, locations=1)
    p, labels = log_p[:, :, 1, 0, 1].exp(), torch.from_numpy(task.labels)
    together = expected_calibration_error(
        torch.cat([p[:, r] for r in range(tries)]), labels.repeat(tries), equal_mass=True
    )
    assert found["policies"]["random"]["ece"]["edema"][1] == pytest.approx(together, rel=1e-6)
