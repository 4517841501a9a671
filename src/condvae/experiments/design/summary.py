"""Compute the numbers of the report: AUROC and NLL with intervals, differences, the cross-task matrix, calibration.

Every number is also computed on each bootstrap resample of the patients. All policies and tasks use the same resamples,
so the intervals of means over tasks and of differences between policies are paired by patient.
"""

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray

from condvae.design.avp_cnn.calibration import expected_calibration_error
from condvae.experiments.design.jobs import DesignJob, ScanResult
from condvae.experiments.design.plan import OURS, PAPER_TASKS
from condvae.experiments.design.tasks import DesignTask
from condvae.metrics.auroc import Cell, Counts, Resampled, auroc, resampled_auroc, resampled_each, resampled_mean

Results: TypeAlias = Sequence[tuple[DesignJob, ScanResult]]
Key: TypeAlias = tuple[str, str, str]
"""Names of the policy, of the task for which it chose scans, and of the task that is evaluated."""

METRICS = ("auroc", "nll")
_BINS = 15


def columns_of(steps: int) -> list[str]:
    """Return the names of columns: each number of scans from 0 to T, and "2-T" for the mean over 2 to T scans.

    Policies can adapt to the image from the second scan on.
    """
    return [*map(str, range(steps + 1)), *([f"2-{steps}"] if steps > 2 else [])]


def sets_of(tasks: Sequence[DesignTask]) -> dict[str, list[str]]:
    """Return the sets of tasks to average over: the paper's tasks, if all of them are given, and all tasks.

    Tasks without an AUROC are left out.
    """
    names = [task.name for task in tasks]
    sets = {"the paper's tasks": list(PAPER_TASKS)} if set(PAPER_TASKS) <= set(names) else {}
    if set(names) != set(PAPER_TASKS) or not sets:
        sets["all tasks"] = names
    useless = {task.name for task in tasks if task.trouble}
    kept = {title: [name for name in some if name not in useless] for title, some in sets.items()}
    return {title: some for title, some in kept.items() if some}


def summarise(
    results: Results, tasks: Sequence[DesignTask], counts: Counts, *, steps: int, locations: int
) -> dict[str, Any]:
    """Compute all numbers of the report.

    counts: [n, N], how often each of N images occurs in each of n bootstrap resamples.
    locations: the number of locations.
    """
    found = _measured(results, tasks, counts, steps)
    policies = list(dict.fromkeys(job.spec.name for job, _ in results))
    sets = sets_of(tasks)
    rows: dict[str, dict[str, dict[str, Resampled]]] = {}  # by policy, then metric, then task or set of tasks
    for policy in policies:
        own = {name: {task.name: found[policy, task.name, task.name][name] for task in tasks} for name in METRICS}
        means = {
            name: {title: Resampled.mean(own[name][t] for t in some) for title, some in sets.items()} for name in own
        }
        rows[policy] = {name: {**means[name], **own[name]} for name in METRICS}
    return {
        "columns": columns_of(steps),
        "tasks": {task.name: _about(task) for task in tasks},
        "sets": sets,
        "policies": {
            policy: _policy([one for one in results if one[0].spec.name == policy], rows[policy], tasks, locations)
            for policy in policies
        },
        "differences": _differences(rows),
        "cross_tasks": {
            policy: _cross_tasks(policy, found, tasks, steps)
            for policy in dict.fromkeys(job.spec.name for job, _ in results if job.spec.kind == "completions")
        },
    }


def _measured(
    results: Results, tasks: Sequence[DesignTask], counts: Counts, steps: int
) -> dict[Key, dict[str, Resampled]]:
    """Compute the metrics of each policy and task; for policies with completions, also with scans for other tasks."""

    def one(asked: tuple[Key, DesignTask, ScanResult]) -> tuple[Key, dict[str, Resampled]]:
        key, task, scanned = asked
        log_p = task.log_probabilities(scanned.log_p).double().numpy()  # [N, R, T + 1, 2]
        return key, {"auroc": _auroc(log_p, task, counts, steps), "nll": _nll(log_p, task, counts, steps)}

    todo: list[tuple[Key, DesignTask, ScanResult]] = []
    for job, scanned in results:
        for judged in tasks:
            for asked in tasks:
                own = asked is judged
                if job.variable in (None, asked.variable) and (own or job.spec.kind == "completions"):
                    todo.append(((job.spec.name, asked.name, judged.name), judged, scanned))
    return dict(resampled_each(one, todo))


