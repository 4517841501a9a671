"""Conditional image generation, such as image completion, with a pretrained, frozen VAE (the paper's method IPA)."""

import pkgutil
from typing import TYPE_CHECKING

from condvae.runtime.lazy import finder

if TYPE_CHECKING:
    from condvae import completers as completers
    from condvae import completion as completion
    from condvae import data as data
    from condvae import design as design
    from condvae import experiments as experiments
    from condvae import faces as faces
    from condvae import images as images
    from condvae import kernels as kernels
    from condvae import metrics as metrics
    from condvae import observe as observe
    from condvae import ood as ood
    from condvae import runtime as runtime
    from condvae import sampling as sampling
    from condvae import training as training
    from condvae import vdvae as vdvae
    from condvae import weights as weights
    from condvae.completion import Completion, complete
    from condvae.conditional import ConditionalVAE, PartialConfig
    from condvae.experiments.evaluation.entry_point import evaluate
    from condvae.observe import Observation
    from condvae.ood import strangeness
    from condvae.runtime.messages import DegenerateSamples, StrangeImage
    from condvae.sampling.sampler import Sampler
    from condvae.training import pretrain, train
    from condvae.vdvae import VDVAE, VDVAEConfig, preset
    from condvae.weights import from_pretrained, import_public, load, save, save_pretrained

__version__ = "0.1.0"

_HOMES = {
    "Completion": "condvae.completion",
    "ConditionalVAE": "condvae.conditional",
    "DegenerateSamples": "condvae.runtime.messages",
    "Observation": "condvae.observe",
    "PartialConfig": "condvae.conditional",
    "Sampler": "condvae.sampling.sampler",
    "StrangeImage": "condvae.runtime.messages",
    "VDVAE": "condvae.vdvae",
    "VDVAEConfig": "condvae.vdvae",
    "complete": "condvae.completion",
    "evaluate": "condvae.experiments.evaluation.entry_point",
    "from_pretrained": "condvae.weights",
    "import_public": "condvae.weights",
    "load": "condvae.weights",
    "preset": "condvae.vdvae",
    "pretrain": "condvae.training",
    "save": "condvae.weights",
    "save_pretrained": "condvae.weights",
    "strangeness": "condvae.ood",
    "train": "condvae.training",
}

__all__ = [
    "VDVAE",
    "Completion",
    "ConditionalVAE",
    "DegenerateSamples",
    "Observation",
    "PartialConfig",
    "Sampler",
    "StrangeImage",
    "VDVAEConfig",
    "complete",
    "evaluate",
    "from_pretrained",
    "import_public",
    "load",
    "preset",
    "pretrain",
    "save",
    "save_pretrained",
    "strangeness",
    "train",
]

__getattr__ = finder(__name__, _HOMES)


def __dir__() -> list[str]:
    rooms = [module.name for module in pkgutil.iter_modules(__path__) if module.name != "__main__"]
    return [*__all__, *rooms, "__version__"]
