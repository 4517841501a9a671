"""condvae evaluate."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro

from condvae.cli import shared
from condvae.cli.shared import MODEL_HELP
from condvae.experiments.evaluation.plan import FAMILIES, EvaluationSettings, Family
from condvae.weights.model_names import DEFAULT_MODEL


@dataclass(frozen=True, kw_only=True)
class Evaluate(shared.Parsed, EvaluationSettings, shared.ExperimentOptions):
    """Measure a model, fillers and other programs' completions on test images, in five ranges of the hidden share.

    FID, KID, P-IDS, LPIPS-GT, diversity, FWV, pixel errors, coverage and bits per dimension, with standard errors, as
    JSON, CSV, Markdown and figures. A killed call goes on where it was; a method can be added to a folder later;
    torchrun or --shard share the work out.
    """

    model: Annotated[str, tyro.conf.arg(metavar="MODEL", help=f"{MODEL_HELP} none: the other methods alone.")] = (
        DEFAULT_MODEL
    )
    size: Annotated[int | None, tyro.conf.arg(metavar="N")] = None
    """Crop images to a square and resize them to N x N pixels."""
    out: shared.Out = Path("evaluation")
    """Folder for the results."""
    temperature: Annotated[tuple[str, ...], tyro.conf.arg(metavar="T")] = ("1",)
    """One or several, each a number, or one per resolution of latents such as 8:0.9,16:0.7."""
    pixels: tuple[Literal["mean", "sample"], ...] = ("mean",)
    """Means of the pixel distributions, or samples of them, or both: every temperature is measured with each. Where
    there is a noise floor, means lean to overconfidence in white projections."""
    baselines: tuple[Literal["mean", "random", "nearest", "harmonic"], ...] = ("mean", "random", "nearest", "harmonic")
    """Training mean, random training image, nearest training images, smooth fill. Give no value to skip all."""
    completions: Annotated[tuple[str, ...], tyro.conf.arg(metavar="NAME=FOLDER")] = ()
    """Completions that other programs have made; see --inputs-to."""
    n: shared.N = EvaluationSettings.n
    metrics: tuple[Literal["all"] | Family, ...] = ("all",)  # type: ignore[assignment]
    lpips: Literal["alex", "vgg"] = "alex"
    """The network of LPIPS."""
    precision: Literal["exact", "fast"] = "exact"
    """Precision of Inception's features on a GPU: fast is half precision."""
    keep_parts: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False
    """Keep the files that numbers were made of, features too."""
    inputs_to: Annotated[Path | None, tyro.conf.arg(metavar="DIR")] = None
    """Write the images and holes for another program to DIR, and stop."""

    def __post_init__(self) -> None:
        if "all" in self.metrics:
            object.__setattr__(self, "metrics", FAMILIES)

    def run(self) -> None:
        if self.redraw is not None:
            from condvae.experiments.evaluation import redraw

            print(f"wrote {', '.join(map(str, redraw(self.redraw)))}")
            return
        if self.data is None:
            raise ValueError("no data was given: --data takes images with training and test images")
        completions = self._completions()
        if self.inputs_to is not None:
            self._write_inputs(self.data, self.inputs_to)
            return
        from condvae.experiments.evaluation.entry_point import evaluate

        evaluate(
            None if self.model == "none" else self.model,
            self.data,
            out=self.out,
            settings=shared.settings_of(EvaluationSettings, self),
            size=self.size,
            temperature=self.temperature,
            pixels=self.pixels,
            baselines=self.baselines,
            completions=completions,
            lpips=self.lpips,
            precision=self.precision,
            device=self.device,
            shard=self.shard,
            keep_parts=self.keep_parts,
            say=shared.say,
        )

    def _write_inputs(self, data: str, folder: Path) -> None:
        from condvae.data import open_data
        from condvae.experiments.evaluation import Problems, write_inputs
        from condvae.runtime.folders import check_apart

        settings = shared.settings_of(EvaluationSettings, self)
        check_apart(data, folder)
        write_inputs(Problems.choose(open_data(data, size=self.size), settings), folder, k=settings.n)
        print(f"wrote {folder}, where README.txt says what to do")

    def _completions(self) -> dict[str, Path]:
        found: dict[str, Path] = {}
        for text in self.completions:
            name, equals, folder = text.partition("=")
            if not (equals and (name := name.strip()) and folder):
                raise ValueError(
                    f"--completions {text} cannot be read, expected NAME=FOLDER, such as comodgan=out/comodgan"
                )
            if name in found:
                raise ValueError(f"two --completions are called {name}: give each a name of its own")
            found[name] = Path(folder)
        return found
