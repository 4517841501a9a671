"""The function `complete`, which draws completions of pictures, and the class that does the work."""

import functools
import hashlib
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypedDict, Unpack, overload

import torch

from condvae import weights
from condvae.completers.learned_completer import LearnedCompleter
from condvae.completion.drawing import BaselineDrawer, Drawer, ModelDrawer
from condvae.completion.inspection import Inspection, Inspector, strangeness_inspector
from condvae.completion.record import Provenance
from condvae.completion.result import Completion
from condvae.completion.settings import CompletionSettings
from condvae.conditional import ConditionalVAE
from condvae.images.holes import Box, Half, Hole, MaskMeaning
from condvae.images.image_meanings import ImageIs
from condvae.images.model_sheets import visible
from condvae.images.model_view import ModelView, make_view
from condvae.images.reading import Picture, PictureLike, read_picture
from condvae.images.translation_inputs import check_suits
from condvae.runtime.devices import resolve_device
from condvae.runtime.messages import DegenerateSamples, StrangeImage, printable
from condvae.runtime.pixels import to_uint8
from condvae.sampling.plain import PixelChoice
from condvae.vdvae.model import VDVAE
from condvae.vdvae.temperature import TemperatureLike
from condvae.weights.cached_models import ModelId, open_completer


class CompleteArguments(TypedDict, total=False):
    """The arguments of `complete` after the image, with their types."""

    known: PictureLike | Sequence[PictureLike] | None
    hole: PictureLike | Sequence[PictureLike] | None
    box: Box | None
    half: Half | None
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


# A str is also a sequence of str: it is one image, by the first signature.
@overload
def complete(image: PictureLike, **arguments: Unpack[CompleteArguments]) -> Completion: ...  # type: ignore[overload-overlap]


@overload
def complete(image: Sequence[PictureLike], **arguments: Unpack[CompleteArguments]) -> list[Completion]: ...


def complete(
    image: PictureLike | Sequence[PictureLike],
    *,
    known: PictureLike | Sequence[PictureLike] | None = None,
    hole: PictureLike | Sequence[PictureLike] | None = None,
    box: Box | None = None,
    half: Half | None = None,
    random: bool = False,
    mask: PictureLike | Sequence[PictureLike] | None = None,
    mask_is: MaskMeaning | None = None,
    fit_mask: bool = False,
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
) -> Completion | list[Completion]:
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
    half: hide the "left", "right", "top" or "bottom" half of the middle square, the largest centred square.
    random: draw the hidden pixels from the observation process that the model was trained with.
    mask: a picture as for known or hole; mask_is, "known" or "hole", says for which of the two.

    For a list of images, known, hole and mask may be lists too, with one picture for each image. If they are pictures
    of another size than the image, fit_mask=True resizes them.
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
        Hole(known=one, hole=two, box=box, half=half, random=random, mask=three, mask_is=mask_is, fit_mask=fit_mask)
        for one, two, three in pictured
    ]
    settings = CompletionSettings(
        n=n,
        temperature=temperature,
        seed=seed,
        pixels=pixels,
        share=share,
        keep_size=keep_size,
        hard_edges=hard_edges,
        same_noise=same_noise,
        white=white,
        image_is=image_is,
    )
    names = [f"image {k + 1} of the list" for k in range(len(images))] if several else ["the image"]
    pictures = [read_picture(one, name=name, white=white) for one, name in zip(images, names, strict=True)]
    completer = PictureCompleter(model, settings, device=device, chunk=chunk)
    views = [
        completer.view(picture, way.for_file(picture.file.path) if picture.file else way)
        for picture, way in zip(pictures, holes, strict=True)
    ]
    results = [completer(view) for view in views]
    for result in results:
        for line in result.flaws:
            warnings.warn(line.removeprefix("warning: "), DegenerateSamples, stacklevel=2)
        for line in result.warnings[len(result.flaws) :] if judge else ():
            warnings.warn(line.removeprefix("warning: "), StrangeImage, stacklevel=2)
    return results if several else results[0]


