"""The sub-verb `condvae design experiment`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro

from condvae.cli import shared
from condvae.cli.help_text import described, explained
from condvae.experiments.design.plan import IPA, MANY_IMAGES, POLICY_MEANINGS, DesignSettings


@explained(
    model=f"{shared.MODEL_HELP} none: compare only policies that need no model.",
    policies=f"The policies to compare, and how each chooses scans: {described(POLICY_MEANINGS)}.",
    repeats="How often to repeat policies whose scans depend on a few random draws (random, non-greedy, and uncond "
    f"with fewer than {MANY_IMAGES} training images). The AUROCs of the repetitions are averaged.",
)
@dataclass(frozen=True, kw_only=True)
class DesignExperiment(shared.Parsed, DesignSettings, shared.ExperimentOptions):
    """Compare policies on test images by how well the classifier predicts findings from the scans that they choose.

    The report has the AUROC and NLL after each scan with confidence intervals over patients, differences between
    policies, calibration, and maps of the chosen locations, as JSON, CSV, Markdown and figures. A stopped call
    continues when it is repeated, and later calls can add policies and tasks to the same folder. To share the work
    between processes, use torchrun or --shard.
    """

    model: Annotated[str, tyro.conf.arg(metavar="MODEL")] = "xray"
    classifier: shared.ClassifierName = "xray"
    size: Annotated[int | None, tyro.conf.arg(metavar="N")] = None
    """Crop the middle square of each image, and resize it to N x N pixels."""
    tasks: Annotated[tuple[str, ...], tyro.conf.arg(metavar="TASK")] = DesignSettings.tasks
    policies: Annotated[tuple[str, ...], tyro.conf.arg(metavar="POLICY")] = DesignSettings.policies
    out: shared.Out = Path("design-experiment")
    """The folder for the results."""
    n: shared.N = DesignSettings.n
    temperature: shared.Temperature = "1"
    pixels: shared.PixelKind = "mean"
    precision: Literal["auto", "exact", "fast"] = "auto"
    """Precision in which the classifier computes: single (exact), or half, which needs a GPU (fast). auto: fast if
    there is a GPU."""
    block: Annotated[int | None, tyro.conf.arg(metavar="N")] = None
    """How many images to compute together, as one unit of work. Smaller values need less memory. If not given, a number
    that suits the device."""

    def run(self) -> None:
        if self.redraw is not None:
            from condvae.experiments.design import redraw

            shared.say(shared.figures_written(redraw(self.redraw)))
            return
        if not self.data:
            raise ValueError("no data was given: give --data with training and test images labelled with findings")
        from condvae import weights
        from condvae.data import open_data
        from condvae.data.layouts import name_of_data
        from condvae.design.avp_cnn.classifier_file import load_classifier
        from condvae.design.sources import check_pair
        from condvae.experiments.design import Shard, experiment
        from condvae.runtime.folders import check_apart
        from condvae.runtime.ranks import join

        settings = shared.settings_of(DesignSettings, self)
        check_apart(self.data, self.out)
        with join(self.device) as world:
            shard = Shard.of_text(self.shard, ranks=world.size)
            classifier = load_classifier(self.classifier, precision=self.precision).to(world.device)
            wanted = self.model != "none" and any(settings.spec(name).completer == IPA for name in settings.policies)
            model = weights.load_conditional(weights.locate(self.model)) if wanted else None
            takes = classifier.config.size, classifier.config.channels
            if model is not None:
                check_pair(model, self.model, takes, self.classifier)
            if self.size not in (None, takes[0]):
                raise ValueError(
                    f"--size is {self.size}, but the classifier {self.classifier} takes images of "
                    f"{takes[0]} x {takes[0]} pixels: leave --size out"
                )
            data = open_data(self.data, size=takes[0], channels=takes[1])
            experiment(
                None if model is None else model.to(world.device),
                classifier,
                data,
                self.out,
                settings=settings,
                temperature=self.temperature,
                pixels=self.pixels,
                data_name=name_of_data(self.data),
                model_name=None if model is None else self.model,
                classifier_name=self.classifier,
                block=self.block,
                world=world,
                shard=shard,
                say=shared.say,
            )
