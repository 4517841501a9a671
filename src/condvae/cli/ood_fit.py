"""condvae ood fit."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from condvae.cli import shared
from condvae.cli.model_data import open_as_trained
from condvae.cli.shared import say
from condvae.weights.model_names import DEFAULT_MODEL

if TYPE_CHECKING:
    from condvae.conditional import ConditionalVAE
    from condvae.ood import Fit, Score
    from condvae.ood.inference import EncoderKind
    from condvae.vdvae import VDVAE

_FEWEST = 99
"""Held-out observations, below which the lowest percentile that there is is above 1; and images, for the like."""


@dataclass(frozen=True, kw_only=True)
class OODFit:
    """Learn what is ordinary to a model, from its training images: a small file beside it, NAME.ood.safetensors.

    A score is fitted to training images, observed as in training, and taken on held-out ones, with which `condvae ood
    score` compares. Of a conditional model both: for partly hidden images and for whole ones. With the file beside the
    model, `condvae complete` warns of images in the strangest 1 %.
    """

    data: shared.Data = None
    model: shared.Model = DEFAULT_MODEL
    score: Annotated[str, tyro.conf.arg(metavar="NAME")] = "parts-4"
    """gradient: the temperature gradient, as in the paper. parts: its two terms apart. channels: with a temperature for
    each channel of the latents, in a larger file. likelihood: the bound of log p. NAME-K is a mean over K draws of the
    latents. docs/results/ood.md has others."""
    fit_images: int = 5000
    """Training images that are fitted, evenly over all."""
    held_out: Annotated[int, tyro.conf.arg(metavar="N")] = 5000
    """Held-out observations to compare with: of validation images, several of each with different holes if need be."""
    validation: shared.Validation = None
    split_seed: shared.SplitSeed = None
    seed: shared.Seed = 0
    out: shared.OutFile = None
    """Another place for the file, which condvae ood score --fit takes; needed for models of the package or the hub."""
    device: shared.Device = "auto"

    def run(self) -> None:
        if self.data is None:
            raise ValueError("no data was given: --data takes the images that the model was trained on")
        if self.out is not None and self.out.suffix != ".safetensors":
            raise ValueError(f"the file {self.out} was asked for, expected a name that ends in .safetensors")
        from condvae import weights
        from condvae.ood import Inference, fit_path, fit_score, save_fits, score_of
        from condvae.ood.fitting import check_fittable
        from condvae.runtime.devices import resolve_device
        from condvae.runtime.folders import check_writable

        score = score_of(self.score)
        check_fittable(score)
        device = resolve_device(self.device)
        path = weights.locate(self.model)
        if self.out is None:
            _check_own(self.model, path)
        out = fit_path(path) if self.out is None else self.out
        _check_free(out)
        check_writable(out.parent)
        model, header = weights.load(path).to(device), weights.describe(path)
        data = open_as_trained(self.data, header, validation=self.validation, split_seed=self.split_seed)
        say(data.summary())
        fits = []
        for kind in _kinds(score, model):
            what = "partly hidden images, as in training" if kind == "partial" else "whole images"
            say(f"fitting {score.name} to {what} ...")
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
            say(_told(fits[-1]))
        save_fits(out, fits)
        print(f"wrote {out}, {out.stat().st_size / 2**10:.0f} KiB")


def _check_own(model: str, path: Path) -> None:
    """Raise a ValueError unless the place beside a model is the user's: neither the installation nor a cache is."""
    from condvae.weights.model_names import MODELS

    if path.resolve().parent == MODELS.resolve():
        where = "comes with condvae, and its own fit lies beside it in the installation"
    elif not Path(model).exists():
        where = "is a model of the hub, of which only a cache is here"
    else:
        return
    raise ValueError(f"{model} {where}: give --out FILE, and use it with condvae ood score --fit FILE")


def _check_free(out: Path) -> None:
    """Raise a ValueError where something lies that is no fit: a model, say, which a new one of is not soon made."""
    from condvae.ood.fit_file import KIND
    from condvae.weights import sealed_file

    if out.is_dir():
        raise ValueError(f"{out} is a folder, where the file should be: give another --out")
    if not out.exists():
        return
    try:
        sealed_file.read(out, kind=KIND)
    except ValueError as error:
        raise ValueError(f"{out} is there already, and not a fit that can be replaced: give another --out") from error
    say(f"{out} will be replaced")


def _kinds(score: "Score", model: "VDVAE | ConditionalVAE") -> "list[EncoderKind]":
    """What a model can judge by this score: what is known of images, and whole ones."""
    from condvae.conditional import ConditionalVAE

    possible: list[EncoderKind] = ["partial", "whole"] if isinstance(model, ConditionalVAE) else ["whole"]
    if not (kinds := [kind for kind in possible if score.kind in (None, kind)]):
        raise ValueError(f"{score.name} is a score of partly hidden images, which an unconditional VAE does not take")
    return kinds


def _told(fit: "Fit") -> str:
    record = fit.record
    fitted = f"fitted to {record['images']:,}, " if fit.density else ""
    text = f"{fitted}to be compared with {record['held_out']:,} held-out ones"
    if record["held_out"] > record["held_out_images"]:
        text += f" of {record['held_out_images']:,} images"
    if record["held_out"] < _FEWEST:
        text += f": with fewer than {_FEWEST} nothing can be in the strangest 1 %"
    elif record["held_out_images"] < _FEWEST:
        text += f": fewer than {_FEWEST} different ones say little of what is in the strangest 1 %"
    return text
