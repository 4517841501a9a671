"""Write the tables of the report as CSV, with one row per number, and as Markdown for reading."""

from collections.abc import Iterator, Mapping
from typing import Any

from condvae.experiments.pretraining.plan import COMPLETION, SCRATCH, condition_of, metrics_for, targets_for
from condvae.experiments.reporting import section
from condvae.runtime.formats import csv_text
from condvae.runtime.messages import counted


def rows(result: Mapping[str, Any]) -> Iterator[tuple[str, int, float, float, str, int, float]]:
    """Yield (arm, steps, minutes, minutes with pretraining, metric, seed, value) for every measured number."""
    metrics, targets = metrics_for(condition_of(result)), targets_for(condition_of(result))
    for name, arm in result["arms"].items():
        for point in arm["points"]:
            for metric in metrics:
                for seed, value in enumerate(point[metric]["values"]):
                    yield name, *_time(point), metric, seed, value
        for target, title in targets.items():
            for seed, value in enumerate(arm["held_out"][target]["values"]):
                yield name, *_time(arm["points"][-1]), f"-ELBO in nats, held-out images, {title}", seed, value
    for condition, found in result["conditions"].items():
        for name, points in found["arms"].items():
            for point in points:
                yield name, *_time(point), f"-ELBO in nats, {condition}", 0, point["nats"]["mean"]


def _time(point: Mapping[str, Any]) -> tuple[int, float, float]:
    return point["steps"], point["minutes"], point["total_minutes"]


def as_csv(result: Mapping[str, Any]) -> str:
    return csv_text(("arm", "steps", "minutes", "minutes with pretraining", "metric", "seed", "value"), rows(result))


def as_markdown(result: Mapping[str, Any]) -> str:
    settings, versions, condition = result["settings"], result["versions"], condition_of(result)
    metrics, targets = metrics_for(condition), targets_for(condition)
    sets, answers = ("FID and P-IDS", "completions") if condition == COMPLETION else ("FID and KID", "answers")
    lines = [
        "# Does pretraining pay?",
        "",
        f"Data: {result['data']}. Condition: {condition}. Every arm is trained {settings['seeds']} times; the numbers "
        "are means and, after ±, standard deviations over these trainings. Minutes are numbers of steps times the time "
        f"of a step in a short training of the arm. {sets} use {settings['images']:,} test images, LPIPS "
        f"{settings['deep_images']:,} with {settings['n']} {answers} each, -ELBO {settings['bound_images']:,}. "
        f"condvae {versions['condvae']}, torch {versions['torch']}, {result['device']}.",
        "",
    ]
    head = ["steps", "minutes", "with pretraining", *(metric.title for metric in metrics.values())]
    for name, arm in result["arms"].items():
        title = (
            "from scratch"
            if name == SCRATCH
            else f"{name}, artifact pretrained for {arm['pretraining_minutes']:.1f} min"
        )
        lines += section(title, head, [point_cells(point, condition) for point in arm["points"]])
    held_out = [
        [name, *(seeds_text(arm["held_out"][target], 1) for target in targets)] for name, arm in result["arms"].items()
    ]
    lines += section("Held-out images after the last step: -ELBO in nats", ["arm", *targets.values()], held_out)
    if result["conditions"]:
        lines += section("Other conditions: -ELBO in nats per image", CONDITION_HEAD, condition_rows(result))
    return "\n".join(lines).rstrip() + "\n"


def point_cells(point: Mapping[str, Any], condition: str) -> list[str]:
    """Return the cells of one snapshot of an arm: steps, minutes, and each metric over seeds."""
    found = [seeds_text(point[name], metric.digits) for name, metric in metrics_for(condition).items()]
    return [f"{point['steps']:,}", f"{point['minutes']:.2f}", f"{point['total_minutes']:.2f}", *found]


def seeds_text(found: Mapping[str, Any], digits: int) -> str:
    spread = "" if found["std"] is None else f" ±{found['std']:.{digits}f}"
    return f"{found['mean']:.{digits}f}{spread}"


CONDITION_HEAD = ["condition", "IPA", "from scratch", "IPA - scratch", "I*, measured", "I*, calibrated"]


def condition_rows(result: Mapping[str, Any]) -> list[list[str]]:
    """Return one row for each other condition: both bounds after the last step, their difference, and I*."""
    body = []
    for condition, found in result["conditions"].items():
        scratch, ipa = (points[-1]["nats"] for points in found["arms"].values())
        information = found["information_nats"]
        if "most" in information:
            left = [f"at most {information['most']['mean']:.2f}", ""]
        else:
            left = [f"{information[name]['mean']:.1f}" for name in ("measured", "calibrated")]
        difference = found["ipa_minus_scratch_nats"]
        body.append(
            [
                condition,
                f"{ipa['mean']:,.1f}",
                f"{scratch['mean']:,.1f}",
                f"{difference['mean']:+.1f} ±{difference['standard_error']:.1f}",
                *left,
            ]
        )
    return body


def summary_line(result: Mapping[str, Any]) -> str:
    """Return one line with the last FID of each arm, for the console."""
    last = (f"{name} {seeds_text(arm['points'][-1]['fid'], 2)}" for name, arm in result["arms"].items())
    return f"FID at the end, over {counted(result['settings']['seeds'], 'seed')}: {', '.join(last)}"
