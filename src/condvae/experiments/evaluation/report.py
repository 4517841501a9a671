"""From finished jobs to the report: numbers of each method, all of them together, the files."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

import condvae
from condvae.experiments.evaluation import figures, summary, tables
from condvae.experiments.evaluation.jobs import EvaluationJob
from condvae.experiments.evaluation.measure import EvaluationContext
from condvae.experiments.evaluation.parts import FINAL, FORMAT, clear_away, finals
from condvae.experiments.evaluation.plan import COLUMNS, MeasurementKind
from condvae.experiments.reporting import write_report
from condvae.metrics import HOLE_BINS
from condvae.runtime.checks import first_few
from condvae.runtime.messages import Say

_OF_MODELS: tuple[MeasurementKind, ...] = ("elbo", "bounds")


def finish(jobs: Sequence[EvaluationJob], measurement: EvaluationContext, *, keep_parts: bool) -> None:
    """Make the final numbers of jobs whose units are all there; their parts then go, but for the test images' own."""
    for job in jobs:
        if not job.is_final:  # another process that was told the same may have been quicker
            job.shelf.check_whole(job.units)
    truth = next((job for job in jobs if job.kind == "truth"), None)
    real: list[torch.Tensor] = []
    for job in jobs:
        if job.kind == "truth":
            continue
        if job.kind == "wide" and not real:
            assert truth is not None
            real = [truth.shelf.get(truth.units)[0]["features"].to(measurement.device)]
        try:
            if not job.is_final:
                numbers = _summary(job, real, measurement)
                notes = {**job.notes, "numbers": numbers}
                job.shelf.put(FINAL, {}, seconds=numbers["seconds"], notes=notes)
        except ValueError:  # parts that are gone are those of final numbers
            if not job.is_final:
                raise
        if not keep_parts:
            job.shelf.keep_only(FINAL)


def _summary(job: EvaluationJob, real: list[torch.Tensor], measurement: EvaluationContext) -> dict[str, Any]:
    spent: list[float] = []

    def of_bin(hole: int | None) -> dict[str, torch.Tensor]:
        numbers, seconds = job.shelf.get(unit for unit in job.units if unit.hole == hole)
        spent.append(seconds)
        return numbers

    holes = range(len(HOLE_BINS))
    if job.kind == "wide":
        fakes = (of_bin(hole)["features"].to(measurement.device) for hole in holes)
        found: dict[str, Any] = {
            "metrics": summary.of_features(real[0], fakes, seed=measurement.settings.seed),
            "images": len(measurement.problems),
            "features": real[0].shape[1],
        }
    elif job.kind == "deep":
        found = summary.of_samples([of_bin(hole) for hole in holes], measurement.settings)
        found["images"] = len(measurement.problems.deep)
    elif job.kind == "elbo":
        found = summary.of_vae(of_bin(None))
    else:
        found = summary.of_bounds([of_bin(hole) for hole in holes])
        found["images"] = len(measurement.problems.deep)
    return {**found, "seconds": sum(spent)}


def assemble(
    jobs: Sequence[EvaluationJob], out: Path, measurement: EvaluationContext, *, data: str, say: Say
) -> dict[str, Any]:
    """All that was measured in this folder in the same way: by this call, or by an earlier one."""
    problems, settings, networks = measurement.problems, measurement.settings, measurement.networks
    groups: dict[str, dict[str, Any]] = {"models": {}, "methods": {}}
    for final in _comparable(jobs, out, say):
        about, numbers = final["about"], final["numbers"]
        group = groups["models" if final["kind"] in _OF_MODELS else "methods"]
        notes = {key: value for key, value in about.items() if key != "name"}
        found = group.setdefault(about["name"], {**notes, "metrics": {}, "seconds": {}})
        if "varies" in about:
            found["k"] = settings.k if about["varies"] else 1
        found["metrics"].update(numbers["metrics"])
        found["seconds"][final["kind"]] = round(numbers["seconds"], 3)
        found.update({key: numbers[key] for key in ("coverage", "known_pixels_put_back", "features") if key in numbers})
    return {
        "format": FORMAT,
        "data": data,
        "settings": {
            "images": len(problems),
            "deep_images": len(problems.deep),
            "k": settings.k,
            "seed": settings.seed,
            "bits_images": len(problems.bits),
            "metrics": list(settings.metrics),
        },
        "bins": list(COLUMNS),
        "networks": {
            "lpips": getattr(networks.lpips, "trunk", None),
            "inception": getattr(networks.inception, "precision", None),
        },
        "versions": {"condvae": condvae.__version__, "torch": torch.__version__, "numpy": np.__version__},
        "device": _device(measurement.device),
        **groups,
    }


def _comparable(jobs: Sequence[EvaluationJob], out: Path, say: Say) -> list[dict[str, Any]]:
    """Final numbers that were measured as this call measures: its own in the order of its jobs, then those of others.

    What went by a name before something else did is not shown beside it: neither an older subject, nor a method that
    was made of another model, or other training images, than this call's or a later one's of the same name.
    """
    order, commons = {job.shelf.folder.name: i for i, job in enumerate(jobs)}, {job.kind: job.common for job in jobs}
    stored = {name: one for name, one in finals(out).items() if one["common"] == commons.get(one["kind"])}
    if lost := sorted(order.keys() - stored.keys()):
        raise ValueError(f"somebody has removed {out / 'parts' / lost[0]} meanwhile: run once more")
    made_of: dict[str, str] = {}
    for job in jobs:
        made_of.update(job.about.get("made_of", {}))
        stored[job.shelf.folder.name]["about"] = job.about  # as it is called now
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


def _device(device: torch.device) -> str:
    return torch.cuda.get_device_name(device) if device.type == "cuda" else device.type


def write(result: dict[str, Any], out: Path, say: Say) -> None:
    """The report's files, and what is to be said of its numbers."""
    clear_away(out)
    write_report(
        result, out, csv=tables.as_csv(result), markdown=tables.as_markdown(result), draw=figures.draw, say=say
    )
    if few := tables.too_few_for_ids(result):
        say(f"P-IDS and U-IDS are {few}")
    for name, found in {**result["models"], **result["methods"]}.items():
        numbers = found["metrics"].items()
        if lacking := [metric for metric, cells in numbers if any(cell["mean"] is None for cell in cells.values())]:
            say(f"{name}: {first_few(lacking)} came out infinite or as no number, for some image at least: shown as -")
    for name, found in result["methods"].items():
        if found.get("known_pixels_put_back"):
            say(f"{name}: known pixels were a little off in {found['known_pixels_put_back']:,} completions, put back")