class PictureCompleter:
    """Completes any number of pictures with one model and the same settings."""

    def __init__(
        self,
        model: str | Path | ConditionalVAE | LearnedCompleter,
        settings: CompletionSettings,
        *,
        device: str | None = None,
        chunk: int | None = None,
        inspect: Inspection | None = strangeness_inspector,
    ) -> None:
        """Open the model and move it to the device.

        device: None means the CPU; a model that is given as an object stays on its device.
        """
        self.identity: ModelId | None = None
        if isinstance(model, VDVAE):
            raise ValueError(
                "the model is an unconditional VAE: train a partial encoder for it first, with condvae train"
            )
        if isinstance(model, ConditionalVAE | LearnedCompleter):
            model = model if device is None else model.to(resolve_device(device))
        elif isinstance(model, str | Path):
            self.identity, model = open_completer(model, device or "cpu")
        else:
            raise ValueError(
                f"the model is a {type(model).__name__}, expected the name or path of a model, a ConditionalVAE or a "
                "baseline"
            )
        self.model: ConditionalVAE | LearnedCompleter = model
        self.drawer: Drawer
        self.inspector: Callable[[], Inspector | None] = lambda: None
        if isinstance(model, LearnedCompleter):
            self.drawer = BaselineDrawer(model, settings, chunk=chunk)
        else:
            self.drawer = ModelDrawer(model, settings, chunk=chunk)
        self.settings = self.drawer.settings
        check_suits(model, image_is=settings.image_is, keep_size=settings.keep_size)
        if self.identity is not None and inspect is not None and isinstance(model, ConditionalVAE):
            # Made on first use, because judging takes as long as a few completions and many callers do not need it.
            self.inspector = functools.cache(functools.partial(inspect, model, self.identity, settings.seed))

    def provenance(self, hole: Hole) -> Provenance:
        """Return the model, settings, device and precision, for the record of the call."""
        return Provenance(
            settings=self.settings,
            hole=hole,
            model=self.identity,
            device=self.model.device.type,
            precision=self.drawer.precision,
        )

    def view(self, picture: Picture, hole: Hole) -> ModelView:
        """Prepare a picture for the model; raise ValueError if the hole does not fit, or nothing is hidden or seen."""
        settings = self.settings
        view = make_view(
            self.model,
            picture,
            hole,
            seed=settings.seed,
            keep_size=settings.keep_size,
            image_is=settings.image_is,
        )
        if (nothing := view.nothing_hidden or view.nothing_shown) is not None:
            raise ValueError(nothing)
        return view

    def __call__(self, view: ModelView) -> Completion:
        """Draw the completions of one picture."""
        settings = self.settings
        seed = settings.seed if settings.same_noise else seed_for(view, settings.seed)
        of = f" of {'the image' if view.file is None else printable(view.file.path)}"
        drawn = self.drawer(view.observation, seed, of)
        config = self.model.artifact.config if isinstance(self.model, ConditionalVAE) else None
        observed = to_uint8(visible(view.observation, config))[0].permute(1, 2, 0).cpu().numpy()
        return Completion(
            images=drawn.images.permute(0, 2, 3, 1).contiguous().numpy(),
            observed=observed,
            view=view,
            provenance=self.provenance(view.hole),
            flaws=tuple(f"warning: {line}" for line in drawn.warnings),
            inspector=self.inspector,
        )


def seed_for(view: ModelView, seed: int) -> int:
    """Return the seed for the completions of one picture, made from the seed of the call and what the model sees.

    Nothing else has an influence: no hidden colour, no file name and no other picture of the call.
    """
    seen = view.observation
    digest = hashlib.sha256(seed.to_bytes(8, "little"))
    if seen.known is None or seen.pixels is None:
        digest.update(seen.y.numpy().tobytes())
    else:
        digest.update(seen.known.numpy().tobytes())
        digest.update(to_uint8(torch.where(seen.known, seen.pixels, 0.0)).numpy().tobytes())
    return int.from_bytes(digest.digest()[:8], "little")
