"""The function `complete`, which draws completions of one picture, and the class that does the work."""

import functools
import warnings
from collections.abc import Callable
from pathlib import Path

from condvae import weights
from condvae.completion.inspection import Inspection, Inspector, strangeness_inspector
from condvae.completion.record import Provenance
from condvae.completion.result import Completion
from condvae.completion.settings import CompletionSettings
from condvae.conditional import ConditionalVAE
from condvae.images.holes import Box, Half, Hole
from condvae.images.model_sheets import visible
from condvae.images.model_view import ModelView, make_view
from condvae.images.reading import Picture, PictureLike, printable, read_picture
from condvae.runtime.devices import resolve_device
from condvae.runtime.messages import DegenerateSamples, StrangeImage
from condvae.runtime.pixels import to_uint8
from condvae.sampling.degenerate import check_flaws, saturation_warning
from condvae.sampling.plain import PixelChoice
from condvae.sampling.sampler import Sampler
from condvae.vdvae.model import VDVAE
from condvae.vdvae.temperature import TemperatureLike, per_group
from condvae.weights.cached_models import ModelId, open_conditional


def complete(
    image: PictureLike,
    *,
    known: PictureLike | None = None,
    hole: PictureLike | None = None,
    box: Box | None = None,
    half: Half | None = None,
    random: bool = False,
    model: str | Path | ConditionalVAE = weights.DEFAULT_MODEL,
    n: int = CompletionSettings.n,
    temperature: TemperatureLike = CompletionSettings.temperature,
    seed: int = CompletionSettings.seed,
    pixels: PixelChoice = CompletionSettings.pixels,
    share: int | None = CompletionSettings.share,
    keep_size: bool = CompletionSettings.keep_size,
    white: int | None = CompletionSettings.white,
    chunk: int | None = None,
    device: str | None = None,
    judge: bool = True,
) -> Completion:
    """Draw n completions of an image. The image is a path, a PIL image or an array [H, W, C].

    Define the hidden pixels with at most one of these arguments. Without any, transparent pixels are hidden.
    known: a picture whose white pixels are known, or an array of bool that is True where a pixel is known.
    hole: a picture whose white pixels are hidden, or an array of bool that is True where a pixel is hidden.
    box: hide the rectangle (x, y, width, height), in pixels of the image; x, y is its top left corner.
    half: hide the "left", "right", "top" or "bottom" half of the middle square, the largest centred square.
    random: draw the hidden pixels from the observation process that the model was trained with.

    device: "auto", "cpu", "cuda" or "cuda:N". None means the CPU; a model given as an object stays on its device.
    judge: find out at once whether the image is strange to the model, and warn if it is. On a CPU, this takes as long
    as about 8 completions. If False, it is found out when `strangeness` or `warnings` of the result is first read.
    docs/guides/complete.md explains the other arguments.
    """
    way = Hole(known=known, hole=hole, box=box, half=half, random=random)
    settings = CompletionSettings(
        n=n, temperature=temperature, seed=seed, pixels=pixels, share=share, keep_size=keep_size, white=white
    )
    picture = read_picture(image, white=settings.white)
    completer = PictureCompleter(model, settings, device=device, chunk=chunk)
    result = completer(completer.view(picture, way))
    for line in result.flaws:
        warnings.warn(line.removeprefix("warning: "), DegenerateSamples, stacklevel=2)
    for line in result.warnings[len(result.flaws) :] if judge else ():
        warnings.warn(line.removeprefix("warning: "), StrangeImage, stacklevel=2)
    return result


class PictureCompleter:
    """Completes any number of pictures with one model and the same settings."""

    def __init__(
        self,
        model: str | Path | ConditionalVAE,
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
        if isinstance(model, ConditionalVAE):
            model = model if device is None else model.to(resolve_device(device))
        elif isinstance(model, str | Path):
            self.identity, model = open_conditional(model, device or "cpu")
        else:
            raise ValueError(
                f"the model is a {type(model).__name__}, expected a model's name, a path or a ConditionalVAE"
            )
        self.model: ConditionalVAE = model
        self.settings = settings.checked(model.artifact.config)
        self.sampler = Sampler(model, chunk=chunk)
        self.inspector: Callable[[], Inspector | None] = lambda: None
        if self.identity is not None and inspect is not None:
            # Made on first use, because judging takes as long as a few completions and many callers do not need it.
            self.inspector = functools.cache(functools.partial(inspect, model, self.identity, settings.seed))

    def provenance(self, hole: Hole) -> Provenance:
        """Return the model, settings, device and precision, for the record of the call."""
        return Provenance(
            settings=self.settings,
            hole=hole,
            model=self.identity,
            device=self.model.device.type,
            precision=self.sampler.precision if self.settings.share is None else "fp32",
        )

    def view(self, picture: Picture, hole: Hole) -> ModelView:
        """Prepare a picture for the model; raise ValueError if the hole does not fit the picture or the model."""
        return make_view(self.model, picture, hole, seed=self.settings.seed, keep_size=self.settings.keep_size)

    def __call__(self, view: ModelView) -> Completion:
        """Draw the completions of one picture."""
        settings = self.settings
        drawn, flaws = self.sampler.drawn(
            view.observation,
            settings.n,
            seed=settings.seed,
            temperature=settings.temperature,
            pixels=settings.pixels,
            share=settings.share,
        )
        temperature = max(per_group(settings.temperature, self.model.artifact.config))
        of = f" of {'the image' if view.file is None else printable(view.file.path)}"
        saturated = check_flaws(flaws, temperature, what="completion", of=of)
        warning = saturation_warning(saturated, settings.n, temperature, what="completion", of=of)
        images = drawn[0].permute(0, 2, 3, 1).contiguous().cpu().numpy()
        observed = to_uint8(visible(self.model.artifact, view.observation))[0].permute(1, 2, 0).cpu().numpy()
        return Completion(
            images=images,
            observed=observed,
            view=view,
            provenance=self.provenance(view.hole),
            flaws=(f"warning: {warning}",) if saturated else (),
            inspector=self.inspector,
        )
