"""The function `complete`, which draws completions of pictures."""

import itertools
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, TypedDict, Unpack, overload

from condvae import weights
from condvae.completers.learned_completer import LearnedCompleter
from condvae.completion.picture_completer import PictureCompleter
from condvae.completion.result import Completion
from condvae.completion.settings import CompletionSettings
from condvae.conditional import ConditionalVAE
from condvae.images.holes import Box, Half, Hole, MaskMeaning
from condvae.images.image_meanings import FacePart, ImageIs
from condvae.images.reading import PictureLike, read_picture
from condvae.runtime.messages import DegenerateSamples, StrangeImage
from condvae.sampling.plain import PixelChoice
from condvae.vdvae.temperature import TemperatureLike


class CompleteArguments(TypedDict, total=False):
    """The arguments of `complete` after the image, with their types, except `face`."""

    known: PictureLike | Sequence[PictureLike] | None
    hole: PictureLike | Sequence[PictureLike] | None
    box: Box | None
    half: Half | None
    part: FacePart | None
    random: bool
    mask: PictureLike | Sequence[PictureLike] | None
    mask_is: MaskMeaning | None
    fit_mask: bool
    model: str | Path | ConditionalVAE | LearnedCompleter
    n: int
    temperature: TemperatureLike
    seed: int
    pixels: PixelChoice
    share: int | None
    keep_size: bool
    hard_edges: bool
    same_noise: bool
    white: int | None
    image_is: ImageIs
    chunk: int | None
    device: str | None
    judge: bool


# A str is also a sequence of str: it is one image, by the first two signatures.
@overload
def complete(  # type: ignore[overload-overlap]
    image: PictureLike, *, face: bool | int = False, **arguments: Unpack[CompleteArguments]
) -> Completion: ...


@overload
def complete(  # type: ignore[overload-overlap]
    image: PictureLike, *, face: Literal["all"], **arguments: Unpack[CompleteArguments]
) -> list[Completion]: ...


@overload
def complete(
    image: Sequence[PictureLike], *, face: bool | int = False, **arguments: Unpack[CompleteArguments]
) -> list[Completion]: ...


@overload
def complete(
    image: Sequence[PictureLike], *, face: Literal["all"], **arguments: Unpack[CompleteArguments]
) -> list[list[Completion]]: ...


