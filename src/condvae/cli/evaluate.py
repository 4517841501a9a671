"""The verb that measures completions: evaluate."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro

from condvae.weights.embedded import DEFAULT_MODEL

if TYPE_CHECKING:
    import torch

    from condvae.experiments.evaluation import EvaluationSettings, FeatureNetworks, Method, Problems, Subject


@dataclass(frozen=True, kw_only=True)
class Evaluate:
    """Measure a model, fillers and other programs' completions on test images, in five ranges of the hidden share.

    FID, KID, P-IDS, LPIPS-GT, diversity, FWV, pixel errors, coverage and bits per dimension, with standard errors, as
    JSON, CSV, Markdown and figures. A killed call goes on where it was; a method can be added to a folder later;
    torchrun or --shard share the work out.
    """

    model: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="MODEL")] = DEFAULT_MODEL
    """A conditional model by name, file, run folder, or owner/name on the hub; none for the other methods alone."""
    data: Annotated[str | None, tyro.conf.arg(metavar="DATA")] = None
    """Images with training and test images: a folder, a zip, a standard layout, or cifar10 once fetched."""
    size: Annotated[int | None, tyro.conf.arg(metavar="N")] = None
    """Resize images to N x N; as they are if not given."""
    out: Annotated[Path, tyro.conf.arg(aliases=["-o"])] = Path("evaluation")
    """Folder for the results."""
    temperature: Annotated[tuple[str, ...], tyro.conf.arg(metavar="T")] = ("1",)
    """One or several, each a number, or one per resolution of latents such as 8:0.9,16:0.7."""
    pixels: tuple[Literal["mean", "sample"], ...] = ("mean",)
    """Means of the pixel distributions, or samples of them, or both: every temperature is measured with each. Where
    there is a noise floor, means lean to overconfidence in white projections."""
    against: tuple[Literal["mean", "random", "nearest", "harmonic"], ...] = ("mean", "random", "nearest", "harmonic")
    """Fillers: training mean, random training image, nearest training images, smooth fill. Nothing after it: none."""
    completions: Annotated[tuple[str, ...], tyro.conf.arg(metavar="NAME=FOLDER")] = ()
    """Completions that other programs have made; see --inputs-to."""
    images: Annotated[int, tyro.conf.arg(metavar="N")] = 2000
    """Test images that are completed once, for FID, KID and P-IDS."""
    deep_images: Annotated[int | None, tyro.conf.arg(metavar="N")] = None
    """Of these, so many are completed K times; 500, or --images if less, where not given."""
    k: Annotated[int, tyro.conf.arg(metavar="K")] = 100
    """Completions of each of these."""
    bits_images: Annotated[int | None, tyro.conf.arg(metavar="N")] = None
    """Test images for the VAE's bits per dimension; as many as --images if not given."""
    metrics: tuple[Literal["all", "inception", "lpips", "pixels", "coverage", "bounds"], ...] = ("all",)
    """Groups: inception is FID, KID, P-IDS and U-IDS; lpips is LPIPS-GT, diversity and FWV; bounds is of models."""
    lpips: Literal["alex", "vgg"] = "alex"
    """The network of LPIPS."""
    precision: Literal["exact", "fast"] = "exact"
    """Of Inception's features on a GPU: fast is half precision."""
    seed: Annotated[int, tyro.conf.arg(metavar="N")] = 0
    """Decides holes, completions and all else that is random."""
    device: str = "auto"
    """auto, cpu, cuda or cuda:N."""
    shard: Annotated[str | None, tyro.conf.arg(metavar="I/N")] = None
    """Measure only the I-th of N shares, for job arrays; a call without it, after all of them, writes the report."""
    keep_parts: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False
    """Keep the files that numbers were made of, features too."""
    inputs_to: Annotated[Path | None, tyro.conf.arg(metavar="DIR")] = None
    """Write the images and holes for another program to DIR, and stop."""
    redraw: Annotated[Path | None, tyro.conf.arg(metavar="DIR")] = None
    """Draw the figures of an earlier --out again from its numbers, and stop."""

    def run(self) -> None:
        if self.redraw is not None:
            from condvae.experiments.evaluation.figures import redraw

            print(f"wrote {', '.join(map(str, redraw(self.redraw)))}")
            return
        if self.data is None:
            raise ValueError("no data was given: --data takes images with training and test images")
        from condvae.data import open_data
        from condvae.experiments.evaluation import Problems, evaluate, write_inputs
        from condvae.experiments.resumable_work import Shard
        from condvae.runtime.folders import check_apart
        from condvae.runtime.ranks import join

        settings = self._settings()
        folders = [_named(text) for text in self.completions]
        check_apart(self.data, self.out if self.inputs_to is None else self.inputs_to)
        if self.inputs_to is not None:
            data = open_data(self.data, size=self.size)
            write_inputs(Problems.choose(data, settings), self.inputs_to, k=settings.k)
            print(f"wrote {self.inputs_to}, where README.txt says what to do")
            return
        with join(self.device) as world:
            shard = Shard.of_text(self.shard, ranks=world.size)
            networks = self._networks(settings, world.device)
            data = open_data(self.data, size=self.size)
            problems = Problems.choose(data, settings)
            models = self._models(problems, world.device)
            methods = self._methods(models, data, problems, settings, folders)
            evaluate(
                methods,
                data,
                self.out,
                settings=settings,
                networks=networks,
                models=models,
                data_name=Path(self.data).name,
                world=world,
                shard=shard,
                keep_parts=self.keep_parts,
                say=lambda text: print(text, flush=True),
            )

    def _settings(self) -> "EvaluationSettings":
        from condvae.experiments.evaluation import FAMILIES, EvaluationSettings

        chosen: Any = FAMILIES if "all" in self.metrics else tuple(dict.fromkeys(self.metrics))
        return EvaluationSettings(
            images=self.images,
            deep_images=self.deep_images,
            k=self.k,
            seed=self.seed,
            bits_images=self.bits_images,
            metrics=chosen,
        )

    def _networks(self, settings: "EvaluationSettings", device: "torch.device") -> "FeatureNetworks":
        from condvae.experiments.evaluation import FeatureNetworks
        from condvae.metrics import LPIPS, Inception

        return FeatureNetworks(
            lpips=LPIPS.load(trunk=self.lpips).to(device) if settings.needs_lpips else None,
            inception=Inception.load(precision=self.precision).to(device) if "inception" in settings.metrics else None,
        )

    def _models(self, problems: "Problems", device: "torch.device") -> "list[Subject]":
        if self.model == "none":
            return []
        from condvae import weights
        from condvae.experiments.evaluation.methods import check_fit, subject_of

        path = weights.locate(self.model)
        name, record = weights.title_of(self.model, path), weights.describe(path).record
        model = subject_of(weights.load_conditional(path).to(device), name, record=record)
        check_fit(model, problems)
        return [model]

    def _methods(
        self,
        models: "list[Subject]",
        data: Any,
        problems: "Problems",
        settings: "EvaluationSettings",
        folders: list[tuple[str, Path]],
    ) -> "list[Method]":
        from condvae.experiments.evaluation import ExternalCompletions, baselines, methods_of

        deep = bool({"lpips", "pixels", "coverage"} & set(settings.metrics))
        methods = [ExternalCompletions.open(name, folder, problems, k=self.k, deep=deep) for name, folder in folders]
        ours = [m for model in models for m in methods_of(model, self.temperature, self.pixels, k=self.k, say=print)]
        return [*ours, *methods, *baselines(self.against, data)]


def _named(text: str) -> tuple[str, Path]:
    name, equals, folder = text.partition("=")
    if not (equals and name.strip() and folder):
        raise ValueError(f"--completions {text} cannot be read, expected NAME=FOLDER, such as comodgan=out/comodgan")
    return name.strip(), Path(folder)
