"""Named presets of training options: the paper's, from its table of experimental details, and our own."""

from typing import Any, TypeVar

from condvae.completers.learned_names import LEARNED_PRESETS
from condvae.runtime.checks import strict
from condvae.training.options import PretrainOptions, TrainingOptions

T = TypeVar("T", bound=TrainingOptions)

# The gradient norms at which the public code clips and skips, and the decay of its moving average, per network.
_CIFAR10 = {"clip": 200.0, "skip_above": 400.0, "ema": 0.9999}
_IMAGENET32 = {"clip": 200.0, "skip_above": 300.0, "ema": 0.999}
_IMAGENET64 = {"clip": 220.0, "skip_above": 380.0, "ema": 0.999}
_FFHQ256 = {"clip": 130.0, "skip_above": 180.0, "ema": 0.999}
_XRAY256 = {"clip": 130.0, "skip_above": 15000.0, "ema": 0.999}
# For small networks and budgets: a decaying learning rate, and thresholds that only skip updates that went wrong.
_SMALL = {"schedule": "cosine", "final_lr": 0.02, "beta2": 0.95, "clip": 200.0, "skip_above": 1000.0, "ema": 0.999}

PRETRAIN_PRESETS: dict[str, dict[str, Any]] = {
    "cifar10": {**_CIFAR10, "network": "cifar10", "lr": 2e-4, "batch": 32},
    "imagenet32": {**_IMAGENET32, "network": "imagenet32", "lr": 2e-4, "batch": 15},
    "imagenet64": {**_IMAGENET64, "network": "imagenet64", "lr": 5e-5, "batch": 16},
    "ffhq256": {**_FFHQ256, "network": "ffhq256", "lr": 1.5e-4, "batch": 32},
    "xray256": {**_XRAY256, "network": "xray256", "lr": 1.5e-4, "batch": 8},
    "small32": {**_SMALL, "network": "small32", "lr": 1e-3, "batch": 128},
    "small64": {**_SMALL, "network": "small64", "lr": 1e-3, "batch": 128},
    "small128": {**_SMALL, "network": "small128", "lr": 1e-3, "batch": 64},
    "faces64": {
        **_SMALL, "network": "faces64", "lr": 1e-3, "batch": 128, "ema": 0.998, "validation": 300, "optimiser": "muon",
    },
    "cifar10-small": {**_SMALL, "network": "cifar10-small", "lr": 1e-3, "batch": 128},
    "xray64": {**_SMALL, "network": "xray64", "lr": 1e-3, "batch": 128},
    "tiny64": {**_SMALL, "network": "tiny64", "lr": 1e-3, "batch": 128, "ema": 0.995},
    "shoes64": {**_SMALL, "network": "shoes64", "lr": 1e-3, "batch": 128, "ema": 0.998, "validation": 300},
    "demo": {**_SMALL, "network": "demo32", "lr": 5e-3, "batch": 16, "warm_up": 30, "clip": 20.0, "ema": 0.98},
}  # fmt: skip

_PATCHES = ("patches",)
# Freeform holes with five ranges of the hidden share, each equally often. Without these ranges, four of five freeform
# holes at 64 x 64 would hide more than 80 % of the image.
_FIVE_SIZES = tuple(f"freeform,low={low / 10},high={(low + 2) / 10}" for low in (0, 2, 4, 6, 8))
# Freeform holes, and other holes that people draw.
_ALL_KINDS = (
    *_FIVE_SIZES,
    "boxes,least=0.15,largest=0.75,hidden=0.8,weight=2",
    "halves,weight=1.5",
    "patches",
    "nothing,weight=0.25",
)
TRAIN_PRESETS: dict[str, dict[str, Any]] = {
    "ipa-cifar10": {**_CIFAR10, "lr": 2e-4, "batch": 30, "steps": 550_000},
    "ipa-r-cifar10": {**_CIFAR10, "lr": 2e-5, "batch": 16, "steps": 250_000, "objective": "reverse"},
    "scratch-cifar10": {**_CIFAR10, "lr": 2e-4, "batch": 9, "steps": 3_050_000, "scratch": "cifar10"},
    "transfer-cifar10": {**_IMAGENET32, "lr": 1.5e-4, "batch": 16, "steps": 700_000},
    "ipa-imagenet64": {**_IMAGENET64, "lr": 5e-5, "batch": 4, "steps": 700_000},
    "ipa-r-imagenet64": {**_IMAGENET64, "lr": 5e-4, "batch": 1, "steps": 810_000, "objective": "reverse"},
    "scratch-imagenet64": {**_IMAGENET64, "lr": 5e-5, "batch": 1, "steps": 1_930_000, "scratch": "imagenet64"},
    "ipa-ffhq256": {**_FFHQ256, "lr": 1.5e-4, "batch": 12, "steps": 626_000},
    "ipa-r-ffhq256": {**_FFHQ256, "lr": 5e-5, "batch": 8, "steps": 416_000, "objective": "reverse"},
    "scratch-edges": {
        **_IMAGENET64, "lr": 5e-5, "batch": 1, "steps": 750_000, "scratch": "imagenet64", "observe": ("paired",),
    },
    "transfer-edges": {**_IMAGENET64, "lr": 2e-4, "batch": 4, "steps": 250_000, "observe": ("paired",)},
    "ipa-xray256": {**_XRAY256, "lr": 1.5e-4, "batch": 8, "steps": 180_000, "observe": _PATCHES},
    "small32": {**_SMALL, "lr": 1e-3, "batch": 128, "form": "relative"},
    "small64": {**_SMALL, "lr": 1e-3, "batch": 128, "form": "relative"},
    "small128": {**_SMALL, "lr": 1e-3, "batch": 64, "form": "relative"},
    "faces64": {
        **_SMALL, "lr": 2e-3, "batch": 128, "ema": 0.998, "validation": 300, "optimiser": "muon", "form": "direct",
        "start": "encoder", "clip": 1.0, "skip_above": 1e4, "observe": _ALL_KINDS,
    },
    "cifar10-small": {**_SMALL, "lr": 1e-3, "batch": 128, "form": "relative", "observe": _FIVE_SIZES},
    "xray64": {**_SMALL, "lr": 1e-3, "batch": 128, "form": "relative", "observe": _PATCHES},
    "tiny64": {**_SMALL, "lr": 1e-3, "batch": 128, "ema": 0.995, "form": "relative", "observe": _FIVE_SIZES},
    "shoes64": {
        **_SMALL, "lr": 1e-3, "batch": 128, "ema": 0.998, "validation": 300, "form": "relative",
        "observe": ("edges,gaps=4",),
    },
    "demo": {
        **_SMALL, "lr": 5e-3, "batch": 16, "warm_up": 30, "clip": 20.0, "ema": 0.98, "form": "relative",
        "observe": ("boxes,hidden=0.6,weight=2", "halves"),
    },
}  # fmt: skip

