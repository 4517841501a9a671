"""A made-up comparison of IPA and baselines for tests, in the format of recipes/baselines.py.

Its methods are those of a published evaluation under other names, with their numbers scaled.
"""

import copy
import json
from typing import Any

from helpers.fixtures import ROOT

SCALES = {"ipa, t 1": 1.0, "ce": 1.6, "anp": 1.4, "pic": 1.2, "rfr": 2.0}
"""By which factor each trained method is worse than IPA."""
SINGLE = ("ce", "rfr")
"""The methods that do not vary."""
_RISING = ("p_ids", "u_ids", "lpips_diversity", "fwv", "psnr", "ssim", "sharpness")
"""The beginnings of the names of metrics that are higher for better methods."""


def report() -> dict[str, Any]:
    """Return a comparison in which IPA is the best, and then PIC, ANP, CE and RFR, by every metric."""
    result: dict[str, Any] = json.loads((ROOT / "docs/results/evaluation/cifar10.json").read_text())
    methods = result["methods"]
    model, single = methods["cifar10, t 1"], methods["harmonic fill"]
    model["metrics"]["sharpness"] = _cells(model["metrics"]["fid"], 0.8)
    single["metrics"]["sharpness"] = _cells(model["metrics"]["fid"], 0.7)
    made = {"cifar10, t 1": model}
    for name, scale in SCALES.items():
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
            **{name: _training(5.5, {"network": (3.95, 9_000)}) for name in ("ce", "anp", "pic", "rfr")},
            "cifar10": _training(2.48, {"VAE": (8.96, 53_943), "partial encoder": (3.48, 23_781)}, logged=False),
        },
    }


def _cells(like: dict[str, Any], mean: float) -> dict[str, dict[str, float]]:
    return {column: {"mean": mean, "standard_error": 0.01} for column in like}


def _training(millions: float, parts: dict[str, tuple[float, int]], *, logged: bool = True) -> dict[str, Any]:
    found = {}
    holes = [f"freeform,low={low / 10},high={(low + 2) / 10}" for low in range(0, 10, 2)]
    for name, (minutes, steps) in parts.items():
        found[name] = {
            "minutes": minutes, "steps": steps, "images_seen": 128 * steps, "device": "NVIDIA H200",
            "data": "npz: 49,000 training, 1,000 validation and 10,000 test images of 32 x 32 x 3, 10 labels",
            "batch": 128, "lr": 1e-3, "seed": 0, "split_seed": 5, "validation": 1000,
            "observe": None if name == "VAE" else holes,
        }  # fmt: skip
        if logged:
            found[name] |= {"trained_weights": round(1.25e6 * millions), "images_per_second": 12_345.6}
    total = round(sum(minutes for minutes, _ in parts.values()), 2)
    return {"weights": round(1e6 * millions), "minutes": total, "parts": found}
