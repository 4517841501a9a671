"""Prepare a picture for a model that translates: the given picture shows edges, grey levels or less detail."""

from typing import NamedTuple

import numpy as np
from torch import Tensor

from condvae.conditional import ConditionalVAE
from condvae.images.decode import fit
from condvae.images.drawings import kind_of, lines_of, square_page
from condvae.images.image_completer import ImageCompleter
from condvae.images.image_meanings import ImageIs
from condvae.images.model_levels import as_batch, resizing_notes, whole_levels
from condvae.images.reading import Picture
from condvae.observe import Edges, LowResolution, Observation, Paired, PictureProcess
from condvae.runtime.pixels import PixelArray


class TranslationInput(NamedTuple):
    """A picture that was given to a translation model, and the observation that was made from it."""

    levels: PixelArray
    """[S, S, C] uint8: the given picture at the model's image size S."""
    observation: Observation
    notes: tuple[str, ...]
    nothing_shown: str | None
    """If the observation shows nothing, a sentence that says so and what to do; otherwise None."""


class _Shown(NamedTuple):
    """The picture that a process shows to the model, [1, C', H', W'] in [-1, 1], and what was given."""

    pictures: Tensor
    levels: PixelArray
    notes: tuple[str, ...]
    nothing: str | None = None


def check_suits(model: ImageCompleter, *, image_is: ImageIs, keep_size: bool) -> None:
    """Raise ValueError if a model cannot be given pictures, or if these settings do not suit what it observes."""
    process = None
    if not model.completes_holes:
        assert isinstance(model, ConditionalVAE)
        process = _process_of(model)
    if image_is == "drawing" and not isinstance(process, Edges):
        observes = "known pixels" if process is None else process.name
        raise ValueError(
            f"image_is is 'drawing', but this model observes {observes}, and only models that observe edges take "
            "drawings: leave out --image-is"
        )
    if keep_size and process is not None:
        raise ValueError(
            f"this model observes {process.name} and draws the whole image, so no pixels of the given picture can be "
            "kept: leave out --keep-size"
        )


def translation_input(model: ConditionalVAE, picture: Picture, image_is: ImageIs) -> TranslationInput:
    """Make the observation of a translation model from a picture; raise ValueError if the picture does not suit it."""
    process = _process_of(model)
    if isinstance(process, Edges):
        shown = _edges(model, process, picture, image_is)
    elif isinstance(process, Paired):
        shown = _paired(model, process, picture)
    elif isinstance(process, LowResolution):
        shown = _low_resolution(model, process, picture)
    else:
        shown = _of_photo(model, process, picture)
    observation = process.show(shown.pictures, normalise=model.artifact.normalise)
    return TranslationInput(shown.levels, observation, shown.notes, shown.nothing)


def _process_of(model: ConditionalVAE) -> PictureProcess:
    """Return the process of a model that does not complete holes; raise ValueError if it does not observe pictures."""
    process = model.process
    if process is None:
        raise ValueError("this model does not record what it observes, and it does not complete holes: train it again")
    if not isinstance(process, PictureProcess):
        needs = "a class label or findings" if process.name == "label" else process.name
        raise ValueError(
            f"this model needs {needs}, which cannot be read from a picture: use it in Python, as the training guide "
            "(docs/guides/train.md) shows"
        )
    return process


def _of_photo(model: ConditionalVAE, process: PictureProcess, picture: Picture) -> _Shown:
    levels, notes = whole_levels(picture, model.artifact.config)
    return _Shown(process.pictures_of(as_batch(levels)), levels, notes)


def _edges(model: ConditionalVAE, process: Edges, picture: Picture, image_is: ImageIs) -> _Shown:
    config = model.artifact.config
    kind = kind_of(picture, config.image_size) if image_is == "auto" else image_is
    if kind == "photo":
        shown = _of_photo(model, process, picture)
        said = _said(picture, image_is, "photo", "its edges are found", "drawing")
        nothing = f"{picture.name} has no edges: give a drawing with clear lines, or a photo with clear outlines"
        return shown._replace(
            notes=(*shown.notes, *said), nothing=nothing if bool((shown.pictures > 0).all()) else None
        )
    lines = lines_of(picture, config.image_size)
    drawn = np.where(lines, np.uint8(0), np.uint8(255))[:, :, None].repeat(config.channels, axis=2)
    page = np.asarray(square_page(picture, channels=config.channels, size=config.image_size))
    notes = (*picture.notes, *_said(picture, image_is, "drawing", "its lines are used as they are", "photo"))
    return _Shown(as_batch(drawn).x, page.reshape(drawn.shape), notes)


def _said(picture: Picture, image_is: ImageIs, kind: str, what: str, other: str) -> tuple[str, ...]:
    """Return a message for the user about what a picture was taken for, if this was decided by its pixels."""
    if image_is != "auto":
        return ()
    return (f"{picture.name} is taken for a {kind}: {what}; give --image-is {other} if it is a {other}",)


def _paired(model: ConditionalVAE, process: Paired, picture: Picture) -> _Shown:
    config = model.artifact.config
    if process.channels_of_pair not in (1, 3):
        raise ValueError(
            f"this model observes pictures with {process.channels_of_pair} channels, but pictures that can be read "
            "have 1 or 3: use it in Python with condvae.Sampler"
        )
    levels, notes = whole_levels(picture, config)
    other = fit(picture.on_white(), channels=process.channels_of_pair, size=config.image_size)
    return _Shown(as_batch(other).x, levels, notes)


def _low_resolution(model: ConditionalVAE, process: LowResolution, picture: Picture) -> _Shown:
    config = model.artifact.config
    small = config.image_size // process.factor
    if picture.size != (small, small):
        return _of_photo(model, process, picture)
    given = fit(picture.on_white(), channels=config.channels, size=small)
    levels = given.repeat(process.factor, axis=0).repeat(process.factor, axis=1)
    return _Shown(as_batch(given).x, levels, tuple(resizing_notes(picture, small, on_white=True)))
