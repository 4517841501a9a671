"""Prepare a picture for a model, and paste completions back into the picture.

A model that completes holes sees a square of the picture, resized to the model's image size: the middle square, which
is the largest centred one, or a square around a face. `translation_inputs.py` prepares pictures for models that see
something else, such as edges.
"""

import functools
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from PIL import Image

from condvae.conditional import ConditionalVAE
from condvae.images.blending import blend_edges
from condvae.images.decode import fit
from condvae.images.face_parts import FaceSquare, part_of_square
from condvae.images.holes import Flags, Hidden, Hole, known_half
from condvae.images.image_completer import ImageCompleter
from condvae.images.image_meanings import ImageIs
from condvae.images.model_levels import as_batch, resizing_notes
from condvae.images.placement import Placement
from condvae.images.reading import Picture
from condvae.images.squares import (
    box_around,
    completed_region,
    cut_out,
    described,
    inside_picture,
    middle_square,
    on_picture,
)
from condvae.images.translation_inputs import translation_input
from condvae.observe import KnownPixels, Observation
from condvae.runtime.fingerprints import FileId
from condvae.runtime.messages import printable
from condvae.runtime.pixels import PixelArray

_LANCZOS_REACH = 3  # reach of Pillow's filter, in pixels of the smaller image


class Surroundings(NamedTuple):
    """The whole picture, into which completions are pasted."""

    page: Image.Image
    """The whole picture, in mode L or RGB."""
    hidden: Flags
    """[H, W] bool: True where a pixel of the whole picture is hidden."""


@dataclass(frozen=True, kw_only=True, eq=False)
class ModelView:
    """A picture as a model sees it: a square of it at the model's image size, and which pixels are known."""

    file: FileId | None
    """The file that the picture was read from, if any."""
    size: tuple[int, int]
    """Width and height of the whole picture, in pixels."""
    hole: Hole
    levels: PixelArray
    """[S, S, C] uint8: the square at the model's image size S; a drawing has more paper around it instead."""
    known: Flags
    """[S, S] bool: True where a pixel is known; False everywhere if observations have no known pixels, as for edges."""
    observation: Observation
    """The observation of this picture, as a batch of one image on the CPU."""
    notes: tuple[str, ...]
    face: FaceSquare | None = None
    """The face that the square was chosen for; None if it is the middle square."""
    hole_file: FileId | None = None
    """The picture file that the hole was read from, if any."""
    nothing_hidden: str | None = None
    """If no pixel is hidden, a sentence that says so, why, and what to do; otherwise None."""
    nothing_shown: str | None = None
    """If a translation model sees an empty picture, such as no edges, a sentence that says so; otherwise None."""
    icc_profile: bytes | None = None
    """The colour profile of pictures into which completions are pasted."""
    surroundings: Surroundings | None = None
    """The whole picture. It is kept only if completions will be pasted into it, because photos take much memory."""

    @property
    def placement(self) -> Placement:
        """Where the square lies in the whole picture."""
        return middle_square(self.size) if self.face is None else self.face.placement

    @property
    def nbytes(self) -> int:
        """Memory that this view takes, in bytes."""
        seen = self.observation
        tensors = [part for part in (seen.y, seen.known, seen.pixels) if part is not None]
        total = self.levels.nbytes + self.known.nbytes + sum(part.nbytes for part in tensors)
        if self.surroundings is not None:
            page, hidden = self.surroundings
            total += page.width * page.height * len(page.getbands()) + hidden.nbytes
        return total

    def pasted(self, levels: PixelArray, *, blend: bool = True) -> Image.Image:
        """Enlarge a completion [S, S, C] uint8 and paste it into the whole picture; only hidden pixels change.

        blend: whether to blend it with the picture at the edge of the hole.
        """
        return pasted([self], [levels], blend=blend)


def pasted(views: Sequence[ModelView], completions: Sequence[PixelArray], *, blend: bool = True) -> Image.Image:
    """Paste completions of several squares into the picture that all views are of, as `ModelView.pasted` does.

    Where squares overlap, the first one counts.
    """
    surroundings = views[0].surroundings
    assert surroundings is not None  # kept if `make_view` was called with keep_size=True
    page, hidden = surroundings
    mode = "RGB" if completions[0].shape[2] == 3 else page.mode
    whole = np.array(page.convert(mode))
    for view, levels in reversed(list(zip(views, completions, strict=True))):
        hole = hidden & _inside(view.placement, page.size, len(levels))
        completed = functools.partial(completed_region, levels, view.placement, page.size)
        if blend:
            blend_edges(whole, hole, hidden, completed, scale=view.placement.side / len(levels))
        else:
            left, top, right, bottom = box = inside_picture(box_around(view.placement), page.size)
            part = (slice(top, bottom), slice(left, right))
            np.atleast_3d(whole)[part][hole[part]] = completed(box)[hole[part]]
    made = Image.fromarray(whole)
    if views[0].icc_profile is not None:
        made.info["icc_profile"] = views[0].icc_profile
    return made


