"""The verb `condvae evaluate`."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias

import tyro

from condvae.cli import shared
from condvae.cli.help_text import described, explained
from condvae.completers.baseline_names import BASELINE_MEANINGS, BASELINES
from condvae.experiments.evaluation.plan import DEEP_IMAGES, FAMILIES, FAMILY_METRICS, EvaluationSettings, Family
from condvae.metrics.metric_names import FeaturePrecision, Trunk
from condvae.weights.model_names import DEFAULT_MODEL

if TYPE_CHECKING:
    BaselineName: TypeAlias = str
else:
    BaselineName = Literal[BASELINES]


@explained(
    model=f"{shared.MODEL_HELP} none: measure only the baselines and --completions.",
    deep_images="How many of the test images get -n completions each, for the metrics that compare several "
    f"completions. If not given, {DEEP_IMAGES}, or all of --images if that is fewer.",
    n="How many completions to draw of each deep image; --deep-images is the number of these images.",
    baselines="The baselines to measure as well, and what each puts into the hidden pixels: "
    f"{described(BASELINE_MEANINGS)}. Give no value to skip all baselines.",
    metrics=f"Groups of metrics to compute: all, or some of {described(FAMILY_METRICS)}.",
)
@dataclass(frozen=True, kw_only=True)
class Evaluate(shared.Parsed, EvaluationSettings, shared.ExperimentOptions):
    """Measure how good the completions of a model are, and compare them with baselines and other programs.

    All methods complete the same test images with the same freeform holes, in bins of the hidden share. The report has
    every metric with its standard error, as JSON, CSV, Markdown and figures. A stopped call continues when it is
    repeated, and later calls can add methods to the same folder. To share the work between processes, use torchrun or
    --shard. `condvae fetch metrics` downloads the networks that the metrics need.
    """

    model: Annotated[str, tyro.conf.arg(metavar="MODEL")] = DEFAULT_MODEL
    size: Annotated[int | None, tyro.conf.arg(metavar="N")] = None
    """Crop the middle square of each image, and resize it to N x N pixels."""
    out: shared.Out = Path("evaluation")
    """The folder for the results."""
    against: Annotated[tuple[str, ...], tyro.conf.arg(metavar="MODEL")] = ()
    """Other models to measure on the same images: conditional VAEs, or baselines from `condvae train --baseline`."""
    temperature: Annotated[tuple[str, ...], tyro.conf.arg(metavar="T")] = ("1",)
    """One or several temperatures to measure. A temperature is a factor on the standard deviation of the latents, where
    1 is the model as trained. Each is one number, or one number per resolution as in 8:0.9,16:0.7, where resolutions
    that are not listed keep 1."""
    pixels: tuple[Literal["mean", "sample"], ...] = ("mean",)
    """The value of each pixel: the mean of its distribution (mean), or a random draw from its distribution (sample).
    Give both to measure every temperature with both. For models with a noise floor, mean makes single pixels look
    overconfident in the coverage metrics."""
    baselines: tuple[BaselineName, ...] = BASELINES
    completions: Annotated[tuple[str, ...], tyro.conf.arg(metavar="NAME=FOLDER")] = ()
    """Folders of completions that other programs have made, each with a name for the report. --inputs-to writes the
    images and holes that such programs need."""
    image_groups: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None
    """Also report the metrics of groups of test images, such as people of one age. FILE is a JSON file with patterns of
    file names for each group, such as {"children": ["age-[0-9]_*", "age-1[0-2]_*"]}. Only deep images count, so give a
    large --deep-images."""
    n: shared.N = EvaluationSettings.n
    metrics: tuple[Literal["all"] | Family, ...] = ("all",)  # type: ignore[assignment]
    lpips: Trunk = "alex"
    """The network that LPIPS uses: AlexNet (alex) or VGG16 (vgg)."""
    precision: FeaturePrecision = "exact"
    """Precision in which Inception features are computed on a GPU: single (exact) or half (fast)."""
    keep_parts: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False
    """Keep the files of intermediate results, such as image features, after the report is written."""
    inputs_to: Annotated[Path | None, tyro.conf.arg(metavar="FOLDER")] = None
    """Write the test images and holes to this folder, so that other programs can complete them, and stop. Give the
    completions to --completions in a later call."""

    def __post_init__(self) -> None:
        if "all" in self.metrics:
            object.__setattr__(self, "metrics", FAMILIES)

    def run(self) -> None:
        if self.redraw is not None:
            from condvae.experiments.evaluation import redraw

            shared.say(shared.figures_written(redraw(self.redraw)))
            return
        if not self.data:
            raise ValueError("no data was given: give --data with training and test images")
        completions = self._completions()
        if self.inputs_to is not None:
            self._write_inputs(self.data, self.inputs_to)
            return
        from condvae.experiments.evaluation.entry_point import evaluate

        evaluate(
            None if self.model == "none" else self.model,
            self.data,
            against=self.against,
            out=self.out,
            settings=shared.settings_of(EvaluationSettings, self),
            size=self.size,
            temperature=self.temperature,
            pixels=self.pixels,
            baselines=self.baselines,
            completions=completions,
            image_groups=self.image_groups,
            lpips=self.lpips,
            precision=self.precision,
            device=self.device,
            shard=self.shard,
            keep_parts=self.keep_parts,
            say=shared.say,
        )

    def _write_inputs(self, data: Sequence[str], folder: Path) -> None:
        """Write the test images and holes to a folder for other programs."""
        from condvae.data import open_data
        from condvae.experiments.evaluation import Problems, write_inputs
        from condvae.runtime.folders import check_apart

        settings = shared.settings_of(EvaluationSettings, self)
        check_apart(data, folder)
        write_inputs(Problems.choose(open_data(data, size=self.size), settings), folder, k=settings.n)
        shared.say(f"wrote {folder}: its README.txt explains what to do next")

    def _completions(self) -> dict[str, Path]:
        """Parse --completions, and return the folders by the methods' names in the report."""
        found: dict[str, Path] = {}
        for text in self.completions:
            name, equals, folder = text.partition("=")
            if not (equals and (name := name.strip()) and folder):
                raise ValueError(f"--completions is {text}, expected NAME=FOLDER, such as comodgan=out/comodgan")
            if name in found:
                raise ValueError(f"two --completions are called {name}: give each of them a different name")
            found[name] = Path(folder)
        return found
