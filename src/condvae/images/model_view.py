"""Prepare a picture for a model, and paste completions back into the picture.

A model sees the picture's middle square, which is its largest centred square, resized to the model's image size.
"""

import hashlib
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from PIL import Image
from torch import Tensor

from condvae.conditional import ConditionalVAE
from condvae.images.contact_sheet import to_pil
from condvae.images.decode import fit
from condvae.images.holes import Flags, Hole, known_half
from condvae.images.reading import Picture
from condvae.observe import KnownPixels, Observation
from condvae.observe.batch import Batch
from condvae.runtime import pixels
from condvae.runtime.fingerprints import FileId
from condvae.runtime.pixels import PixelArray
from condvae.vdvae import VDVAEConfig

_LANCZOS_REACH = 3  # reach of Pillow's filter, in pixels of the smaller image


class Surroundings(NamedTuple):
    """The whole picture, into which completions are pasted."""

    page: Image.Image
    """The whole picture, in mode L or RGB."""
    hidden: Flags
    """[side, side] bool: True where a pixel of the middle square is hidden. side: the square's width in pixels."""


@dataclass(frozen=True, kw_only=True, eq=False)
class ModelView:
    """A picture as a model sees it: its middle square at the model's image size, and which pixels are known."""

    file: FileId | None
    """The file that the picture was read from, if any."""
    size: tuple[int, int]
    """Width and height of the whole picture, in pixels."""
    hole: Hole
    levels: PixelArray
    """[S, S, C] uint8: the middle square at the model's image size S."""
    known: Flags
    """[S, S] bool: True where a pixel is known; False everywhere if observations have no known pixels, as for edges."""
    observation: Observation
    """The observation of this picture, as a batch of one image on the CPU."""
    notes: tuple[str, ...]
    hole_file: FileId | None = None
    """The picture file that the hole was read from, if any."""
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

    def pasted(self, levels: PixelArray) -> Image.Image:
        """Enlarge a completion [S, S, C] uint8 and paste it into the whole picture; only hidden pixels change."""
        assert self.surroundings is not None  # kept if `make_view` was called with keep_size=True
        page, hidden = self.surroundings
        mode = "RGB" if levels.shape[2] == 3 else page.mode
        whole = np.array(page.convert(mode))
        # Not Lanczos, which overshoots along the edges of a face; enlarging would make this visible.
        square = to_pil(as_tensor(levels)).resize(hidden.shape, Image.Resampling.BICUBIC).convert(mode)
        x, y = self.corner
        whole[y : y + self.side, x : x + self.side][hidden] = np.asarray(square)[hidden]
        return Image.fromarray(whole)


def make_view(model: ConditionalVAE, picture: Picture, hole: Hole, *, seed: int, keep_size: bool) -> ModelView:
    """Prepare a picture for a model; raise ValueError if the hole does not suit the model or the picture.

    seed: sets the random hole, if one is drawn. keep_size: keep the whole picture, so that completions can be pasted.
    """
    config = model.artifact.config
    if not model.completes_holes and hole.ways:
        observes = model.process.name if model.process else "something else"
        raise ValueError(f"this model observes {observes} and does not complete holes: leave out {hole.ways[0]}")
    transparency = model.completes_holes and hole.way == "transparency"
    page = picture.colours if transparency else picture.on_white()
    notes = _notes(picture, config.image_size, on_white=not transparency)
    levels = fit(page, channels=config.channels, size=config.image_size)
    hole_file = None
    if model.completes_holes:
        hidden, more, hole_file = _hidden(model, picture, hole, levels, seed=seed, keep_size=keep_size)
        notes += more
        known, levels = _without_hidden(page, hidden, levels)
        observation = model.observe(as_batch(levels).x, torch.from_numpy(known)[None, None])
    else:
        observation = _translated(model, levels, seed)
        known = np.zeros(levels.shape[:2], dtype=bool)
        hidden = np.ones((min(picture.size),) * 2, dtype=bool)
    return ModelView(
        file=picture.file,
        size=picture.size,
        hole=hole,
        levels=levels,
        known=known,
        observation=observation,
        notes=tuple(notes),
        hole_file=hole_file,
        surroundings=Surroundings(page, hidden) if keep_size else None,
    )


def whole_levels(picture: Picture, config: VDVAEConfig) -> tuple[PixelArray, tuple[str, ...]]:
    """Return a picture's middle square at the model's image size S, [S, S, C] uint8, with transparent pixels on white.

    Also return messages for the user that tell how the picture was cropped and resized.
    """
    levels = fit(picture.on_white(), channels=config.channels, size=config.image_size)
    return levels, tuple(_notes(picture, config.image_size, on_white=True))


def as_batch(levels: PixelArray) -> Batch:
    """Convert one image [H, W, C] uint8 to a batch of one image."""
    return Batch(x=pixels.from_uint8(as_tensor(levels)[None]))


def as_tensor(levels: PixelArray) -> Tensor:
    """Convert an image from an array [H, W, C] to a tensor [C, H, W]."""
    return torch.from_numpy(np.array(levels)).permute(2, 0, 1)


def _hidden(
    model: ConditionalVAE, picture: Picture, hole: Hole, levels: PixelArray, *, seed: int, keep_size: bool
) -> tuple[Flags, tuple[str, ...], FileId | None]:
    """Return which pixels of the middle square are hidden, [side, side] bool.

    Also return messages for the user about these pixels, and the picture file that the hole was read from, if any.
    """
    side = min(picture.size)
    whole, notes, file = hole.hidden(picture)
    if whole is None:
        known = known_half(hole.half, len(levels)) if hole.half else _drawn(model, levels, seed)
        return _enlarged(~known, side), notes, file
    hidden, outside = _middle(whole, side)
    if outside and keep_size:
        notes += (f"{picture.name}: hidden pixels outside its middle square stay as they are ({outside:,} in all)",)
    if not hidden.any():
        where = " in its middle square, which is all that the model sees" if outside else ""
        notes += (f"{picture.name} has no hidden pixels{where}: there is nothing to complete",)
    return hidden, notes, file


def _notes(picture: Picture, size: int, *, on_white: bool) -> list[str]:
    notes = list(picture.notes)
    width, height = picture.size
    side = min(width, height)
    if (width, height) != (size, size):
        what = "it" if width == height else f"its middle {side} x {side}"
        then = f"resized to {size} x {size}" if side != size else "used"
        notes.append(f"{picture.name} is {width} x {height}: {what} is {then}")
    if on_white and picture.alpha is not None:
        notes.append(f"{picture.name} has transparent pixels: they are shown on white")
    return notes


def _translated(model: ConditionalVAE, levels: PixelArray, seed: int) -> Observation:
    if model.process is None:
        raise ValueError("this model does not record what it observes, and it does not complete holes: train it again")
    return model.process.observe(
        as_batch(levels), normalise=model.artifact.normalise, generator=_generator(levels, seed)
    )


def _drawn(model: ConditionalVAE, levels: PixelArray, seed: int) -> Flags:
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
