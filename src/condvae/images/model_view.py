"""Prepare a picture for a model, and paste completions back into the picture.

A model that completes holes sees the picture's middle square, which is its largest centred square, resized to the
model's image size. `translation_inputs.py` prepares pictures for models that see something else, such as edges.
"""

import hashlib
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from PIL import Image

from condvae.conditional import ConditionalVAE
from condvae.images.blending import blend_edges
from condvae.images.contact_sheet import to_pil
from condvae.images.decode import fit
from condvae.images.holes import Flags, Hole, known_half
from condvae.images.image_completer import ImageCompleter
from condvae.images.image_meanings import ImageIs
from condvae.images.model_levels import as_batch, as_tensor, resizing_notes
from condvae.images.reading import Picture
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
    """A picture as a model sees it: its middle square at the model's image size, and which pixels are known."""

    file: FileId | None
    """The file that the picture was read from, if any."""
    size: tuple[int, int]
    """Width and height of the whole picture, in pixels."""
    hole: Hole
    levels: PixelArray
    """[S, S, C] uint8: the middle square at the model's image size S; a drawing has more paper around it instead."""
    known: Flags
    """[S, S] bool: True where a pixel is known; False everywhere if observations have no known pixels, as for edges."""
    observation: Observation
    """The observation of this picture, as a batch of one image on the CPU."""
    notes: tuple[str, ...]
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
    def side(self) -> int:
        """Width of the middle square, in pixels of the whole picture."""
        return min(self.size)

    @property
    def corner(self) -> tuple[int, int]:
        """x and y of the middle square's top left corner in the whole picture."""
        width, height = self.size
        return (width - self.side) // 2, (height - self.side) // 2

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
        assert self.surroundings is not None  # kept if `make_view` was called with keep_size=True
        page, hidden = self.surroundings
        mode = "RGB" if levels.shape[2] == 3 else page.mode
        whole = np.array(page.convert(mode))
        # Not Lanczos, which overshoots along the edges of a face; enlarging would make this visible.
        square = to_pil(as_tensor(levels)).resize((self.side,) * 2, Image.Resampling.BICUBIC).convert(mode)
        x, y = self.corner
        if blend:
            blend_edges(whole, np.asarray(square), (x, y), hidden, scale=self.side / len(levels))
        else:
            hole, _ = _middle(hidden, self.side)
            whole[y : y + self.side, x : x + self.side][hole] = np.asarray(square)[hole]
        pasted = Image.fromarray(whole)
        if self.icc_profile is not None:
            pasted.info["icc_profile"] = self.icc_profile
        return pasted


def make_view(
    model: ImageCompleter, picture: Picture, hole: Hole, *, seed: int, keep_size: bool, image_is: ImageIs = "photo"
) -> ModelView:
    """Prepare a picture for a model; raise ValueError if the hole does not suit the model or the picture.

    seed: sets the random hole, if one is drawn. keep_size: keep the whole picture, so that completions can be pasted;
    not for models that do not complete holes. image_is: what the picture is, for models of edges.
    """
    hole = hole.for_picture(picture)
    if not model.completes_holes:
        assert isinstance(model, ConditionalVAE)
        return _translation_view(model, picture, hole, image_is)
    size, channels = model.image_size, model.channels
    transparency = hole.way == "transparency"
    page = picture.colours if transparency else picture.on_white()
    notes = resizing_notes(picture, size, on_white=not transparency)
    levels = fit(page, channels=channels, size=size)
    hidden, more, hole_file, nothing = _hidden(model, picture, hole, levels, seed=seed, keep_size=keep_size)
    notes += more
    known, levels = _without_hidden(page, _middle(hidden, min(picture.size))[0], levels)
    profile = None
    if keep_size and picture.icc_profile is not None:
        profile, more = _kept_profile(picture, picture.icc_profile, "RGB" if channels == 3 else page.mode)
        notes += more
    return ModelView(
        file=picture.file,
        size=picture.size,
        hole=hole,
        levels=levels,
        known=known,
        observation=model.observe(as_batch(levels).x, torch.from_numpy(known)[None, None]),
        notes=tuple(notes),
        hole_file=hole_file,
        nothing_hidden=nothing,
        icc_profile=profile,
        surroundings=Surroundings(page, hidden) if keep_size else None,
    )


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


class _HiddenPixels(NamedTuple):
    pixels: Flags
    """[H, W] bool: True where a pixel of the whole picture is hidden."""
    notes: tuple[str, ...]
    file: FileId | None
    """The picture file that the hole was read from, if any."""
    nothing: str | None
    """If no pixel of the middle square is hidden, a sentence that says so."""