def make_view(
    model: ImageCompleter,
    picture: Picture,
    hole: Hole,
    *,
    seed: int,
    keep_size: bool,
    image_is: ImageIs = "photo",
) -> ModelView:
    """Prepare the middle square of a picture for a model, as `make_views` does."""
    return make_views(model, picture, hole, [None], seed=seed, keep_size=keep_size, image_is=image_is)[0]


def make_views(
    model: ImageCompleter,
    picture: Picture,
    hole: Hole,
    faces: Sequence[FaceSquare | None],
    *,
    seed: int,
    keep_size: bool,
    image_is: ImageIs = "photo",
    usual: FaceSquare | None = None,
) -> list[ModelView]:
    """Prepare squares of a picture for a model; raise ValueError if the hole does not suit the model or the picture.

    faces: each is seen in its own square; None is the middle square. Pixels hidden in one square are hidden in all.
    seed: sets the random hole, if one is drawn. keep_size: keep the whole picture, so that completions can be pasted;
    not for models that do not complete holes. image_is: what the picture is, for models of edges.
    usual: the face that is expected in the middle square, to find its parts.
    """
    hole = hole.for_picture(picture)
    if not model.completes_holes:
        assert isinstance(model, ConditionalVAE)
        return [_translation_view(model, picture, hole, image_is)]
    size, channels = model.image_size, model.channels
    transparency = hole.way == "transparency"
    page = picture.colours if transparency else picture.on_white()
    marked = hole.hidden(picture, in_face=faces[0] is not None)
    squares = [middle_square(picture.size) if face is None else face.placement for face in faces]
    if marked.pixels is not None:
        hidden = marked.pixels
    else:
        drawn = [
            _drawn_hole(model, page, hole, face or usual, at, seed) for face, at in zip(faces, squares, strict=True)
        ]
        hidden = np.zeros(picture.size[::-1], dtype=bool)
        for flags, at in zip(drawn, squares, strict=True):
            hidden |= on_picture(flags, at, picture.size)
    left_over, touched = hidden.copy(), []
    for at in squares:
        within = _inside(at, picture.size, size)
        touched.append(bool((hidden & within).any()))
        left_over &= ~within
    outside = int(left_over.sum())
    notes, profile = list(marked.notes), None
    if outside and keep_size:
        which = (
            "its middle square"
            if faces[0] is None
            else f"the square around {'its face' if len(faces) == 1 else 'each face'}"
        )
        notes.append(f"{picture.name}: hidden pixels outside {which} stay as they are ({outside:,} in all)")
    if keep_size and picture.icc_profile is not None:
        profile, more = _kept_profile(picture, picture.icc_profile, "RGB" if channels == 3 else page.mode)
        notes += more
    views = []
    for face, at, has_hole in zip(faces, squares, touched, strict=True):
        square, covered = cut_out(page, at, size, hidden)
        known, levels = _without_hidden(square, covered, fit(square, channels=channels, size=size))
        nothing = None
        if not has_hole:
            nothing = f"nothing is hidden in {picture.name}: {_why_nothing(hole, marked, face, at, outside)}"
        first = resizing_notes(picture, size, on_white=not transparency, face=None if face is None else at)
        views.append(
            ModelView(
                file=picture.file,
                size=picture.size,
                hole=hole,
                levels=levels,
                known=known,
                observation=model.observe(as_batch(levels).x, torch.from_numpy(known)[None, None]),
                notes=(*first, *notes),
                face=face,
                hole_file=marked.file,
                nothing_hidden=nothing,
                icc_profile=profile,
                surroundings=Surroundings(page, hidden) if keep_size else None,
            )
        )
    return views


def _translation_view(model: ConditionalVAE, picture: Picture, hole: Hole, image_is: ImageIs) -> ModelView:
    if hole.ways:
        observes = model.process.name if model.process else "something else"
        way = hole.ways[0]
        raise ValueError(
            f"this model observes {observes} and does not complete holes: leave out --{way} ({way} in Python)"
        )
    levels, observation, notes, nothing = translation_input(model, picture, image_is)
    return ModelView(
        file=picture.file,
        size=picture.size,
        hole=hole,
        levels=levels,
        known=np.zeros(levels.shape[:2], dtype=bool),
        observation=observation,
        notes=notes,
        nothing_shown=nothing,
    )


