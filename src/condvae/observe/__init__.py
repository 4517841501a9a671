"""Observation processes p(y | x): what is known about an image, and how the partial encoder sees it."""

from condvae.observe.catalogue import PROCESSES, describe, from_dict, parse
from condvae.observe.freeform import Freeform
from condvae.observe.observation import Observation, observe_pixels
from condvae.observe.process import KnownPixels, Normalise, Process
from condvae.observe.regions import Boxes, Halves, Mixture, Nothing, Patches, Pixels
from condvae.observe.translations import Edges, Grey, Label, LowResolution, Paired

__all__ = [
    "PROCESSES",
    "Boxes",
    "Edges",
    "Freeform",
    "Grey",
    "Halves",
    "KnownPixels",
    "Label",
    "LowResolution",
    "Mixture",
    "Normalise",
    "Nothing",
    "Observation",
    "Paired",
    "Patches",
    "Pixels",
    "Process",
    "describe",
    "from_dict",
    "observe_pixels",
    "parse",
]
