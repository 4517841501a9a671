"""`complete`: one picture, many answers."""

import copy
import functools
from pathlib import Path

import torch

from condvae import weights
from condvae.completion.record import CompletionSettings, Made, ModelId
from condvae.completion.result import Completion
from condvae.conditional import ConditionalVAE
from condvae.images.holes import Box, Half, Hole
from condvae.images.reading import FileId, Picture, PictureLike, read_picture, shown
from condvae.images.sheets import visible
from condvae.images.view import View, view
from condvae.runtime.checks import check_choice, check_whole
from condvae.runtime.fingerprints import file_sha256
from condvae.runtime.pixels import to_uint8
from condvae.sampling.plain import PixelChoice
from condvae.sampling.sampler import DEFAULT_PIXELS, DEFAULT_TEMPERATURE, Sampler
from condvae.vdvae.model import VDVAE
from condvae.vdvae.temperature import TemperatureLike

DEVICES = ("cpu", "cuda")


def complete(
    image: PictureLike,
    *,
    known: PictureLike | None = None,
    hole: PictureLike | None = None,
    box: Box | None = None,
    half: Half | None = None,
    random: bool = False,
    model: str | Path | ConditionalVAE = weights.DEFAULT_MODEL,
    n: int = 8,
    temperature: TemperatureLike = DEFAULT_TEMPERATURE,
    seed: int = 0,
    pixels: PixelChoice = DEFAULT_PIXELS,
    share: int | None = None,
    keep_size: bool = False,
    chunk: int | None = None,
) -> Completion:
    """n answers to what stands in the hidden part of an image: a path, a PIL image or an array [H, W, C].

    What is hidden: `known` (white, or True in an array of bool, is known), `hole` (white, or True, is hidden), a box
    (x, y, width, height in the image's pixels), a half, what the model was trained on (`random`), or else the image's
    transparent pixels. docs/completing.md has the rest.
    """
    way = Hole(known=known, hole=hole, box=box, half=half, random=random)
    settings = CompletionSettings(
        n=n, temperature=temperature, seed=seed, pixels=pixels, share=share, keep_size=keep_size
    )
    picture = read_picture(image)
    return PictureCompleter(model, settings, chunk=chunk)(picture, way)


class PictureCompleter:
    """A model and what is to be drawn from it, for any number of pictures."""

    def __init__(
        self,
        model: str | Path | ConditionalVAE,
        settings: CompletionSettings,
        *,
        device: str | None = None,
        chunk: int | None = None,
    ) -> None:
        """A device moves the model there; a model in memory stays where it is unless one is named."""
        if chunk is not None:
            check_whole(chunk, "the chunk", least=1)
        self.identity: ModelId | None = None
        if isinstance(model, VDVAE):
            raise ValueError("the model is an unconditional VAE: condition it first, with condvae train")
        if not isinstance(model, str | Path | ConditionalVAE):
            raise ValueError(f"the model is a {type(model).__name__}, expected a name, a path or a ConditionalVAE")
        if not isinstance(model, ConditionalVAE):
            self.identity, opened = open_model(model, device or "cpu")
            if not isinstance(opened, ConditionalVAE):
                raise ValueError(f"{shown(model)} is an unconditional VAE: condition it first with condvae train")
            model = opened
        elif device is not None:
            check_device(device)
            model = model.to(device)
        self.model: ConditionalVAE = model
        self.settings = settings.checked(model.artifact.config)
        self.device = model.device
        self.sampler = Sampler(model, chunk=chunk)

    def made(self, hole: Hole) -> Made:
        """What stands in a record."""
        return Made(
            settings=self.settings,
            hole=hole,
            model=self.identity,
            device=self.device.type,
            precision=self.sampler.precision if self.settings.share is None else "fp32",
        )

    def view(self, picture: Picture, hole: Hole) -> View:
        """What the model sees of a picture; a ValueError if the two do not go together."""
        return view(self.model, picture, hole, seed=self.settings.seed, keep_size=self.settings.keep_size)

    def __call__(self, picture: Picture, hole: Hole) -> Completion:
        """Complete one picture."""
        settings, artifact = self.settings, self.model.artifact
        seen = self.view(picture, hole)
        drawn = self.sampler(
            seen.observation,
            settings.n,
            seed=settings.seed,
            temperature=settings.temperature,
            pixels=settings.pixels,
            share=settings.share,
        )
        images = drawn[0].permute(0, 2, 3, 1).contiguous().cpu().numpy()
        observed = to_uint8(visible(artifact, seen.observation))[0].permute(1, 2, 0).cpu().numpy()
        return Completion(
            images=images,
            original=seen.levels,
            observed=observed,
            known=seen.known,
            notes=seen.notes,
            view=seen,
            made=self.made(hole),
            file=picture.file,
        )


def open_model(name: str | Path, device: str = "cpu") -> tuple[ModelId, VDVAE | ConditionalVAE]:
    """A model by name, and which one it is; calls in a row load it once."""
    path = weights.locate(name)
    check_device(device)
    stat = path.stat()
    identity, model = _loaded(path.resolve(), stat.st_size, stat.st_mtime_ns)
    by_name = path != Path(name) and path.parent != Path(name)
    if device != "cpu":
        model = copy.deepcopy(model).to(device)  # the one that was opened may serve other calls
    return ModelId(name=str(name), file=FileId(path, identity), by_name=by_name), model


@functools.lru_cache(maxsize=1)
def _loaded(path: Path, size: int, changed: int) -> tuple[str, VDVAE | ConditionalVAE]:
    """A file's digest and its model: loaded once, unless the file changes."""
    return file_sha256(path), weights.load(path)


def check_device(device: str) -> None:
    """A ValueError for a device that there is not."""
    check_choice(device, "the device", DEVICES)
    if device == "cuda" and not torch.cuda.is_available():
        raise ValueError("the device is cuda, but no GPU that torch can use was found: use the CPU")
