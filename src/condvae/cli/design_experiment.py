"""condvae design experiment."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro

from condvae.cli import shared
from condvae.cli.shared import MODEL_HELP
from condvae.experiments.design.plan import IPA, DesignSettings


@dataclass(frozen=True, kw_only=True)
class DesignExperiment(shared.Parsed, DesignSettings, shared.ExperimentOptions):
    """Compare policies by how well their scans let the classifier tell who has a finding, on test images.

    AUROC and negative log-likelihood after each scan, with intervals over patients, differences, the cross-task matrix,
    calibration and maps of where each policy looks, as JSON, CSV, Markdown and figures. A killed call goes on where it
    was; policies and tasks can be added to a folder later; torchrun or --shard share the work out.
    """

    model: Annotated[str, tyro.conf.arg(metavar="MODEL", help=f"{MODEL_HELP} none: the policies that need none.")] = (
        "xray"
    )
    classifier: shared.ClassifierName = "xray"
    size: Annotated[int | None, tyro.conf.arg(metavar="N")] = None
    """Crop images to a square and resize them to N x N pixels."""
    out: shared.Out = Path("design-experiment")
    """Folder for the results."""
    n: shared.N = DesignSettings.n
    temperature: shared.Temperature = "1"
    pixels: shared.PixelKind = "mean"
    precision: Literal["auto", "exact", "fast"] = "auto"
    """Precision of the classifier; fast: half precision on a GPU. auto: fast where there is one."""
    block: Annotated[int | None, tyro.conf.arg(metavar="N")] = None
    """Images that are computed together, as one unit of work; as many as suit the device if not given."""

    def run(self) -> None:
        if self.redraw is not None:
            from condvae.experiments.design import redraw

            print(f"wrote {', '.join(map(str, redraw(self.redraw)))}")
            return
        if self.data is None:
            raise ValueError("no data was given: --data takes images with findings, training and test images")
        from condvae import weights
        from condvae.data import open_data
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
                    f"--size is {self.size}, expected {takes[0]}, which {self.classifier} takes: leave it out"
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
                data_name=Path(self.data).name,
                model_name=None if model is None else self.model,
                classifier_name=self.classifier,
                block=self.block,
                world=world,
                shard=shard,
                say=shared.say,
            )
