"""Warn of pictures that are strange to the model, when they are completed or scanned."""

from condvae.completion.inspection import Inspected
from condvae.conditional import ConditionalVAE
from condvae.images.model_levels import as_batch
from condvae.images.model_view import ModelView
from condvae.ood.fit_file import fits_beside
from condvae.ood.fitting import STRANGE
from condvae.ood.inference import EncoderKind
from condvae.ood.picture_scorer import PictureScorer, ScoringInput
from condvae.runtime.messages import printable
from condvae.weights.cached_models import ModelId
from condvae.weights.model_cards import card_at


def warnings_of_completions(
    model: ConditionalVAE, identity: ModelId, seed: int, *, kind: EncoderKind = "partial"
) -> "CompletionWarnings | None":
    """Return an object that warns of pictures that are strange to the model, or None if no fit is next to its file."""
    return None if fits_beside(identity.file.path) is None else CompletionWarnings(model, identity, seed, kind)


class CompletionWarnings:
    """Warns of pictures that are strange to a model.

    kind: "partial" to judge the same observation that is completed, "whole" to judge the whole picture. If a picture
    cannot be judged, the reason is reported and the work continues.
    """

    def __init__(self, model: ConditionalVAE, identity: ModelId, seed: int, kind: EncoderKind = "partial") -> None:
        self.name, self.kind = printable(identity.name), kind
        card = card_at(identity.file.path)
        self.subject = card.subject if card is not None and card.subject else "what the model was trained on"
        self.failure: str | None = None
        """The reason why no picture can be judged, such as a damaged fit; None if there is no such reason."""
        try:
            self.scorer = PictureScorer(model, fit=fits_beside(identity.file.path), seed=seed)
            self.scorer.fit_for(kind)
        except (ValueError, RuntimeError) as error:
            self.failure = f"strange images cannot be detected: {_one_line(error)}"

    def __call__(self, view: ModelView) -> Inspected:
        """Judge how strange a picture is; the result may hold a warning."""
        if self.failure is not None:
            return Inspected(failure=self.failure)
        if self.kind == "partial" and view.observation.known is not None and not view.known.any():
            return Inspected()  # nothing is known, so nothing can be strange
        picture = "the image" if view.file is None else printable(view.file.path)
        advice = f"crop it tightly to {self.subject}, and check that it is upright, not inverted and not too dark"
        if view.face is not None:
            picture = f"the face in {picture}"
            advice = f"check that it is {self.subject}, not inverted and not too dark"
        try:
            observation = view.observation
            if self.kind == "whole":
                observation = self.scorer.inferences["whole"].observe(as_batch(view.levels).x)
            (found,) = self.scorer([ScoringInput(kind=self.kind, observation=observation)])
        except (ValueError, RuntimeError) as error:  # RuntimeError: out of memory, which need not affect completing
            return Inspected(failure=f"cannot tell whether {picture} is strange to {self.name}: {_one_line(error)}")
        warning = (
            f"warning: {picture} is in the strangest {STRANGE:g} % for {self.name} (percentile {found.percentile:.1f} "
            f"among held-out training images), so the results may be poor: {advice}"
        )
        return Inspected(strangeness=found, warning=warning if found.strange else None)


def _one_line(error: Exception) -> str:
    return " ".join(str(error).splitlines())
