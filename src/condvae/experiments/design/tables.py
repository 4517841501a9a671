"""The report as tables: CSV with one number per row for programs, and Markdown for people."""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, TypeAlias

from condvae.experiments.design.plan import FULL, OURS
from condvae.experiments.reporting import cell_text, section
from condvae.runtime.formats import csv_text

DesignRow: TypeAlias = tuple[str, str, str, str, float | None, float | None, float | None]

_signed = partial(cell_text, signed=True)
TITLES = {"auroc": "AUROC (higher is better)", "nll": "Negative log-likelihood in nats per image (lower is better)"}


def rows(result: Mapping[str, Any]) -> Iterator[DesignRow]:
    """Yield each number as (policy, metric, task, scans, mean, low, high); low and high are its 95 % interval."""
    columns = result["columns"]
    for policy, found in result["policies"].items():
        for metric in ("auroc", "nll"):
            yield from _rows(policy, metric, found[metric], columns)
        for task, errors in found["ece"].items():
            for scans, error in zip(columns, errors, strict=False):
                yield policy, "ece", task, FULL if policy == FULL else scans, error, None, None
    for policy, metrics in result["differences"].items():
        for metric, found in metrics.items():
            yield from _rows(f"{OURS} - {policy}", metric, found, columns)
    for policy, found in result["cross_tasks"].items():
        for which, scans in (("last", columns_last(result)), ("mean", f"1-{columns_last(result)}")):
            for judged, line in zip(found["tasks"], found[which], strict=True):
                for asked, cell in zip(found["tasks"], line, strict=True):
                    yield f"{policy} for {asked}", "auroc", judged, scans, cell["mean"], cell["low"], cell["high"]


def _rows(policy: str, metric: str, found: Mapping[str, Any], columns: Sequence[str]) -> Iterator[DesignRow]:
    for task, cells in found.items():
        for scans, cell in zip(columns, cells, strict=True):
            yield policy, metric, task, scans, cell["mean"], cell["low"], cell["high"]


def columns_last(result: Mapping[str, Any]) -> str:
    """Return the name of the column with the numbers after the last scan."""
    return str(result["settings"]["steps"])


def as_csv(result: Mapping[str, Any]) -> str:
    """Return the report as CSV with one number per row. Missing numbers are empty."""
    return csv_text(("policy", "metric", "task", "scans", "mean", "low", "high"), rows(result))


def as_markdown(result: Mapping[str, Any]) -> str:
    """Return the report as Markdown tables."""
    settings, versions = result["settings"], result["versions"]
    positives = ", ".join(f"{name} {found['positives']:,}" for name, found in result["tasks"].items())
    lines = [
        "# Comparison of scan policies",
        "",
        f"{result['images']:,} test images of {_patients(result)}{result['data']}; positives: "
        f"{positives}. Each scan shows {settings['side_pixels']} x {settings['side_pixels']} of "
        f"{settings['size_pixels']} x {settings['size_pixels']} pixels at one of {settings['points']} x "
        f"{settings['points']} locations. Policies with completions choose the first scan with "
        f"{settings['first_n']:,} training images and later scans with {settings['n']} completions per image. Brackets "
        f"contain 95 % intervals over {settings['resamples']:,} resamples of {_resampled(result)}. "
        f"{_tries(result)} Seed {settings['seed']}; condvae {versions['condvae']}, torch "
        f"{versions['torch']}, {result['device']}.",
        "",
    ]
    notes = [found["trouble"] for found in result["tasks"].values() if found["trouble"]]
    if shared := result["patients_also_in_training"]:
        notes.append(
            f"{shared:,} of the test patients also have training images, which makes every result look too good"
        )
    lines += [line for note in notes for line in (f"{note}.", "")]
    for title, members in result["sets"].items():
        lines += _by_policy(result, "auroc", title, f"mean over {', '.join(members)}")
    for other in ("auroc", "nll"):
        lines += _differences(result, other)
    for task in result["tasks"]:
        lines += _by_policy(result, "auroc", task, task)
    for name in (*result["sets"], *result["tasks"]):
        lines += _by_policy(result, "nll", name, name)
    lines += _cross_tasks(result)
    lines += _calibration(result)
    return "\n".join(lines).rstrip() + "\n"


def _patients(result: Mapping[str, Any]) -> str:
    return "" if result["patients"] is None else f"{result['patients']:,} patients of "


def _resampled(result: Mapping[str, Any]) -> str:
    if result["patients"] is not None:
        return "the patients"
    return "the single images, because the data does not name patients"


def _tries(result: Mapping[str, Any]) -> str:
    repeated = [name for name, found in result["policies"].items() if found["tries"] > 1]
    if not repeated:
        return ""
    return f"Averaged over {result['settings']['repeats']} tries with new random draws: {', '.join(repeated)}."


def _by_policy(result: Mapping[str, Any], metric: str, name: str, title: str) -> list[str]:
    body = [[policy, *map(cell_text, found[metric][name])] for policy, found in result["policies"].items()]
    return section(f"{TITLES[metric]}: {title}", ["scans", *result["columns"]], body)


def _differences(result: Mapping[str, Any], metric: str) -> list[str]:
    lines = []
    for title in result["sets"] if result["differences"] else ():
        body = [[policy, *map(_signed, found[metric][title])] for policy, found in result["differences"].items()]
        about = f"{TITLES[metric]}: {OURS} minus every other policy, mean over {title}"
        lines += section(about, ["scans", *result["columns"]], body)
    return lines


def _cross_tasks(result: Mapping[str, Any]) -> list[str]:
    lines = []
    for policy, found in result["cross_tasks"].items():
        for which, scans in (
            ("last", f"after {columns_last(result)} scans"),
            ("mean", f"averaged over 1 to {columns_last(result)} scans"),
        ):
            body = [[task, *map(cell_text, line)] for task, line in zip(found["tasks"], found[which], strict=True)]
            about = f"AUROC of the row's task {scans} that {policy} chose for the column's task"
            lines += section(about, ["", *found["tasks"]], body)
    return lines


def _calibration(result: Mapping[str, Any]) -> list[str]:
    """Return the table of expected calibration errors, averaged over tasks."""
    body = []
    for policy, found in result["policies"].items():
        each = zip(*found["ece"].values(), strict=True)
        means = [sum(errors) / len(errors) for errors in each]
        steps = result["settings"]["steps"]
        means = means * (steps + 1) if policy == FULL else means
        body.append([policy, *(f"{value:.4f}" for value in means)])
    head = ["scans", *result["columns"][: result["settings"]["steps"] + 1]]
    return section("Expected calibration error of g, averaged over tasks (lower is better)", head, body)
