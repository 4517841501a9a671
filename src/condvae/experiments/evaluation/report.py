"""Build the report from finished jobs: compute the final numbers of each job, merge them, and write the files."""

import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from torch import Tensor

from condvae.experiments.evaluation import figures, summary, tables
from condvae.experiments.evaluation.groups import ImageGroup, of_groups
from condvae.experiments.evaluation.jobs import FINAL, SHARED, EvaluationJob, FinalNumbers, all_final_numbers
from condvae.experiments.evaluation.measure import EvaluationContext
from condvae.experiments.reporting import Report
from condvae.experiments.resumable_work import ResultTensors
from condvae.metrics import HOLE_BINS
from condvae.runtime.checks import first_few
from condvae.runtime.folders import read_json
from condvae.runtime.messages import Say, warn_with
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
    """Create the folder, or raise a ValueError if it contains files that are not from an evaluation."""
    if (folder / "methods").is_dir():
        raise ValueError(
            f"{folder} was written by an older condvae that averaged bits differently: choose another --out"
        )
    REPORT.claim(folder)


def finish(jobs: Sequence[EvaluationJob], context: EvaluationContext, *, keep_parts: bool) -> None:
    """Compute the final numbers of jobs whose units are all done.

    Unless keep_parts is given, the results of units are then deleted, except the features of the test images and of
    their observations. Those that an earlier call has left because it was killed, or had keep_parts, are deleted too.
    """
    for job in jobs:
        if not job.is_final:  # another process with the same options may have finished it
            job.store.check_whole(job.units)

    shared = {job.kind: job for job in jobs if job.kind in SHARED}

    def observed() -> Iterator[Tensor]:
        for hole in range(len(HOLE_BINS)):
            yield shared["observed"].of_bin(hole)[0]["features"].to(context.device)

    @functools.cache
    def real() -> summary.RealFeatures:
        truth = shared["truth"].of_bin(None)[0]["features"].to(context.device)
        return summary.RealFeatures(truth, observed)

    for job in jobs:
        if job.kind in SHARED:
            continue
        try:
            if not job.is_final:
                job.finish(*_summary(job, real, context))
        except ValueError:  # another process may have made it final and deleted the parts
            if not job.is_final:
                raise
        if not keep_parts:
            job.store.keep_only(FINAL)


def _summary(
    job: EvaluationJob, real: Callable[[], summary.RealFeatures], context: EvaluationContext
) -> tuple[dict[str, Any], ResultTensors]:
    """Return the final numbers of a job, and the values of single images that they were computed from."""
    spent: list[float] = []

    def of_bin(hole: int | None) -> dict[str, Tensor]:
        numbers, seconds = job.of_bin(hole)
        spent.append(seconds)
        return numbers

    bins = (of_bin(hole) for hole in range(len(HOLE_BINS)))
    found: dict[str, Any]
    values: ResultTensors = {}
    if job.kind == "wide":
        completions = (numbers["features"].to(context.device) for numbers in bins)
        found = {
            "metrics": summary.of_features(real(), completions, seed=context.settings.seed),
            "images": len(context.problems),
            "features": real().features.shape[1],
        }
    elif job.kind == "deep":
        values = summary.sample_values(list(bins), context.settings)
        found = {**summary.of_samples(values), "images": len(context.problems.deep)}
    elif job.kind == "elbo":
        values = of_bin(None)
        found = {**summary.of_vae(values), "images": len(context.problems.bits)}
    else:
        values = summary.image_values(list(bins))
        found = {**summary.of_bounds(values), "images": len(context.problems.deep)}
    return {**found, "seconds": sum(spent)}, values


