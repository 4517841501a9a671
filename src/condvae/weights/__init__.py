"""Models as files: our one-file artifacts, and the import of public checkpoints."""

from condvae.weights.artifact_file import describe, load, save
from condvae.weights.public import Layers, import_public

__all__ = ["Layers", "describe", "import_public", "load", "save"]
