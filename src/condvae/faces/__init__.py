"""Find faces in photos: a box, five landmarks and a score for each."""

from typing import TYPE_CHECKING

from condvae.runtime.lazy import finder

if TYPE_CHECKING:
    from condvae.faces.face import Face, Framing
    from condvae.faces.finding import find_faces

_HOMES = {
    "Face": "condvae.faces.face",
    "Framing": "condvae.faces.face",
    "find_faces": "condvae.faces.finding",
}

__all__ = ["Face", "Framing", "find_faces"]

__getattr__ = finder(__name__, _HOMES)
