"""The sub-verb `condvae ood fit`."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from condvae.cli import shared
from condvae.cli.help_text import described, explained
from condvae.cli.model_data import open_as_trained
from condvae.cli.shared import say
from condvae.ood.score_names import DEFAULT_SCORE, SCORE_MEANINGS
from condvae.weights.model_names import DEFAULT_MODEL

if TYPE_CHECKING:
    from condvae.conditional import ConditionalVAE
    from condvae.ood import Fit, Score
    from condvae.ood.inference import EncoderKind
    from condvae.vdvae import VDVAE

_FEWEST_HELD_OUT = 99
"""With fewer held-out observations than this, or fewer images, the strangest 1 % cannot be determined reliably."""


@explained(
    score=f"The score that measures strangeness: {described(SCORE_MEANINGS)}. {shared.SCORE_NUMBERS_HELP}",
)
@dataclass(frozen=True, kw_only=True)
class OODFit:
    """Prepare a model for `condvae ood score`: learn from its training images what is ordinary.

    The result, called a fit, is a small file next to the model, NAME.ood.safetensors. It contains the density of a
    score on training images, and the scores of held-out images; for a conditional model, it contains these for partly
    hidden images and for whole images. With this file, `condvae complete` warns of images that are among the strangest
    1 %.
    """

    data: shared.Data = ()
    model: shared.Model = DEFAULT_MODEL
    score: Annotated[str, tyro.conf.arg(metavar="NAME")] = DEFAULT_SCORE
    fit_images: int = 5000
    """How many training images to fit the density of a score to. They are spread evenly over the training set."""
    held_out: Annotated[int, tyro.conf.arg(metavar="N")] = 5000
    """How many observations of held-out images to store in the fit; `condvae ood score` compares images with them. If
    there are fewer held-out images, each is observed several times, with different holes."""
    validation: shared.Validation = None
    split_seed: shared.SplitSeed = None
    seed: shared.Seed = 0
    out: shared.OutFile = None
    """Write the fit to this .safetensors file instead of the file next to the model, and give it to `condvae ood score
    --fit` later. This is required for embedded models and for models from the hub."""
    device: shared.Device = "auto"
    quiet: shared.Quiet = False

    def run(self) -> None:
        if not self.data:
            raise ValueError("no data was given: give --data with the images that the model was trained on")
        if self.out is not None and self.out.suffix != ".safetensors":
            raise ValueError(f"{self.out} does not end in .safetensors: give --out a name that does")
        from condvae import weights
        from condvae.ood import Inference, fit_path, fit_score, save_fits, score_of
        from condvae.ood.fitting import check_fittable
        from condvae.runtime.devices import resolve_device
        from condvae.weights.artifact_file import as_vae

        score = score_of(self.score)
        check_fittable(score)
        device = resolve_device(self.device)
        path = weights.locate(self.model)
        if self.out is None:
            _check_user_file(self.model, path)
        out = fit_path(path) if self.out is None else self.out
        _check_free(out)
        model, header = as_vae(weights.load(path), self.model).to(device), weights.describe(path)
        data = open_as_trained(self.data, header, validation=self.validation, split_seed=self.split_seed)
        say(data.summary())
        fits = []
        for kind in _kinds(score, model):
            what = "partly hidden images, as in training" if kind == "partial" else "whole images"
            say(f"fitting the score {score.name} to {what} ...")
            fits.append(
                fit_score(
                    score,
                    Inference.of(model, kind),
                    data,
                    images=self.fit_images,
                    held_out=self.held_out,
                    seed=self.seed,
                    say=say,
                )
            )
            (shared.warn if _too_few(fits[-1]) else say)(_summary(fits[-1]))
        save_fits(out, fits)
        say(f"wrote {out}, {out.stat().st_size / 2**10:.0f} KiB")


def _check_user_file(model: str, path: Path) -> None:
    """Raise a ValueError if the model's file is in the installed package or in a cache, where no fit may be written."""
    from condvae.weights.model_names import MODELS

    if path.resolve().parent == MODELS.resolve():
        where = "is installed with condvae, together with its own fit"
    elif not Path(model).exists():
        where = "is a model of the hub, and only a cached copy is on this machine"
    else:
        return
    raise ValueError(f"{model} {where}: give --out FILE, and later use condvae ood score --fit FILE")


def _check_free(out: Path) -> None:
    """Raise a ValueError if `out` is a folder, or a file other than a fit, which must not be overwritten."""
    from condvae.ood.fit_file import KIND
    from condvae.runtime.folders import check_replaceable
    from condvae.weights import sealed_file

    check_replaceable(out, what="a fit of condvae ood fit", ours=lambda path: sealed_file.kind_of(path) == KIND)
    if out.exists():
        say(f"{out} will be replaced")


def _kinds(score: "Score", model: "VDVAE | ConditionalVAE") -> "list[EncoderKind]":
    """Return the kinds of images that this score and model apply to: partly hidden images, whole images, or both."""
    from condvae.conditional import ConditionalVAE

    possible: list[EncoderKind] = ["partial", "whole"] if isinstance(model, ConditionalVAE) else ["whole"]
    if not (kinds := [kind for kind in possible if score.kind in (None, kind)]):
        raise ValueError(
            f"the score {score.name} is only for partly hidden images, which an unconditional VAE cannot score: "
            "choose another --score, or a conditional model"
        )
    return kinds


def _too_few(fit: "Fit") -> bool:
    """Return whether there are too few held-out observations or images for a reliable percentile of 1."""
    return bool(min(fit.record["held_out"], fit.record["held_out_images"]) < _FEWEST_HELD_OUT)


def _summary(fit: "Fit") -> str:
    """Return the line to print after a fit: how many images the fit is based on, and whether they are enough."""
    record = fit.record
    fitted = f"fitted to {record['images']:,} training images; " if fit.density else ""
    text = f"{fitted}percentiles compare with {record['held_out']:,} held-out observations"
    if record["held_out"] > record["held_out_images"]:
        text += f" of {record['held_out_images']:,} images"
    if record["held_out"] < _FEWEST_HELD_OUT:
        text += f": with fewer than {_FEWEST_HELD_OUT}, no image can be in the strangest 1 %"
    elif record["held_out_images"] < _FEWEST_HELD_OUT:
        text += f": with fewer than {_FEWEST_HELD_OUT} different images, the strangest 1 % is unreliable"
    return text
