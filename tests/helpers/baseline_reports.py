"""A made-up comparison of IPA and baselines for tests, in the formats of recipes/baselines.py and baselines_speed.py.

Its methods are those of a published evaluation under other names, with their numbers scaled.
"""

import copy
import json
from typing import Any

from helpers.fixtures import ROOT

SCALES = {"ipa, t 1": 1.0, "ce": 1.6, "anp": 1.4, "pic": 1.2, "rfr": 2.0}
"""By which factor each trained method is worse than IPA."""
LATER = {"comodgan": 1.1, "comodgan-long": 1.05, "vqvae": 1.5, "diffusion": 0.9, "diffusion-long": 0.8}
"""The same for the methods that the first comparison did not have."""
SINGLE = ("ce", "rfr")
"""The methods that do not vary."""
NEW_METRICS = ("cfid", "crps_pixels", "crps_lpips")
"""Metrics that the first comparison did not have."""
_RISING = ("p_ids", "u_ids", "lpips_diversity", "fwv", "psnr", "ssim", "sharpness")
"""The beginnings of the names of metrics that are higher for better methods."""


def report(*, later: bool = False) -> dict[str, Any]:
    """Return a comparison in which IPA is the best, and then PIC, ANP, CE and RFR, by every metric.

    later: add the methods of `LATER`, and `NEW_METRICS` for all methods.
    """
    result: dict[str, Any] = json.loads((ROOT / "docs/results/evaluation/cifar10.json").read_text())
    methods = result["methods"]
    model, single = methods["cifar10, t 1"], methods["harmonic fill"]
    model["metrics"]["sharpness"] = _cells(model["metrics"]["fid"], 0.8)
    single["metrics"]["sharpness"] = _cells(model["metrics"]["fid"], 0.7)
    if later:
        for found in methods.values():
            found["metrics"] |= {name: _cells(model["metrics"]["fid"], 3.0) for name in NEW_METRICS}
    made = {"cifar10, t 1": model}
    scales = SCALES | (LATER if later else {})
    for name, scale in scales.items():
        found = copy.deepcopy(model)
        if name in SINGLE:
            found |= {"varies": False, "k": 1, "coverage": copy.deepcopy(single["coverage"])}
        if name != "ipa, t 1":
            for key in ("model", "temperature", "pixels", "precision"):
                del found[key]
        for metric, cells in found["metrics"].items():
            zero = name in SINGLE and metric.startswith(("fwv", "lpips_diversity"))
            factor = 0.0 if zero else 1 / scale if metric.startswith(_RISING) else scale
            for cell in cells.values():
                cell["mean"] *= factor
        made[name] = found
    others = {name: found for name, found in methods.items() if "temperature" not in found}
    for found in others.values():
        found["metrics"].pop("sharpness", None)
    return {
        **result,
        "methods": {**made, **others},
        "format": "condvae baselines",
        "budget_minutes": 4.0,
        "training": {
            "ipa": _training(2.48, {"VAE": (2.78, 16_000), "partial encoder": (1.17, 8_000)}),
            **{name: _training(5.5, {"network": (3.95, 9_000)}) for name in scales if name != "ipa, t 1"},
            "cifar10": _training(2.48, {"VAE": (8.96, 53_943), "partial encoder": (3.48, 23_781)}, embedded=True),
        },
    }


def later_report() -> dict[str, Any]:
    """Return what another call would have measured: the methods of `LATER` and the embedded model, with new metrics."""
    result = report(later=True)
    names = {"cifar10", *LATER}
    return {
        **result,
        "versions": {**result["versions"], "torch": "9.9"},
        "methods": {name: found for name, found in result["methods"].items() if name.partition(",")[0] in names},
        "models": {"cifar10": result["models"]["cifar10"]},
        "training": {name: found for name, found in result["training"].items() if name in names},
    }


def speed_report() -> dict[str, Any]:
    """Return speeds at which the diffusion model is 20 times as slow as IPA, and CoModGAN 4 times as fast.

    As in a folder that has all models but ipa and anp: ipa was not measured, and anp with random weights.
    """
    methods = report(later=True)["methods"]
    names = {"cifar10": "cifar10, t 1", **{name: name for name in (*SCALES, *LATER) if name != "ipa, t 1"}}
    found, equal = {}, {}
    for name, method in names.items():
        rate = {"dif": 500.0, "com": 40_000.0}.get(name[:3], 10_000.0)
        found[name] = {
            "completions_per_second": rate, "milliseconds": 1000 / rate,
            "network_evaluations": 20.0 if name.startswith("diffusion") else 1.0, "trained": name != "anp",
        }  # fmt: skip
        if name not in (*SINGLE, "anp"):
            shares = {kind: {"mean": 0.7, "standard_error": 0.01} for kind in ("white", "smooth")}
            distance = methods[method]["metrics"]["lpips_gt"]["mixture"]
            equal[name] = {"k": round(rate / 100), "lpips_gt": distance, "calibrated": 0.9, **shares}
    return {
        "format": "condvae baselines speed",
        "device": "NVIDIA H200",
        "methods": found,
        "equal_time": {"images": 200, "reference": "cifar10", "methods": equal},
    }


def _cells(like: dict[str, Any], mean: float) -> dict[str, dict[str, float]]:
    return {column: {"mean": mean, "standard_error": 0.01} for column in like}


def _training(millions: float, parts: dict[str, tuple[float, int]], *, embedded: bool = False) -> dict[str, Any]:
    """Return a training. embedded: of the embedded model, which has no log, and whose data had another layout."""
    found = {}
    layout = "npz" if embedded else "cifar10"
    holes = [f"freeform,low={low / 10},high={(low + 2) / 10}" for low in range(0, 10, 2)]
    for name, (minutes, steps) in parts.items():
        found[name] = {
            "minutes": minutes, "steps": steps, "images_seen": 128 * steps, "device": "NVIDIA H200",
            "data": f"{layout}: 49,000 training, 1,000 validation and 10,000 test images of 32 x 32 x 3, 10 labels",
            "batch": 128, "lr": 1e-3, "seed": 0, "split_seed": 5, "validation": 1000,
            "observe": None if name == "VAE" else holes,
        }  # fmt: skip
        if not embedded:
            found[name] |= {"trained_weights": round(1.25e6 * millions), "images_per_second": 12_345.6}
    total = round(sum(minutes for minutes, _ in parts.values()), 2)
    return {"weights": round(1e6 * millions), "minutes": total, "parts": found}
