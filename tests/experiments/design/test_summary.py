from typing import Any

import numpy as np
import pytest
import torch

from condvae.experiments.design.jobs import DesignJob, ScanResult
from condvae.experiments.design.plan import DesignSettings
from condvae.experiments.design.summary import columns_of, sets_of, summarise
from condvae.experiments.design.tasks import DesignTask
from condvae.experiments.resumable_work import ResultStore
from condvae.metrics.auroc import auroc, bootstrap, interval

N, STEPS = 60, 3
PATIENTS = np.arange(N) // 2


def task(name: str, variable: int, *, positive: int = 1, rate: float = 0.3) -> DesignTask:
    dice = np.random.default_rng(variable)
    return DesignTask(name=name, variable=variable, positive=positive, labels=dice.random(N) < rate)


def job(policy: str, variable: int | None) -> DesignJob:
    spec = DesignSettings(policies=(policy,)).spec(policy)
    return DesignJob(name=policy, spec=spec, variable=variable, units=(), store=ResultStore(None, kind=""))  # type: ignore[arg-type]


def scanned(tasks: list[DesignTask], *, tries: int = 1, skill: float = 1.0, seed: int = 0) -> ScanResult:
    """Predictions that improve with every scan; without scans they are constant."""
    dice = torch.Generator().manual_seed(seed)
    logits = torch.zeros(N, tries, STEPS + 1, len(tasks))
    for one in tasks:
        sign = torch.from_numpy(one.labels).float()[:, None, None] * 2 - 1
        noise = torch.randn(N, tries, STEPS + 1, generator=dice)
        logits[..., one.variable] = (skill * sign + noise) * torch.arange(STEPS + 1) * (1 if one.positive else -1)
    log_p = torch.stack((-logits, logits), dim=-1).log_softmax(dim=-1)
    return ScanResult(log_p=log_p, chosen=torch.zeros(N, tries, STEPS, dtype=torch.int64), seconds=1.0)


TASKS = [task("edema", 0), task("no finding", 1, positive=0)]


def summary(*results: tuple[DesignJob, ScanResult]) -> dict[str, Any]:
    return summarise(results, TASKS, bootstrap(PATIENTS, 200, seed=3), steps=STEPS, locations=4)


def test_columns() -> None:
    assert columns_of(5) == ["0", "1", "2", "3", "4", "5", "2-5"]
    assert columns_of(2) == ["0", "1", "2"]


def test_intervals_are_those_of_resampled_patients() -> None:
    ours = [(job("eig-ipa", v), scanned(TASKS, seed=v)) for v in (0, 1)]
    theirs = (job("random", None), scanned(TASKS, skill=0.5, seed=9, tries=2))
    found = summary(*ours, theirs)
    counts = bootstrap(PATIENTS, 200, seed=3)

    def by_hand(which: ScanResult, one: DesignTask, resample: np.ndarray | None) -> float:
        rows = np.arange(N) if resample is None else np.repeat(np.arange(N), resample)
        p = one.log_probabilities(which.log_p)[..., 1].exp().numpy()
        return float(np.mean([auroc(p[rows, r, 2], one.labels[rows]) for r in range(p.shape[1])]))

    def mean_difference(resample: np.ndarray | None) -> float:
        mine = [by_hand(scans, one, resample) for (_, scans), one in zip(ours, TASKS, strict=True)]
        return float(np.mean(mine) - np.mean([by_hand(theirs[1], one, resample) for one in TASKS]))

    expected = interval([mean_difference(resample) for resample in counts])
    cell = found["differences"]["random"]["auroc"]["all tasks"][2]
    assert cell["mean"] == pytest.approx(mean_difference(None))
    assert (cell["low"], cell["high"]) == pytest.approx(expected)
    assert found["policies"]["eig-ipa"]["auroc"]["edema"][0] == {"mean": 0.5, "low": 0.5, "high": 0.5}


def test_the_last_column_is_the_mean_from_two_scans_on() -> None:
    found = summary((job("random", None), scanned(TASKS)))["policies"]["random"]
    for metric in ("auroc", "nll"):
        cells = found[metric]["edema"]
        assert len(cells) == 5
        assert cells[4]["mean"] == pytest.approx((cells[2]["mean"] + cells[3]["mean"]) / 2)


def test_the_whole_image_is_the_same_after_any_number_of_scans() -> None:
    oracle = scanned(TASKS, skill=3.0)
    oracle = ScanResult(log_p=oracle.log_p[:, :, 2:3], chosen=None, seconds=0.0)
    found = summary((job("full", None), oracle))["policies"]["full"]
    assert len(found["auroc"]["edema"]) == 5 and len({str(cell) for cell in found["auroc"]["edema"]}) == 1
    assert len(found["ece"]["edema"]) == 1 and not found["where"]


def test_cross_tasks_evaluate_rows_with_scans_for_columns() -> None:
    results = [(job("epe-nearest", v), scanned(TASKS, skill=0.5 + v, seed=v)) for v in (0, 1)]
    matrix = summary(*results)["cross_tasks"]["epe-nearest"]
    for i, judged in enumerate(TASKS):
        for j, (_, scans) in enumerate(results):
            p = judged.log_probabilities(scans.log_p)[..., 1].double().numpy()
            assert matrix["last"][i][j]["mean"] == pytest.approx(auroc(p[:, 0, 3], judged.labels))
            means = [auroc(p[:, 0, t], judged.labels) for t in (1, 2, 3)]
            assert matrix["mean"][i][j]["mean"] == pytest.approx(np.mean(means))


def test_means_are_over_the_papers_tasks_and_over_all() -> None:
    names = ("edema", "effusion", "infiltration", "no finding", "atelectasis")
    tasks = [task(name, v) for v, name in enumerate(names)]
    assert sets_of(tasks) == {"the paper's tasks": list(names[:4]), "all tasks": list(names)}
    assert list(sets_of(tasks[:4])) == ["the paper's tasks"]
    assert sets_of(tasks[1:]) == {"all tasks": list(names[1:])}
    nobody = task("effusion", 1, rate=0.0)
    assert sets_of([tasks[0], nobody, *tasks[2:]])["the paper's tasks"] == ["edema", "infiltration", "no finding"]


def test_an_impossible_true_outcome_has_no_likelihood() -> None:
    scans = scanned(TASKS)
    row = int(np.flatnonzero(TASKS[0].labels)[0])
    scans.log_p[row, 0, 3, 0] = torch.tensor([0.0, -torch.inf])
    found = summary((job("random", None), scans))["policies"]["random"]
    assert found["nll"]["edema"][3] == {"mean": None, "low": None, "high": None}
    assert found["nll"]["edema"][2]["mean"] > 0 and found["auroc"]["edema"][3]["mean"] < 1


def test_an_overconfident_g_is_badly_calibrated() -> None:
    right, wrong = scanned(TASKS, skill=100.0), scanned(TASKS, skill=-100.0)
    found = summary((job("random", None), right), (job("eig-ipa", 0), wrong), (job("eig-ipa", 1), wrong))
    assert found["policies"]["random"]["ece"]["edema"][3] == pytest.approx(0.0, abs=1e-6)
    assert found["policies"]["eig-ipa"]["ece"]["edema"][3] > 0.9
