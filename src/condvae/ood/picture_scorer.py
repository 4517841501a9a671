"""Compute how strange a picture, whole or partly hidden, is to a model."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from condvae import weights
from condvae.conditional import ConditionalVAE
from condvae.images.holes import Box, Half, Hole, MaskMeaning
from condvae.images.model_levels import as_batch, whole_levels
from condvae.images.model_view import make_view
from condvae.images.reading import Picture, PictureLike, read_picture
from condvae.observe import Observation
from condvae.ood.features import known_share, measure_observation
from condvae.ood.fit_file import fits_beside, load_fits
from condvae.ood.fitting import STRANGE, Fit, joined
from condvae.ood.inference import EncoderKind, Inference
from condvae.ood.scores import score_of
from condvae.runtime.checks import check_seed, check_white
from condvae.runtime.fingerprints import FileId
from condvae.runtime.messages import printable
from condvae.vdvae import VDVAE
from condvae.weights.artifact_file import as_vae
from condvae.weights.cached_models import ModelId, open_model


@dataclass(frozen=True, kw_only=True)
class Strangeness:
    """The result of scoring one picture: how strange it is to a model."""

    score: float
    """The score; higher is more ordinary. With a fitted density, as by default, it is a log-density in nats."""
    percentile: float
    """The percentage of held-out images that are at least as strange, among those with about the same known share."""
    known_share: float
    """The fraction of the pixels that is known, from 0 to 1; 0 if the model observes edges or a label instead."""
    kind: EncoderKind
    """The encoder that was used. "partial": the partial encoder, on an observation of the picture. "whole": the VAE's
    own encoder, on the whole picture."""
    score_name: str
    notes: tuple[str, ...] = ()
    """Sentences that tell the user how the picture was changed before scoring, such as by cropping and resizing."""

    @property
    def strange(self) -> bool:
        """Whether the percentile is 1 or less. This is the case for about 1 % of ordinary pictures, too."""
        return self.percentile <= STRANGE


@dataclass(frozen=True, kw_only=True, eq=False)
class ScoringInput:
    """A picture in the form in which it is scored: an observation, and the encoder to use."""

    kind: EncoderKind
    observation: Observation
    """The observation of the picture, as a batch of one on the CPU."""
    notes: tuple[str, ...] = ()
    file: FileId | None = None
    hole_file: FileId | None = None
    """The picture file that marks known or hidden pixels, if one was given."""

    @property
    def nbytes(self) -> int:
        """The memory that the observation takes, in bytes."""
        seen = self.observation
        return sum(part.nbytes for part in (seen.y, seen.known, seen.pixels) if part is not None)


def strangeness(
    image: PictureLike,
    *,
    known: PictureLike | None = None,
    hole: PictureLike | None = None,
    box: Box | None = None,
    half: Half | None = None,
    random: bool = False,
    mask: PictureLike | None = None,
    mask_is: MaskMeaning | None = None,
    fit_mask: bool = False,
    model: str | Path | VDVAE | ConditionalVAE = weights.DEFAULT_MODEL,
    fit: str | Path | None = None,
    seed: int = 0,
    white: int | None = None,
) -> Strangeness:
    """Return how strange an image is to a model.

    image: a path, an open binary file, a PIL image, an array [H, W, C] or a tensor [C, H, W]. known, hole, box, half,
    random, mask, mask_is and fit_mask mark hidden pixels, as in `condvae.complete`. If no pixel is hidden or
    transparent, the whole image is scored. fit: a file written by `condvae ood fit`; by default, the file next to the
    model file. white: the grey level that is white in an image with 16-bit pixels. See docs/guides/detect.md.
    """
    check_white(white)
    hidden = Hole(
        known=known, hole=hole, box=box, half=half, random=random, mask=mask, mask_is=mask_is, fit_mask=fit_mask
    )
    picture = read_picture(image, white=white)
    scorer = PictureScorer(model, fit=fit, seed=seed)
    return scorer([scorer.view(picture, hidden)])[0]


class PictureScorer:
    """Scores any number of pictures with one model and its fits."""

    def __init__(
        self,
        model: str | Path | VDVAE | ConditionalVAE,
        *,
        fit: str | Path | None = None,
        seed: int = 0,
        device: str = "cpu",
    ) -> None:
        """Load the model, if given by name or path, to `device`; load its fits from `fit` or next to the model file."""
        check_seed(seed)
        self.seed = seed
        self.identity: ModelId | None = None
        if isinstance(model, str | Path):
            self.identity, opened = open_model(model, device)
            model = as_vae(opened, model)
        if not isinstance(model, VDVAE | ConditionalVAE):
            raise ValueError(f"the model is a {type(model).__name__}, expected a name, a path, or a model in memory")
        self.model: VDVAE | ConditionalVAE = model
        self.name = "the model" if self.identity is None else printable(self.identity.name)
        self.path = self._file() if fit is None else Path(fit)
        self.fits = load_fits(self.path, model)
        self.scores = {kind: score_of(fit.score) for kind, fit in self.fits.items()}
        self.inferences = {kind: Inference.of(model, kind) for kind in self.fits}

    def _file(self) -> Path:
        if self.identity is None:
            raise ValueError("the model is in memory and has no file with a fit next to it: give a fit file with fit=")
        found = fits_beside(self.identity.file.path)
        if found is None:
            raise ValueError(
                f"{self.name} has no fit to compare images with: make one from its training images with "
                f"condvae ood fit --data DATA --model {self.name}, or give a fit file with --fit"
            )
        return found

    def view(self, picture: Picture, hole: Hole) -> ScoringInput:
        """Return a picture in the form in which it is scored. Raise ValueError if the picture cannot be scored."""
        hole = hole.for_picture(picture)
        if isinstance(self.model, VDVAE) and hole.ways:
            raise ValueError(
                f"{self.name} is an unconditional VAE and only takes whole images: leave out {hole.ways[0]}, "
                "or first train a partial encoder for it with condvae train"
            )
        if isinstance(self.model, VDVAE) or self._is_whole(self.model, picture, hole):
            return self._whole(picture)
        self.fit_for("partial")
        seen = make_view(self.model, picture, hole, seed=self.seed, keep_size=False)
        if seen.nothing_hidden is not None:
            return self._whole(picture, seen.notes)
        if seen.observation.known is not None and not seen.known.any():
            raise ValueError(f"no pixel of {picture.name} is known, so it cannot be scored: hide fewer pixels")
        return ScoringInput(
            kind="partial",
            observation=seen.observation,
            notes=seen.notes,
            file=picture.file,
            hole_file=seen.hole_file,
        )

    def _whole(self, picture: Picture, more: tuple[str, ...] = ()) -> ScoringInput:
        self.fit_for("whole")
        inference = self.inferences["whole"]
        levels, notes = whole_levels(picture, inference.vae.config)
        observation = inference.observe(as_batch(levels).x)
        return ScoringInput(
            kind="whole", observation=observation, notes=tuple(dict.fromkeys(notes + more)), file=picture.file
        )

    def fit_for(self, kind: EncoderKind) -> Fit:
        """Return the fit for partly hidden or for whole images. Raise ValueError if the model has no such fit."""
        if kind not in self.fits:
            what = "partly hidden images" if kind == "partial" else "whole images"
            raise ValueError(f"{printable(self.path)} has no fit for {what}: run condvae ood fit --model {self.name}")
        return self.fits[kind]

    def __call__(self, inputs: Sequence[ScoringInput]) -> list[Strangeness]:
        """Return the strangeness of each input. All use the same random numbers, and none affects the others."""
        found: dict[int, Strangeness] = {}
        for kind, fit in self.fits.items():
            rows = [i for i, one in enumerate(inputs) if one.kind == kind]
            if not rows:
                continue
            observation = joined(inputs[i].observation for i in rows)
            features = measure_observation(
                self.scores[kind], self.inferences[kind], observation, seed=self.seed, places=[0] * len(rows)
            )
            shares = known_share(observation)
            scores = fit.score_values(features)
            for i, score, share, percentile in zip(rows, scores, shares, fit.percentile(scores, shares), strict=True):
                found[i] = Strangeness(
                    score=float(score),
                    percentile=float(percentile),
                    known_share=float(share),
                    kind=kind,
                    score_name=fit.score,
                    notes=inputs[i].notes,
                )
        return [found[i] for i in range(len(inputs))]

    @staticmethod
    def _is_whole(model: ConditionalVAE, picture: Picture, hole: Hole) -> bool:
        """Whether to score the whole picture. This is so if the model completes holes and no pixel is hidden."""
        return not hole.ways and model.completes_holes and not picture.transparent.any()
