"""From finished jobs to the report: numbers of each method, all of them together, the files."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

import condvae
from condvae.experiments.evaluation import figures, summary, tables
from condvae.experiments.evaluation.jobs import EvaluationJob
from condvae.experiments.evaluation.measure import EvaluationContext
from condvae.experiments.evaluation.parts import FORMAT, Finals, clear_away
from condvae.experiments.evaluation.plan import COLUMNS, MeasurementKind
from condvae.experiments.reporting import write_report
from condvae.metrics import HOLE_BINS
from condvae.runtime.checks import first_few
from condvae.runtime.messages import Say

_OF_METHODS: tuple[MeasurementKind, ...] = ("deep", "wide")
_OF_MODELS: tuple[MeasurementKind, ...] = ("elbo", "bounds")


def finish(jobs: Sequence[EvaluationJob], finals: Finals, measurement: EvaluationContext, *, keep_parts: bool) -> None:
    """Make the final numbers of jobs whose units are all there; their parts then go, but for the test images' own."""
    for job in jobs:
        try:
            job.shelf.check_whole(job.units)
        except ValueError:  # parts that are gone are those of final numbers
            if not _is_final(job, finals):
                raise
    truth = next((job for job in jobs if job.kind == "truth"), None)
    real: list[torch.Tensor] = []
    for job in jobs:
        if job.kind == "truth":
            continue
        if job.kind == "wide" and not real:
            assert truth is not None
            real = [truth.shelf.get(truth.units)[0]["features"].to(measurement.device)]
        # Another process that was told the same may have been quicker: its numbers are these, and the parts go.
        try:
            found = None if _is_final(job, finals) else _summary(job, real, measurement)
        except ValueError:
            if not _is_final(job, finals):
                raise
            found = None
        if found is not None:
            section = {"fingerprint": job.fingerprint, "common": job.common, **found}
            finals.write(job.slug, job.about, job.kind, section, identity=job.identity)
        if not keep_parts:
            job.shelf.remove()


def _is_final(job: EvaluationJob, finals: Finals) -> bool:
    return job.kind != "truth" and finals.section(job.slug, job.kind, job.fingerprint) is not None


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
    jobs: Sequence[EvaluationJob], finals: Finals, measurement: EvaluationContext, *, data: str, say: Say
) -> dict[str, Any]:
    """All that was measured in this folder in the same way: by this call, or by an earlier one."""
    problems, settings, networks = measurement.problems, measurement.settings, measurement.networks
    by_kind = {job.kind: job.common for job in jobs}
    if lost := [job for job in jobs if not _is_final(job, finals)]:
        raise ValueError(
            f"another process has replaced the numbers of {lost[0].name} in {finals.folder}: run once more"
        )
    methods: dict[str, Any] = {}
    models: dict[str, Any] = {}
    comparable = _comparable(jobs, finals, by_kind)
    others = _of_other_subjects(jobs, finals, comparable)
    if others:
        names = [comparable[slug]["name"] for slug in others]
        say(f"left out: {first_few(names)}, measured of another model or other images that went by the same name")
    for slug, stored in comparable.items():
        if slug in others:
            continue
        for group, kinds in ((methods, _OF_METHODS), (models, _OF_MODELS)):
            if sections := {kind: stored[kind] for kind in kinds if kind in stored}:
                group[stored["name"]] = _joined(stored, sections, k=settings.k)
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
        "models": models,
        "methods": methods,
    }


def _comparable(
    jobs: Sequence[EvaluationJob], finals: Finals, commons: Mapping[MeasurementKind, str]
) -> dict[str, dict[str, Any]]:
    """What is stored, without the kinds that were measured otherwise: of this call first."""
    found = {}
    for slug in dict.fromkeys([*(job.slug for job in jobs), *finals.slugs()]):
        stored = finals.read(slug)
        kinds = [kind for kind in (*_OF_METHODS, *_OF_MODELS) if kind in stored]
        otherwise = [kind for kind in kinds if stored[kind]["common"] != commons.get(kind)]
        if len(otherwise) < len(kinds):
            found[slug] = {key: value for key, value in stored.items() if key not in otherwise}
    return found


def _of_other_subjects(
    jobs: Sequence[EvaluationJob], finals: Finals, stored: Mapping[str, dict[str, Any]]
) -> list[str]:
    """Those made of another model, or other training images, than this call's or a later one's of the same name."""
    current: dict[str, str] = {}
    for job in jobs:
        current.update(job.about.get("made_of", {}))
    left_out = []
    for slug in finals.newest_first(stored):
        made_of = stored[slug].get("made_of", {})
        if any(current.get(name, digest) != digest for name, digest in made_of.items()):
            left_out.append(slug)
        else:
            current.update(made_of)
    return sorted(left_out)


def _joined(stored: dict[str, Any], sections: dict[MeasurementKind, dict[str, Any]], *, k: int) -> dict[str, Any]:
    """A method's notes, and the numbers of all kinds side by side."""
    about = {key: value for key, value in stored.items() if key not in ("format", "name", *_OF_METHODS, *_OF_MODELS)}
    found: dict[str, Any] = {**about, "metrics": {}, "seconds": {}}
    if "varies" in about:
        found["k"] = k if about["varies"] else 1
    for kind, section in sections.items():
        found["metrics"].update(section["metrics"])
        found["seconds"][kind] = round(section["seconds"], 3)
        for key in ("coverage", "known_pixels_put_back", "features"):
            if key in section:
                found[key] = section[key]
    return found


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