def assemble(
    jobs: Sequence[EvaluationJob],
    out: Path,
    context: EvaluationContext,
    data_name: str,
    say: Say,
    *,
    groups: Sequence[ImageGroup] = (),
) -> dict[str, Any]:
    """Merge all results in `out` that were measured with the same settings, by this call or earlier ones."""
    problems, settings, networks = context.problems, context.settings, context.networks
    measured: dict[str, dict[str, Any]] = {"models": {}, "methods": {}}
    for final in _comparable(jobs, out, say):
        about, numbers = final.about, final.numbers
        same_kind = measured["models" if final.kind in ("elbo", "bounds") else "methods"]
        notes = {key: value for key, value in about.items() if key != "name"}
        found = same_kind.setdefault(about["name"], {**notes, "metrics": {}, "seconds": {}})
        if "varies" in about:
            found["k"] = settings.n if about["varies"] else 1
        found["metrics"].update(numbers["metrics"])
        found["seconds"][final.kind] = round(numbers["seconds"], 3)
        found.update({key: numbers[key] for key in ("coverage", "known_pixels_put_back", "features") if key in numbers})
        for name, of_group in of_groups(groups, final).items():
            part = found.setdefault("groups", {}).setdefault(name, {"metrics": {}})
            part["metrics"].update(of_group["metrics"])
            part.update({key: of_group[key] for key in ("coverage",) if key in of_group})
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
        "groups": {one.name: {"patterns": list(one.patterns), **one.counts} for one in groups},
        "bins": list(summary.COLUMNS),
        "networks": {
            "lpips": getattr(networks.lpips, "trunk", None),
            "inception": getattr(networks.inception, "precision", None),
        },
        "versions": versions(),
        "device": device_name(context.device),
        **measured,
    }


def _comparable(jobs: Sequence[EvaluationJob], out: Path, say: Say) -> list[FinalNumbers]:
    """Return the final numbers in `out` that are comparable with this call: its own jobs first, then the others.

    If different methods or models have the same name, only the one of this call is kept, or else the newest one. A
    method is also left out if it used a model or training images whose name stands for another model or other images in
    this call or in newer results.
    """
    order, common = {job.folder: i for i, job in enumerate(jobs)}, {job.kind: job.common for job in jobs}
    stored = {name: one for name, one in all_final_numbers(out).items() if one.common == common.get(one.kind)}
    if lost := sorted(order.keys() - stored.keys()):
        raise ValueError(f"{out / 'parts' / lost[0]} was deleted during the run: run the same command again")
    made_of: dict[str, str] = {}
    for job in jobs:
        made_of.update(job.about.get("made_of", {}))
        stored[job.folder] = replace(stored[job.folder], about=job.about)  # with its current name
    identities = {job.name: job.identity for job in jobs}
    kept, left_out = [], set()
    for folder in sorted(stored, key=lambda folder: folder not in order):  # own jobs first, then newest first
        about, identity = stored[folder].about, stored[folder].identity
        of_this = about.get("made_of", {})
        if any(made_of.get(name, digest) != digest for name, digest in of_this.items()):
            left_out.add(about["name"])
        elif identities.setdefault(about["name"], identity) == identity:
            made_of.update(of_this)
            kept.append(folder)
    if names := sorted(left_out - identities.keys()):
        warn_with(say)(
            f"left out of the report: {first_few(names)}, measured with another model or other images of the same name"
        )
    return [stored[folder] for folder in sorted(kept, key=lambda folder: (order.get(folder, len(order)), folder))]


def _replaces_other(result: dict[str, Any], out: Path) -> bool:
    """Return whether the report in `out` was made with other settings, and has numbers that `result` does not have."""
    before = read_json(out / "results.json", format=REPORT.format)
    if before is None:
        return False
    before.setdefault("groups", {})  # older reports have none
    if all(before.get(key) == result[key] for key in ("data", "settings", "networks", "groups")):
        return False
    try:
        return not set(tables.rows(before)) <= set(tables.rows(result))
    except (AttributeError, KeyError, TypeError, ValueError):  # the file was altered
        return True


def write(result: dict[str, Any], out: Path, say: Say) -> None:
    """Write the files of the report, and print warnings about its numbers."""
    if _replaces_other(result, out):
        say(
            f"the report of an earlier call with other settings is replaced: its measurements are kept in "
            f"{out / REPORT.parts}, and the same call writes it again"
        )
    REPORT.write(result, out, say)
    if few := tables.too_few_for_ids(result):
        warn_with(say)(f"P-IDS and U-IDS are {few}")
    if few := tables.too_few_for_cfid(result):
        warn_with(say)(f"CFID is {few}")
    for name, found in {**result["models"], **result["methods"]}.items():
        numbers = found["metrics"].items()
        if lacking := [metric for metric, cells in numbers if any(cell["mean"] is None for cell in cells.values())]:
            warn_with(say)(f"{name}: {first_few(lacking)} is infinite or NaN for at least one image, and is shown as -")
    for name, found in result["methods"].items():
        if found.get("known_pixels_put_back"):
            warn_with(say)(f"{name}: known pixels were corrected in {found['known_pixels_put_back']:,} completions")
