"""Save and load models, find models by name or on the hub, and import public checkpoints."""

from typing import TYPE_CHECKING

from condvae.runtime.lazy import finder

if TYPE_CHECKING:
    from condvae.weights.artifact_file import Header, describe, load_conditional, load_vae, save
    from condvae.weights.model_names import DEFAULT_MODEL, embedded_names, locate, title_of
    from condvae.weights.pretrained import from_pretrained, load, save_pretrained
    from condvae.weights.public import LayerStrings, import_public

_HOMES = {
    "DEFAULT_MODEL": "condvae.weights.model_names",
    "Header": "condvae.weights.artifact_file",
    "LayerStrings": "condvae.weights.public",
    "describe": "condvae.weights.artifact_file",
    "embedded_names": "condvae.weights.model_names",
    "from_pretrained": "condvae.weights.pretrained",
    "import_public": "condvae.weights.public",
    "load": "condvae.weights.pretrained",
    "load_conditional": "condvae.weights.artifact_file",
    "load_vae": "condvae.weights.artifact_file",
    "locate": "condvae.weights.model_names",
    "save": "condvae.weights.artifact_file",
    "save_pretrained": "condvae.weights.pretrained",
    "title_of": "condvae.weights.model_names",
}

__all__ = [
    "DEFAULT_MODEL",
    "Header",
    "LayerStrings",
    "describe",
    "embedded_names",
    "from_pretrained",
    "import_public",
    "load",
    "load_conditional",
    "load_vae",
    "locate",
    "save",
    "save_pretrained",
    "title_of",
]

__getattr__ = finder(__name__, _HOMES)