def _auroc(log_p: NDArray[np.float64], task: DesignTask, counts: Counts, steps: int) -> Resampled:
    """Compute the AUROC of a task after each number of scans, averaged over tries."""
    if task.trouble:
        columns = len(columns_of(steps))
        return Resampled(values=np.full(columns, np.nan), resamples=np.full((len(counts), columns), np.nan))
    # Logits rank like probabilities but do not tie near 1. Predictions for equal inputs can differ in the last digits
    # by their position in a batch; rounding makes them ties again.
    logits = (log_p[..., 1] - log_p[..., 0]).round(4)
    _, tries, scans = logits.shape
    values = np.zeros(scans)
    resamples = np.zeros((len(counts), scans))
    for t in range(scans):
        for r in range(tries):
            values[t] += auroc(logits[:, r, t], task.labels) / tries
            resamples[:, t] += resampled_auroc(logits[:, r, t], task.labels, counts) / tries
    return _in_columns(values, resamples, steps)


def _nll(log_p: NDArray[np.float64], task: DesignTask, counts: Counts, steps: int) -> Resampled:
    """Compute the mean of -log g(true outcome | y), in nats per image; NaN if g gives a true outcome probability 0."""
    losses = -np.where(task.labels[:, None, None], log_p[..., 1], log_p[..., 0]).mean(axis=1)  # [N, T + 1]
    losses[~np.isfinite(losses)] = np.nan
    resamples = np.stack([resampled_mean(column, counts) for column in losses.T], axis=1)
    return _in_columns(losses.mean(axis=0), resamples, steps)


def _in_columns(values: NDArray[np.float64], resamples: NDArray[np.float64], steps: int) -> Resampled:
    """Arrange values in the columns of `columns_of`. The single value of the whole image is repeated in all columns."""
    if values.shape == (1,):
        values, resamples = np.repeat(values, steps + 1), np.repeat(resamples, steps + 1, axis=1)
    if len(columns_of(steps)) > steps + 1:
        values = np.append(values, values[2:].mean())
        resamples = np.concatenate([resamples, resamples[:, 2:].mean(axis=1, keepdims=True)], axis=1)
    return Resampled(values=values, resamples=resamples)


def _about(task: DesignTask) -> dict[str, Any]:
    """Make the report's entry for a task."""
    return {"positives": int(task.labels.sum()), "trouble": task.trouble}


def _policy(
    mine: Results, rows: Mapping[str, Mapping[str, Resampled]], tasks: Sequence[DesignTask], locations: int
) -> dict[str, Any]:
    """Make the report's entry for a policy. mine: the jobs of this policy, with their results."""
    about: dict[str, Any] = {
        "tries": mine[0][1].log_p.shape[1],
        "images_imagined": mine[0][0].spec.n or None,
        "seconds": round(sum(scanned.seconds for _, scanned in mine), 3),
    }
    for metric, found in rows.items():
        about[metric] = {name: scores.cells() for name, scores in found.items()}
    about["ece"] = {
        task.name: _calibration(task, scanned)
        for task in tasks
        for job, scanned in mine
        if job.variable in (None, task.variable)
    }
    about["where"] = {
        name: _where(scanned, locations)
        for job, scanned in mine
        for name in (["all tasks"] if job.variable is None else [t.name for t in tasks if t.variable == job.variable])
        if scanned.chosen is not None
    }
    return about


def _calibration(task: DesignTask, scanned: ScanResult) -> list[float]:
    """Compute the calibration error after each number of scans, over the predictions of all tries together."""
    p = task.log_probabilities(scanned.log_p)[..., 1].double().exp()  # [N, R, T + 1]
    labels = torch.from_numpy(task.labels)[:, None].expand(p.shape[:2]).reshape(-1)
    return [
        expected_calibration_error(p[..., t].reshape(-1).clamp(0, 1), labels, bins=_BINS, equal_mass=True)
        for t in range(p.shape[2])
    ]


def _where(scanned: ScanResult, locations: int) -> list[int]:
    """Count the scans at each location."""
    assert scanned.chosen is not None
    return torch.bincount(scanned.chosen.reshape(-1), minlength=locations).tolist()


def _differences(rows: Mapping[str, Mapping[str, Mapping[str, Resampled]]]) -> dict[str, Any]:
    """Compute the metrics of eig-ipa minus those of every other policy, by policy, metric and task."""
    if OURS not in rows:
        return {}
    return {
        other: {
            metric: {name: (scores - found[metric][name]).cells() for name, scores in rows[OURS][metric].items()}
            for metric in METRICS
        }
        for other, found in rows.items()
        if other != OURS
    }


def _cross_tasks(
    policy: str, found: Mapping[Key, Mapping[str, Resampled]], tasks: Sequence[DesignTask], steps: int
) -> dict[str, Any]:
    """Compute the AUROC of each task (row) with scans that were chosen for each task (column).

    "last" is the AUROC after all scans; "mean" is its mean over 1 to all scans.
    """
    names = [task.name for task in tasks]

    def matrix(columns: slice) -> list[list[Cell]]:
        return [[found[policy, asked, judged]["auroc"].over(columns) for asked in names] for judged in names]

    return {"tasks": names, "last": matrix(slice(steps, steps + 1)), "mean": matrix(slice(1, steps + 1))}
