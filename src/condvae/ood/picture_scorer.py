"""`strangeness`: how strange one picture is to a model, as far as it is seen."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from condvae import weights
from condvae.conditional import ConditionalVAE
from condvae.images.holes import Box, Half, Hole
from condvae.images.model_view import as_batch, make_view, whole_levels
from condvae.images.reading import Picture, PictureLike, printable, read_picture
from condvae.observe import Observation
from condvae.ood.fit_file import fits_beside, load_fits
from condvae.ood.fitting import STRANGE, Fit, joined
from condvae.ood.inference import EncoderKind, Inference
from condvae.ood.measuring import known_share, measure_observation
from condvae.ood.scores import score_of
from condvae.runtime.checks import check_seed
from condvae.runtime.fingerprints import FileId
from condvae.vdvae import VDVAE
from condvae.weights.cached_models import ModelId, open_model


@dataclass(frozen=True, kw_only=True)
class Strangeness:
    """What a model makes of a picture."""

    score: float
    """Higher is more ordinary. Of fitted scores, as all that are fitted by default, a log-density in nats."""
    percentile: float
    """How many in a hundred held-out training images with about as much known are as strange, or stranger."""
    known_share: float
    """Of the image's pixels, as the model sees it: 1 for the whole, 0 where no pixels are observed, as with edges."""
    kind: EncoderKind
    """partial: judged by what is known of it. whole: by all of it, through the VAE's own encoder."""
    score_name: str
    notes: tuple[str, ...] = ()
    """What was done to the picture, in sentences."""

    @property
    def strange(self) -> bool:
        """Whether it is in the strangest 1 %, where about one in a hundred ordinary pictures is too."""
        return self.percentile <= STRANGE


@dataclass(frozen=True, kw_only=True, eq=False)
class ScoringInput:
    """What is judged of a picture."""

    kind: EncoderKind
    observation: Observation
    """Of a batch of one, on the CPU."""
    notes: tuple[str, ...] = ()
    file: FileId | None = None
    hole_file: FileId | None = None
    """Where it was read what is hidden."""

    @property
    def nbytes(self) -> int:
        """Memory that it takes."""
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
    model: str | Path | VDVAE | ConditionalVAE = weights.DEFAULT_MODEL,
    fit: str | Path | None = None,
    seed: int = 0,
) -> Strangeness:
    """How strange an image is to a model: a path, a PIL image or an array [H, W, C].

    What is hidden is said as for `condvae.complete`; where it is not, and nothing is transparent, the whole image is
    judged. fit: the file of `condvae ood fit`; None: the one beside the model. docs/results/ood.md has the rest.
    """
    way = Hole(known=known, hole=hole, box=box, half=half, random=random)
    picture = read_picture(image)
    scorer = PictureScorer(model, fit=fit, seed=seed)
    return scorer([scorer.view(picture, way)])[0]


class PictureScorer:
    """A model and its fits, for any number of pictures."""

    def __init__(
        self,
        model: str | Path | VDVAE | ConditionalVAE,
        *,
        fit: str | Path | None = None,
        seed: int = 0,
        device: str = "cpu",
    ) -> None:
        """device: where a model is opened; one in memory stays where it is."""
        check_seed(seed)
        self.seed = seed
        self.identity: ModelId | None = None
        if isinstance(model, str | Path):
            self.identity, model = open_model(model, device)
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
            raise ValueError("the model is in memory, and nothing lies beside it: give the file of its fit")
        found = fits_beside(self.identity.file.path)
        if found is None:
            raise ValueError(
                f"{self.name} has no fit, which says what is ordinary to it: make one of its training images with "
                f"condvae ood fit --data DATA --model {self.name}, or name the file of one with --fit"
            )
        return found

    def view(self, picture: Picture, hole: Hole) -> ScoringInput:
        """What will be judged of a picture; a ValueError if it cannot be."""
        if isinstance(self.model, VDVAE) and hole.ways:
            raise ValueError(
                f"{self.name} is an unconditional VAE and sees whole images alone: leave out {hole.ways[0]}, "
                "or condition it first with condvae train"
            )
        if isinstance(self.model, VDVAE) or self._is_whole(self.model, picture, hole):
            return self._whole(picture)
        self.fit_for("partial")
        seen = make_view(self.model, picture, hole, seed=self.seed, keep_size=False)
        if seen.observation.known is not None and seen.known.all():
            return self._whole(picture)
        if seen.observation.known is not None and not seen.known.any():
            raise ValueError(f"nothing of {picture.name} is known, so nothing can be said of it: hide less")
        return ScoringInput(
            kind="partial",
            observation=seen.observation,
            notes=seen.notes,
            file=picture.file,
            hole_file=seen.hole_file,
        )

    def _whole(self, picture: Picture) -> ScoringInput:
        self.fit_for("whole")
        inference = self.inferences["whole"]
        levels, notes = whole_levels(picture, inference.vae.config)
        observation = inference.observe(as_batch(levels).x)
        return ScoringInput(kind="whole", observation=observation, notes=notes, file=picture.file)

    def fit_for(self, kind: EncoderKind) -> Fit:
        """The fit of a kind; a ValueError if there is none."""
        if kind not in self.fits:
            what = "images of which some is hidden" if kind == "partial" else "whole images"
            raise ValueError(f"{printable(self.path)} is not fitted to {what}: run condvae ood fit --model {self.name}")
        return self.fits[kind]

    def __call__(self, inputs: Sequence[ScoringInput]) -> list[Strangeness]:
        """Each as if it were alone: all share their random numbers."""
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
        """Whether all of a picture is judged: a model that completes holes is told of none."""
        return not hole.ways and model.completes_holes and not picture.transparent.any()