def complete(
    image: PictureLike | Sequence[PictureLike],
    *,
    known: PictureLike | Sequence[PictureLike] | None = None,
    hole: PictureLike | Sequence[PictureLike] | None = None,
    box: Box | None = None,
    half: Half | None = None,
    part: FacePart | None = None,
    random: bool = False,
    mask: PictureLike | Sequence[PictureLike] | None = None,
    mask_is: MaskMeaning | None = None,
    fit_mask: bool = False,
    face: bool | int | Literal["all"] = False,
    model: str | Path | ConditionalVAE | LearnedCompleter = weights.DEFAULT_MODEL,
    n: int = CompletionSettings.n,
    temperature: TemperatureLike = CompletionSettings.temperature,
    seed: int = CompletionSettings.seed,
    pixels: PixelChoice = CompletionSettings.pixels,
    share: int | None = CompletionSettings.share,
    keep_size: bool = CompletionSettings.keep_size,
    hard_edges: bool = CompletionSettings.hard_edges,
    same_noise: bool = CompletionSettings.same_noise,
    white: int | None = CompletionSettings.white,
    image_is: ImageIs = CompletionSettings.image_is,
    chunk: int | None = None,
    device: str | None = None,
    judge: bool = True,
) -> Completion | list[Completion] | list[list[Completion]]:
    """Draw n completions of an image, or of each image in a list; for a list, return a list of results.

    An image is a path, an open binary file such as `io.BytesIO`, a PIL image, an array [H, W] or [H, W, C], or a tensor
    [C, H, W]. Arrays and tensors contain uint8 grey levels, or floats in [0, 1].

    Some models do not complete holes but translate: they observe edges, a grey or a smaller version of the image. Give
    them such a picture, or a photo, and none of these arguments. image_is says whether a picture for a model of edges
    is a "photo" or a "drawing"; with "auto", its pixels decide.

    Define the hidden pixels with at most one of these arguments. Without any, transparent pixels are hidden, and the
    masked pixels of a NumPy masked array.
    known: a picture whose white pixels are known, or an array or tensor of bool that is True where a pixel is known.
    hole: a picture whose white pixels are hidden, or an array or tensor of bool that is True where a pixel is hidden.
    box: hide the rectangle (x, y, width, height), in pixels of the image; x, y is its top left corner.
    half: hide the "left", "right", "top" or "bottom" half of the square that the model sees.
    part: hide the "eyes", "mouth" or "nose" of a face, or its "left" or "right" half as seen in the image.
    random: draw the hidden pixels from the observation process that the model was trained with.
    mask: a picture as for known or hole; mask_is, "known" or "hole", says for which of the two.

    For a list of images, known, hole and mask may be lists too, with one picture for each image. If they are pictures
    of another size than the image, fit_mask=True resizes them.

    The model sees the middle square of the image, which is the largest centred one. With face=True, it sees the largest
    face instead, turned and framed as in its training; face=2 is the second largest face. The pictures of the result
    are whole photos. With face="all", each image has a list of results: one for each face, the largest first.
    device: "auto", "cpu", "cuda" or "cuda:N". None means the CPU; a model given as an object stays on its device.
    judge: find out at once whether the image is strange to the model, and warn if it is. On a CPU, this takes as long
    as several completions. If False, it is found out when `strangeness` or `warnings` of the result is first read.
    docs/guides/complete.md explains the other arguments.
    """
    several = isinstance(image, list | tuple)
    if several and not image:
        raise ValueError("the list of images is empty: give at least one image")
    images: list[Any] = list(image) if isinstance(image, list | tuple) else [image]

    def each(name: str, given: Any) -> Any:
        """Return one value for each image, from a list or from the value for all."""
        if not (several and isinstance(given, list | tuple)):
            return [given] * len(images)
        if len(given) != len(images):
            raise ValueError(
                f"{name} is a list of {len(given)}, but {len(images)} images were given: give one for each image"
            )
        return given

    pictured = zip(each("known", known), each("hole", hole), each("mask", mask), strict=True)
    holes = [
        Hole(
            known=one,
            hole=two,
            box=box,
            half=half,
            part=part,
            random=random,
            mask=three,
            mask_is=mask_is,
            fit_mask=fit_mask,
        )
        for one, two, three in pictured
    ]
    settings = CompletionSettings(
        n=n,
        temperature=temperature,
        seed=seed,
        pixels=pixels,
        share=share,
        keep_size=keep_size,
        face=face,
        hard_edges=hard_edges,
        same_noise=same_noise,
        white=white,
        image_is=image_is,
    )
    names = [f"image {k + 1} of the list" for k in range(len(images))] if several else ["the image"]
    pictures = [read_picture(one, name=name, white=white) for one, name in zip(images, names, strict=True)]
    completer = PictureCompleter(model, settings, device=device, chunk=chunk)
    views = [
        completer.views(picture, way.for_file(picture.file.path) if picture.file else way)
        for picture, way in zip(pictures, holes, strict=True)
    ]
    every = [completer.complete_views(one) for one in views]
    for result in itertools.chain.from_iterable(every):
        for line in result.flaws:
            warnings.warn(line.removeprefix("warning: "), DegenerateSamples, stacklevel=2)
        for line in result.warnings[len(result.flaws) :] if judge else ():
            warnings.warn(line.removeprefix("warning: "), StrangeImage, stacklevel=2)
    if settings.face == "all":
        return every if several else every[0]
    results = [one for (one,) in every]
    return results if several else results[0]
