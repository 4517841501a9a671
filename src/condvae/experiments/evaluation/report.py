"""From finished jobs to the report: the numbers of each method, all of them together, and its files."""

import functools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from torch import Tensor

from condvae.experiments.evaluation import figures, summary, tables
from condvae.experiments.evaluation.jobs import FINAL, EvaluationJob, all_final_numbers
from condvae.experiments.evaluation.measure import EvaluationContext
from condvae.experiments.reporting import Report
from condvae.metrics import HOLE_BINS
from condvae.runtime.checks import first_few
from condvae.runtime.messages import Say
from condvae.runtime.versions import device_name, versions

REPORT = Report(
    format="condvae evaluation",
    what="an evaluation",
    command="condvae evaluate",
    pictures=figures.NAMES,
    tables=tables,
    figures=figures,
    parts="parts",
)
redraw = REPORT.redraw


def claim(folder: Path) -> None:
    """Make the folder, or raise a ValueError if it holds what is not an evaluation's."""
    if (folder / "methods").is_dir():
        raise ValueError(f"{folder} is from an older condvae, which averaged bits otherwise: give another --out")
    REPORT.claim(folder)


def finish(jobs: Sequence[EvaluationJob], context: EvaluationContext, *, keep_parts: bool) -> None:
    """Make the final numbers of jobs whose units are all there; their parts then go, but for the test images' own."""
    for job in jobs:
        if not job.is_final:  # another process that was told the same may have been quicker
            job.store.check_whole(job.units)

    @functools.cache
    def truth() -> Tensor:
        (job,) = (job for job in jobs if job.kind == "truth")
        return job.store.get(job.units)[0]["features"].to(context.device)

    for job in jobs:
        if job.kind == "truth":
            continue
        try:
            if not job.is_final:
                job.finish(_summary(job, truth, context))
        except ValueError:  # parts that are gone are those of final numbers
            if not job.is_final:
                raise
        if not keep_parts:
            job.store.keep_only(FINAL)


def _summary(job: EvaluationJob, truth: Callable[[], Tensor], context: EvaluationContext) -> dict[str, Any]:
    spent: list[float] = []

    def of_bin(hole: int | None) -> dict[str, Tensor]:
        numbers, seconds = job.store.get(unit for unit in job.units if unit.hole == hole)
        spent.append(seconds)
        return numbers

    bins = (of_bin(hole) for hole in range(len(HOLE_BINS)))
    found: dict[str, Any]
    if job.kind == "wide":
        completions = (numbers["features"].to(context.device) for numbers in bins)
        found = {
            "metrics": summary.of_features(truth(), completions, seed=context.settings.seed),
            "images": len(context.problems),
            "features": truth().shape[1],
        }
    elif job.kind == "deep":
        found = {**summary.of_samples(list(bins), context.settings), "images": len(context.problems.deep)}
    elif job.kind == "elbo":
        found = summary.of_vae(of_bin(None))
    else:
        found = {**summary.of_bounds(list(bins)), "images": len(context.problems.deep)}
    return {**found, "seconds": sum(spent)}


def assemble(
    jobs: Sequence[EvaluationJob], out: Path, context: EvaluationContext, data_name: str, say: Say
) -> dict[str, Any]:
    """All that was measured in this folder in the same way: by this call, or by an earlier one."""
    problems, settings, networks = context.problems, context.settings, context.networks
    groups: dict[str, dict[str, Any]] = {"models": {}, "methods": {}}
    for final in _comparable(jobs, out, say):
        about, numbers = final["about"], final["numbers"]
        group = groups["models" if final["kind"] in ("elbo", "bounds") else "methods"]
        notes = {key: value for key, value in about.items() if key != "name"}
        found = group.setdefault(about["name"], {**notes, "metrics": {}, "seconds": {}})
        if "varies" in about:
            found["k"] = settings.n if about["varies"] else 1
        found["metrics"].update(numbers["metrics"])
        found["seconds"][final["kind"]] = round(numbers["seconds"], 3)
        found.update({key: numbers[key] for key in ("coverage", "known_pixels_put_back", "features") if key in numbers})
    return {
        "format": REPORT.format,
        "data": data_name,
        "settings": {
            "images": len(problems),
            "deep_images": len(problems.deep),
            "k": settings.n,
            "seed": settings.seed,
            "bits_images": len(problems.bits),
            "metrics": list(settings.metrics),
        },
        "bins": list(summary.COLUMNS),
        "networks": {
            "lpips": getattr(networks.lpips, "trunk", None),
            "inception": getattr(networks.inception, "precision", None),
        },
        "versions": versions(),
        "device": device_name(context.device),
        **groups,
    }


def _comparable(jobs: Sequence[EvaluationJob], out: Path, say: Say) -> list[dict[str, Any]]:
    """Final numbers that were measured as this call measures: its own in the order of its jobs, then those of others.

    What went by a name before something else did is not shown beside it: neither an older subject, nor a method that
    was made of another model, or other training images, than this call's or a later one's of the same name.
    """
    order, common = {job.folder: i for i, job in enumerate(jobs)}, {job.kind: job.common for job in jobs}
    stored = {name: one for name, one in all_final_numbers(out).items() if one["common"] == common.get(one["kind"])}
    if lost := sorted(order.keys() - stored.keys()):
        raise ValueError(f"somebody has removed {out / 'parts' / lost[0]} meanwhile: run once more")
    made_of: dict[str, str] = {}
    for job in jobs:
        made_of.update(job.about.get("made_of", {}))
        stored[job.folder]["about"] = job.about  # as it is called now
    identities = {job.name: job.identity for job in jobs}
    kept, left_out = [], set()
    for folder in sorted(stored, key=lambda folder: folder not in order):  # of others, the newest first
        about, identity = stored[folder]["about"], stored[folder]["identity"]
        of_this = about.get("made_of", {})
        if any(made_of.get(name, digest) != digest for name, digest in of_this.items()):
            left_out.add(about["name"])
        elif identities.setdefault(about["name"], identity) == identity:
            made_of.update(of_this)
            kept.append(folder)
    if names := sorted(left_out - identities.keys()):
        say(f"left out: {first_few(names)}, measured of another model or other images that went by the same name")
    return [stored[folder] for folder in sorted(kept, key=lambda folder: (order.get(folder, len(order)), folder))]


def write(result: dict[str, Any], out: Path, say: Say) -> None:
    """The report's files, and what is to be said of its numbers."""
    REPORT.write(result, out, say)
    if few := tables.too_few_for_ids(result):
        say(f"P-IDS and U-IDS are {few}")
    for name, found in {**result["models"], **result["methods"]}.items():
        numbers = found["metrics"].items()
        if lacking := [metric for metric, cells in numbers if any(cell["mean"] is None for cell in cells.values())]:
            say(f"{name}: {first_few(lacking)} came out infinite or as no number, for some image at least: shown as -")
    for name, found in result["methods"].items():
        if found.get("known_pixels_put_back"):
            say(f"{name}: known pixels were a little off in {found['known_pixels_put_back']:,} completions, put back")
