"""Observation processes p(y | x), which make observations from images, and the class `Observation`."""

from typing import TYPE_CHECKING

from condvae.runtime.lazy import finder

if TYPE_CHECKING:
    from condvae.observe.catalogue import PROCESSES, describe, from_dict, parse
    from condvae.observe.freeform import Freeform
    from condvae.observe.observation import Observation, observe_pixels
    from condvae.observe.process import KnownPixels, LinearProcess, Normalise, PictureProcess, Process
    from condvae.observe.regions import Boxes, Halves, Mixture, Nothing, Patches, Pixels
    from condvae.observe.translations import Edges, Grey, Label, LowResolution, Paired

_HOMES = {
    "Boxes": "condvae.observe.regions",
    "Edges": "condvae.observe.translations",
    "Freeform": "condvae.observe.freeform",
    "Grey": "condvae.observe.translations",
    "Halves": "condvae.observe.regions",
    "KnownPixels": "condvae.observe.process",
    "Label": "condvae.observe.translations",
    "LinearProcess": "condvae.observe.process",
    "LowResolution": "condvae.observe.translations",
    "Mixture": "condvae.observe.regions",
    "Normalise": "condvae.observe.process",
    "Nothing": "condvae.observe.regions",
    "Observation": "condvae.observe.observation",
    "PROCESSES": "condvae.observe.catalogue",
    "Paired": "condvae.observe.translations",
    "Patches": "condvae.observe.regions",
    "PictureProcess": "condvae.observe.process",
    "Pixels": "condvae.observe.regions",
    "Process": "condvae.observe.process",
    "describe": "condvae.observe.catalogue",
    "from_dict": "condvae.observe.catalogue",
    "observe_pixels": "condvae.observe.observation",
    "parse": "condvae.observe.catalogue",
}

__all__ = [
    "PROCESSES",
    "Boxes",
    "Edges",
    "Freeform",
    "Grey",
    "Halves",
    "KnownPixels",
    "Label",
    "LinearProcess",
    "LowResolution",
    "Mixture",
    "Normalise",
    "Nothing",
    "Observation",
    "Paired",
    "Patches",
    "PictureProcess",
    "Pixels",
    "Process",
    "describe",
    "from_dict",
    "observe_pixels",
    "parse",
]

__getattr__ = finder(__name__, _HOMES)