def _why_nothing(hole: Hole, marked: Hidden, face: FaceSquare | None, at: Placement, outside: int) -> str:
    """Say why no pixel of a square is hidden, and what to do."""
    if outside and face is not None:
        return (
            f"all hidden pixels are outside the square around its face, which is {described(at)}: hide pixels inside "
            "this square"
        )
    if outside:
        return (
            f"all hidden pixels are outside its middle {at.side} x {at.side} square, which is all that the model sees: "
            "hide pixels inside this square, or crop the image"
        )
    if marked.pixels is not None:
        return marked.why_nothing
    if hole.random:
        return "the random hole has no pixels: give another seed"
    if hole.half:
        return f"its {hole.half} half is empty"
    return f"--part {hole.part} has no pixel in it: give a larger image, or hide something else"


def _kept_profile(picture: Picture, profile: bytes, mode: str) -> tuple[bytes | None, tuple[str, ...]]:
    """Return the picture's colour profile if it fits pictures of this mode, L or RGB; else None, and a message."""
    is_profile = len(profile) >= 128 and profile[36:40] == b"acsp"  # the header of an ICC profile has 128 bytes
    if is_profile and profile[16:20] == {"L": b"GRAY", "RGB": b"RGB "}[mode]:
        return profile, ()
    kind = f"is for {printable(profile[16:20].decode('latin-1').strip())} pictures" if is_profile else "is damaged"
    written = "grey" if mode == "L" else "RGB"
    return None, (f"{picture.name}: its colour profile {kind}, so the {written} pictures are written without it",)


def _drawn_hole(
    model: ImageCompleter, page: Image.Image, hole: Hole, face: FaceSquare | None, at: Placement, seed: int
) -> Flags:
    """Return which pixels of the square are hidden, at the model's image size: a half, part of a face, or at random."""
    size = model.image_size
    if hole.half is not None:
        return ~known_half(hole.half, size)
    if hole.part is not None:
        if face is None:
            raise ValueError(f"--part {hole.part} (part in Python) was given, but this model does not expect faces")
        return part_of_square(hole.part, face, size)
    if not isinstance(model.process, KnownPixels):
        raise ValueError(
            "this model does not record what it was trained to observe, so no random hole can be drawn: specify a hole"
        )
    levels = fit(cut_out(page, at, size)[0], channels=model.channels, size=size)
    known: Flags = model.process.draw(1, size, _generator(levels, seed))[0, 0].numpy()
    return ~known


def _generator(levels: PixelArray, seed: int) -> torch.Generator:
    """Make a random generator from the seed and the picture's pixels, so that each picture gets a different hole."""
    digest = hashlib.sha256(seed.to_bytes(8, "little") + levels.tobytes()).digest()
    return torch.Generator().manual_seed(int.from_bytes(digest[:8], "little"))


def _inside(placement: Placement, size: tuple[int, int], count: int) -> Flags:
    """Return which pixels of a picture of this size are inside a square."""
    return on_picture(np.ones((count, count), dtype=bool), placement, size)


def _without_hidden(square: Image.Image, hidden: Flags, levels: PixelArray) -> tuple[Flags, PixelArray]:
    """Return which pixels at model size are known, and levels in which known pixels contain no colours of hidden ones.

    A pixel at model size is known if all pixels of the square in its area are known. The Lanczos filter also reads
    pixels around this area. Where some of those are hidden, the mean of the area is used instead of its result.
    """
    side, size = len(hidden), len(levels)
    scale = side / size
    centre = (np.arange(size) + 0.5) * scale
    reach = _LANCZOS_REACH * max(scale, 1.0)
    known = ~_any_in_spans(hidden, np.arange(size) * side // size, -(-(np.arange(size) + 1) * side // size))
    if side == size:
        return known, levels
    clean = ~_any_in_spans(hidden, np.floor(centre - reach).astype(int), np.ceil(centre + reach).astype(int))
    mode = "L" if levels.shape[2] == 1 else "RGB"
    means = np.asarray(square.convert(mode).resize((size, size), Image.Resampling.BOX)).reshape(levels.shape)
    return known, np.where((known & ~clean)[:, :, None], means, levels)


def _any_in_spans(flags: Flags, start: npt.NDArray[np.int_], end: npt.NDArray[np.int_]) -> Flags:
    """Return [n, n] bool. Element (i, j) tells whether any flag is set in a rectangle.

    The rectangle has the rows start[i] to end[i] - 1 and the columns start[j] to end[j] - 1.
    """
    spans = [slice(max(a, 0), b) for a, b in zip(start.tolist(), end.tolist(), strict=True)]
    rows = np.stack([flags[span].any(axis=0) for span in spans])
    return np.stack([rows[:, span].any(axis=1) for span in spans], axis=1)