def _hidden(
    model: ImageCompleter, picture: Picture, hole: Hole, levels: PixelArray, *, seed: int, keep_size: bool
) -> _HiddenPixels:
    """Find out which pixels of a picture are hidden."""
    side = min(picture.size)
    found = hole.hidden(picture)
    notes, why = found.notes, found.why_nothing
    if found.pixels is None:
        known = known_half(hole.half, len(levels)) if hole.half else _drawn(model, levels, seed)
        square = _enlarged(~known, side)
        hidden = _in_middle(square, picture)
        why = "the random hole has no pixels: give another seed" if hole.random else f"its {hole.half} half is empty"
    else:
        hidden = found.pixels
        square, outside = _middle(hidden, side)
        if outside and keep_size:
            notes += (f"{picture.name}: hidden pixels outside its middle square stay as they are ({outside:,} in all)",)
        if outside:
            why = (
                f"all hidden pixels are outside its middle {side} x {side} square, which is all that the model sees: "
                "hide pixels inside this square, or crop the image"
            )
    nothing = None if square.any() else f"nothing is hidden in {picture.name}: {why}"
    return _HiddenPixels(hidden, notes, found.file, nothing)


def _kept_profile(picture: Picture, profile: bytes, mode: str) -> tuple[bytes | None, tuple[str, ...]]:
    """Return the picture's colour profile if it fits pictures of this mode, L or RGB; else None, and a message."""
    is_profile = len(profile) >= 128 and profile[36:40] == b"acsp"  # the header of an ICC profile has 128 bytes
    if is_profile and profile[16:20] == {"L": b"GRAY", "RGB": b"RGB "}[mode]:
        return profile, ()
    kind = f"is for {printable(profile[16:20].decode('latin-1').strip())} pictures" if is_profile else "is damaged"
    written = "grey" if mode == "L" else "RGB"
    return None, (f"{picture.name}: its colour profile {kind}, so the {written} pictures are written without it",)


def _drawn(model: ImageCompleter, levels: PixelArray, seed: int) -> Flags:
    if not isinstance(model.process, KnownPixels):
        raise ValueError(
            "this model does not record what it was trained to observe, so no random hole can be drawn: specify a hole"
        )
    known: Flags = model.process.draw(1, len(levels), _generator(levels, seed))[0, 0].numpy()
    return known


def _generator(levels: PixelArray, seed: int) -> torch.Generator:
    """Make a random generator from the seed and the picture's pixels, so that each picture gets a different hole."""
    digest = hashlib.sha256(seed.to_bytes(8, "little") + levels.tobytes()).digest()
    return torch.Generator().manual_seed(int.from_bytes(digest[:8], "little"))


def _middle(hidden: Flags, side: int) -> tuple[Flags, int]:
    """Return the middle square of `hidden`, [side, side], and the number of hidden pixels outside it."""
    top, left = ((length - side) // 2 for length in hidden.shape)
    square = hidden[top : top + side, left : left + side]
    return square, int(hidden.sum()) - int(square.sum())


def _in_middle(square: Flags, picture: Picture) -> Flags:
    """Return flags of the whole picture, [H, W]: those of `square` in the middle square, and False elsewhere."""
    whole = np.zeros(picture.size[::-1], dtype=bool)
    _middle(whole, len(square))[0][:] = square
    return whole


def _enlarged(flags: Flags, side: int) -> Flags:
    """Resize a square of flags to [side, side]: each new pixel takes the old flag at the position of its centre."""
    at = (2 * np.arange(side) + 1) * len(flags) // (2 * side)
    enlarged: Flags = flags[at[:, None], at]
    return enlarged


def _without_hidden(page: Image.Image, hidden: Flags, levels: PixelArray) -> tuple[Flags, PixelArray]:
    """Return which pixels at model size are known, and levels in which known pixels contain no colours of hidden ones.

    A pixel at model size is known if all picture pixels in its area are known. The Lanczos filter also reads pixels
    around this area. Where some of those are hidden, the mean of the area is used instead of the filter's result.
    """
    side, size = len(hidden), len(levels)
    scale = side / size
    centre = (np.arange(size) + 0.5) * scale
    reach = _LANCZOS_REACH * max(scale, 1.0)
    known = ~_any_in_spans(hidden, np.arange(size) * side // size, -(-(np.arange(size) + 1) * side // size))
    if side == size:
        return known, levels
    clean = ~_any_in_spans(hidden, np.floor(centre - reach).astype(int), np.ceil(centre + reach).astype(int))
    left, top = (page.width - side) // 2, (page.height - side) // 2
    mode = "L" if levels.shape[2] == 1 else "RGB"
    square = page.crop((left, top, left + side, top + side)).convert(mode)
    means = np.asarray(square.resize((size, size), Image.Resampling.BOX)).reshape(levels.shape)
    return known, np.where((known & ~clean)[:, :, None], means, levels)


def _any_in_spans(flags: Flags, start: npt.NDArray[np.int_], end: npt.NDArray[np.int_]) -> Flags:
    """Return [n, n] bool. Element (i, j) tells whether any flag is set in a rectangle.

    The rectangle has the rows start[i] to end[i] - 1 and the columns start[j] to end[j] - 1.
    """
    spans = [slice(max(a, 0), b) for a, b in zip(start.tolist(), end.tolist(), strict=True)]
    rows = np.stack([flags[span].any(axis=0) for span in spans])
    return np.stack([rows[:, span].any(axis=1) for span in spans], axis=1)
