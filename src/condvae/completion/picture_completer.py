"""The class that completes pictures with one model: it prepares a picture and draws its completions."""

import functools
import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from condvae.completers.learned_completer import LearnedCompleter
from condvae.completion.drawing import BaselineDrawer, Drawer, ModelDrawer
from condvae.completion.face_squares import check_squares, choose_squares, framing_of, hint_of, usual_square
from condvae.completion.inspection import Inspection, Inspector, strangeness_inspector
from condvae.completion.record import Provenance
from condvae.completion.result import Completion
from condvae.completion.settings import CompletionSettings
from condvae.conditional import ConditionalVAE
from condvae.faces import Framing
from condvae.images.face_parts import FaceSquare
from condvae.images.holes import Hole
from condvae.images.model_sheets import visible
from condvae.images.model_view import ModelView, make_views
from condvae.images.reading import Picture
from condvae.images.translation_inputs import check_suits
from condvae.runtime.devices import resolve_device
from condvae.runtime.fingerprints import FileId
from condvae.runtime.messages import printable
from condvae.runtime.pixels import to_uint8
from condvae.vdvae.model import VDVAE
from condvae.weights.cached_models import ModelId, open_completer

_PHOTOS_WITH_HINTS = 3
"""In how many photos of a call a face is looked for, to give the hint that --face would complete it."""


@dataclass(frozen=True)
class PictureViews:
    """A picture as a model sees it: one square, or a square around each of its faces."""

    views: tuple[ModelView, ...]

    @property
    def nbytes(self) -> int:
        """Memory that the views take, in bytes. All views of a picture share its surroundings."""
        first, *others = self.views
        return first.nbytes + sum(replace(view, surroundings=None).nbytes for view in others)

    @property
    def hole_file(self) -> FileId | None:
        """The picture file that the hole was read from, if any."""
        return self.views[0].hole_file


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
        self.framing = framing_of(self.identity) if model.completes_holes else None
        self._photos_to_look_at = _PHOTOS_WITH_HINTS
        if settings.face is not None:
            self._check_framing("--face (face in Python)")
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

    def _check_framing(self, option: str) -> Framing:
        if not self.model.completes_holes:
            raise ValueError(f"this model translates whole pictures and does not complete faces: leave out {option}")
        if self.framing is None:
            raise ValueError(
                "this model has no card that says how faces are framed in its training images, as faces64 has: leave "
                f"out {option}, or use the model faces64"
            )
        return self.framing

    def view(self, picture: Picture, hole: Hole) -> ModelView:
        """Prepare one square of a picture, as `views` does."""
        return self.views(picture, hole).views[0]

    def views(self, picture: Picture, hole: Hole, faces: Sequence[FaceSquare] | None = None) -> PictureViews:
        """Prepare a picture for the model; raise ValueError if the hole does not fit, or nothing is hidden or seen.

        faces: the faces to complete, from a record; None to find them, if the settings say so.
        """
        settings, usual, found = self.settings, None, None
        if hole.part is not None:
            usual = usual_square(picture.size, self._check_framing(f"--part {hole.part} (part in Python)"))
        if settings.face is not None:
            found = list(faces or choose_squares(picture, self._check_framing("--face"), settings.face))
            check_squares(found, picture)
        views = make_views(
            self.model,
            picture,
            hole,
            found or [None],
            seed=settings.seed,
            keep_size=settings.keep_size,
            image_is=settings.image_is,
            usual=usual,
        )
        seen = tuple(view for view in views if (view.nothing_hidden or view.nothing_shown) is None)
        if not seen:
            raise ValueError(views[0].nothing_hidden or views[0].nothing_shown)
        if found is None and (hint := self._hint(picture)) is not None:
            seen = (replace(seen[0], notes=(*seen[0].notes, hint)),)
        return PictureViews(seen)

    def _hint(self, picture: Picture) -> str | None:
        """Return a hint to use --face, for the first few photos of the call that are larger than the model's images."""
        if self.framing is None or min(picture.size) <= self.model.image_size or not self._photos_to_look_at:
            return None
        self._photos_to_look_at -= 1
        return hint_of(picture, self.framing)

    def complete_views(self, prepared: PictureViews) -> list[Completion]:
        """Draw the completions of all views of one picture."""
        results = [self(view) for view in prepared.views]
        if len(results) > 1:
            for one in results:
                one.others.extend(results)
        return results

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
