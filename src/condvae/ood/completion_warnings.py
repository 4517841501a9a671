"""What `condvae.complete` and `condvae complete` say of pictures that are strange to their model."""

from condvae.completion.inspection import Inspected
from condvae.conditional import ConditionalVAE
from condvae.images.model_view import ModelView
from condvae.images.reading import printable
from condvae.ood.fit_file import fits_beside
from condvae.ood.fitting import STRANGE
from condvae.ood.picture_scorer import PictureScorer, ScoringInput
from condvae.weights.cached_models import ModelId


def warnings_of_completions(model: ConditionalVAE, identity: ModelId, seed: int) -> "CompletionWarnings | None":
    """What judges the pictures that a model completes; None where no fit lies beside it."""
    return None if fits_beside(identity.file.path) is None else CompletionWarnings(model, identity, seed)


class CompletionWarnings:
    """Judges pictures by what their completions see of them; completing goes on whatever goes wrong here."""

    def __init__(self, model: ConditionalVAE, identity: ModelId, seed: int) -> None:
        self.name = printable(identity.name)
        self.failure: str | None = None
        """Why no picture can be judged."""
        try:
            self.scorer = PictureScorer(model, fit=fits_beside(identity.file.path), seed=seed)
            self.scorer.fit_for("partial")
        except (ValueError, RuntimeError) as error:
            self.failure = f"no warnings of strange images: {_one_line(error)}"

    def __call__(self, view: ModelView) -> Inspected:
        """How strange a picture is, from the observation that its completions were drawn by."""
        if self.failure is not None:
            return Inspected(failure=self.failure)
        if view.observation.known is not None and not view.known.any():
            return Inspected()  # nothing of it is seen: there is nothing to be strange
        picture = "the image" if view.file is None else printable(view.file.path)
        try:
            (found,) = self.scorer([ScoringInput(kind="partial", observation=view.observation)])
        except (ValueError, RuntimeError) as error:  # RuntimeError: memory, which completing may have enough of
            return Inspected(failure=f"whether {picture} is strange to {self.name} cannot be said: {_one_line(error)}")
        warning = (
            f"warning: {picture} is in the strangest {STRANGE:g} % for {self.name} (percentile {found.percentile:.1f} "
            "among held-out training images): its completions may be poor"
        )
        return Inspected(strangeness=found, warning=warning if found.strange else None)


def _one_line(error: Exception) -> str:
    return " ".join(str(error).splitlines())