# Learned baselines: Adam without weight decay, and an average of the weights. Those of the paper have its learning
# rates, batches and numbers of steps, and its plain freeform holes.
_ADAM = {"weight_decay": 0.0, "clip": 1e4, "skip_above": 1e5, "ema": 0.999, "beta2": 0.999}
_BRIEF = {
    **_ADAM, "schedule": "cosine", "final_lr": 0.02, "observe": _FIVE_SIZES, "evaluate_every": 2000,
    "checkpoint_every": 2000,
}  # fmt: skip
_BASELINE_OPTIONS: dict[str, dict[str, Any]] = {
    "ce": {**_BRIEF, "lr": 5e-4, "batch": 256, "beta1": 0.5, "evaluate_every": 10_000, "checkpoint_every": 10_000},
    "anp": {**_BRIEF, "lr": 3e-4, "batch": 64},
    "pic": {**_BRIEF, "lr": 2e-4, "batch": 128, "beta1": 0.0},
    "rfr": {**_BRIEF, "lr": 3e-4, "batch": 128},
    # A constant learning rate, so that a snapshot is the result of a shorter run.
    "comodgan": {**_BRIEF, "schedule": "constant", "lr": 2e-3, "batch": 64, "beta1": 0.0, "beta2": 0.99, "ema": 0.997},
    "vqvae": {**_BRIEF, "lr": 3e-4, "batch": 128, "beta1": 0.5},
    "diffusion": {**_BRIEF, "schedule": "constant", "lr": 1e-3, "batch": 256, "beta2": 0.99, "ema": 0.9995},
    "ce-paper": {**_ADAM, "lr": 2e-4, "batch": 64, "beta1": 0.5, "steps": 352_000},
    "anp-paper": {**_ADAM, "lr": 5e-5, "batch": 16, "steps": 700_000},
    "pic-paper": {**_ADAM, "lr": 1e-5, "batch": 20, "beta1": 0.0, "steps": 1_800_000},
    "rfr-paper": {**_ADAM, "lr": 1e-4, "batch": 8, "steps": 675_000},
    "comodgan-paper": {
        **_ADAM,
        "lr": 2e-3,
        "batch": 32,
        "beta1": 0.0,
        "beta2": 0.99,
        "ema": 0.99778,
        "steps": 781_000,
    },
    "vqvae-paper": {**_ADAM, "lr": 1e-4, "batch": 8, "beta1": 0.5, "ema": 0.9997, "steps": 4_000_000},
}
TRAIN_PRESETS |= {name: {"baseline": name, **_BASELINE_OPTIONS[name]} for name in LEARNED_PRESETS}


def options_for(kind: type[T], name: str | None, **options: Any) -> T:
    """Return the options of a preset, or the default options if name is None. `options` override both.

    A baseline that is given by name has a preset of the same name.
    """
    presets = PRETRAIN_PRESETS if issubclass(kind, PretrainOptions) else TRAIN_PRESETS
    if name is None and presets is TRAIN_PRESETS and options.get("baseline") in LEARNED_PRESETS:
        name = options["baseline"]
    if name is not None and name not in presets:
        raise ValueError(f"unknown preset {name!r}, expected one of {', '.join(presets)}")
    return strict(kind, {**(presets[name] if name else {}), "preset": name, **options}, where="options")


def options_from(kind: type[T], options: T | None, given: dict[str, Any]) -> T:
    """Return the options of a call, which are given either as one object or as keywords. Keywords may name a preset."""
    if options is None:
        return options_for(kind, given.pop("preset", None), **given)
    if given:
        raise ValueError(
            f"options were given both as an object and as keywords ({', '.join(given)}): give only one of the two"
        )
    return options
