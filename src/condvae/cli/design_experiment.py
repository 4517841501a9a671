"""The sub-verb that compares ways to choose scans: design experiment."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro

from condvae.experiments.design.plan import IPA, POLICIES, TASKS

if TYPE_CHECKING:
    from condvae.experiments.design import DesignSettings


@dataclass(frozen=True, kw_only=True)
class DesignExperiment:
    """Compare policies by how well their scans let the classifier tell who has a finding, on test images.

    AUROC and negative log-likelihood after each scan, with intervals over patients, differences, the cross-task matrix,
    calibration and maps of where each policy looks, as JSON, CSV, Markdown and figures. A killed call goes on where it
    was; policies and tasks can be added to a folder later; torchrun or --shard share the work out.
    """

    data: Annotated[str | None, tyro.conf.arg(metavar="DATA")] = None
    """Images with findings, training and test images, such as the folder of Chest X-ray 14."""
    model: Annotated[str, tyro.conf.arg(metavar="NAME|FILE")] = "xray"
    """A conditional model by name, file, run folder, or owner/name on the hub: completes for eig-ipa and epe-ipa; none
    for the other policies alone."""
    classifier: Annotated[str, tyro.conf.arg(metavar="NAME|FILE")] = "xray"
    """A classifier by name or file, of `condvae design train`."""
    size: Annotated[int | None, tyro.conf.arg(metavar="N")] = None
    """Resize images to N x N; to the classifier's size if not given."""
    out: Annotated[Path, tyro.conf.arg(aliases=["-o"])] = Path("experiment")
    """Folder for the results."""
    tasks: Annotated[tuple[str, ...], tyro.conf.arg(metavar="NAME")] = TASKS
    """What is diagnosed, each by scans of its own: findings, or "no finding"."""
    policies: Annotated[tuple[str, ...], tyro.conf.arg(metavar="NAME")] = POLICIES
    """Who chooses. eig-ipa, epe-ipa: by completions of the model, by the expected information gain or entropy.
    eig-nearest: by the nearest training images. uncond, uncond-N: by n or N training images whatever is seen.
    non-greedy: the best of some random sequences. random. full: nobody, the whole image is seen."""
    steps: Annotated[int, tyro.conf.arg(metavar="T")] = 5
    """Scans of each image."""
    n: Annotated[int, tyro.conf.arg(aliases=["-n"], metavar="N")] = 10
    """Images that are imagined for each scan."""
    first_n: Annotated[int, tyro.conf.arg(metavar="N")] = 1000
    """Training images by which the first scan is chosen, the same for everybody."""
    side: Annotated[float, tyro.conf.arg(metavar="SHARE")] = 0.25
    """Of a window, as a share of the image's; the classifier should have been trained on such."""
    points: Annotated[int, tyro.conf.arg(metavar="N")] = 17
    """Locations along each side of the grid."""
    temperature: Annotated[str, tyro.conf.arg(metavar="T")] = "1"
    """Of the completions, as for condvae complete."""
    pixels: Literal["mean", "sample"] = "mean"
    """Pixels of the completions as the mean of their distribution, or drawn from it."""
    images: Annotated[int | None, tyro.conf.arg(metavar="N")] = None
    """Test images, evenly over all; all if not given."""
    repeats: Annotated[int, tyro.conf.arg(metavar="N")] = 20
    """Times that random, non-greedy, and uncond by fewer than 100 images are tried with other draws."""
    resamples: Annotated[int, tyro.conf.arg(metavar="N")] = 1000
    """Of the patients, for intervals."""
    seed: Annotated[int, tyro.conf.arg(metavar="N")] = 0
    """Decides all that is drawn."""
    precision: Literal["auto", "exact", "fast"] = "auto"
    """Of the classifier; fast: half precision on a GPU. auto: fast where there is one."""
    block: Annotated[int | None, tyro.conf.arg(metavar="N")] = None
    """Images that are scanned together; 128 on a GPU, 8 on a CPU if not given."""
    device: str = "auto"
    """auto, cpu, cuda or cuda:N."""
    shard: Annotated[str | None, tyro.conf.arg(metavar="I/N")] = None
    """Do only the I-th of N shares; a call without it, after all of them, writes the report."""
    redraw: Annotated[Path | None, tyro.conf.arg(metavar="DIR")] = None
    """Draw the figures of an earlier --out again from its numbers, and stop."""

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

        settings = self._settings()
        check_apart(self.data, self.out)
        with join(self.device) as world:
            shard = Shard.of_text(self.shard, ranks=world.size)
            classifier = load_classifier(self.classifier, precision=self.precision).to(world.device)
            wanted = self.model != "none" and any(settings.way(name).completer == IPA for name in settings.policies)
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
                say=lambda text: print(text, flush=True),
            )

    def _settings(self) -> "DesignSettings":
        from condvae.experiments.design import DesignSettings

        return DesignSettings(
            tasks=self.tasks,
            policies=self.policies,
            steps=self.steps,
            n=self.n,
            first_n=self.first_n,
            points=self.points,
            side=self.side,
            images=self.images,
            repeats=self.repeats,
            seed=self.seed,
            resamples=self.resamples,
        )
