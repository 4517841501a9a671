"""Warn of pictures that are strange to the model, in `condvae.complete` and `condvae complete`."""

from condvae.completion.inspection import Inspected
from condvae.conditional import ConditionalVAE
from condvae.images.model_view import ModelView
from condvae.ood.fit_file import fits_beside
from condvae.ood.fitting import STRANGE
from condvae.ood.picture_scorer import PictureScorer, ScoringInput
from condvae.runtime.messages import printable
from condvae.weights.cached_models import ModelId


def warnings_of_completions(model: ConditionalVAE, identity: ModelId, seed: int) -> "CompletionWarnings | None":
    """Return an object that warns of pictures that are strange to the model, or None if no fit is next to its file."""
    return None if fits_beside(identity.file.path) is None else CompletionWarnings(model, identity, seed)


class CompletionWarnings:
    """Warns of pictures that are strange to a model, judging the same observation that is completed.

    If a picture cannot be judged, the reason is reported and completing continues.
    """

    def __init__(self, model: ConditionalVAE, identity: ModelId, seed: int) -> None:
        self.name = printable(identity.name)
        self.failure: str | None = None
        """The reason why no picture can be judged, such as a damaged fit; None if there is no such reason."""
        try:
            self.scorer = PictureScorer(model, fit=fits_beside(identity.file.path), seed=seed)
            self.scorer.fit_for("partial")
        except (ValueError, RuntimeError) as error:
            self.failure = f"strange images cannot be detected: {_one_line(error)}"

    def __call__(self, view: ModelView) -> Inspected:
        """Judge how strange a picture is, from the observation that is completed; the result may hold a warning."""
        if self.failure is not None:
            return Inspected(failure=self.failure)
        if view.observation.known is not None and not view.known.any():
            return Inspected()  # nothing is known, so nothing can be strange
        picture = "the image" if view.file is None else printable(view.file.path)
        try:
            (found,) = self.scorer([ScoringInput(kind="partial", observation=view.observation)])
        except (ValueError, RuntimeError) as error:  # RuntimeError: out of memory, which need not affect completing
            return Inspected(failure=f"cannot tell whether {picture} is strange to {self.name}: {_one_line(error)}")
        warning = (
            f"warning: {picture} is in the strangest {STRANGE:g} % for {self.name} (percentile {found.percentile:.1f} "
            "among held-out training images): its completions may be poor"
        )
        return Inspected(strangeness=found, warning=warning if found.strange else None)


def _one_line(error: Exception) -> str:
    return " ".join(str(error).splitlines())
