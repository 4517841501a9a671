"""The sub-verb that scans image files: design scan."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro


@dataclass(frozen=True, kw_only=True)
class DesignScan:
    """Simulate a scanner that sees a small window at a time, on whole images: where it looks, and why.

    With --known nothing is simulated: given what has been scanned, it says where to scan next.
    """

    images: Annotated[tuple[Path, ...], tyro.conf.Positional] = ()
    """Image files; their middle square is resized to the model's size."""
    task: Annotated[str | None, tyro.conf.arg(metavar="NAME")] = None
    """What is asked: a variable of the classifier's such as effusion, or "no finding"; may be left out where there is
    one alone."""
    model: Annotated[str, tyro.conf.arg(metavar="NAME|FILE")] = "xray"
    """A conditional model by name, file, run folder, or owner/name on the hub: imagines what has not been seen."""
    classifier: Annotated[str, tyro.conf.arg(metavar="NAME|FILE")] = "xray"
    """A classifier by name or file, of `condvae design train`: says what it makes of what is seen."""
    known: Annotated[Path | None, tyro.conf.arg(metavar="PICTURE")] = None
    """A picture of the image's size, or a folder of them with the images' names: white has been scanned. No other pixel
    is looked at, and the next location is all that is said."""
    steps: int | None = None
    """Scans of each image; 5 if not given."""
    n: Annotated[int, tyro.conf.arg(aliases=["-n"])] = 10
    """Completions by which each scan is chosen."""
    estimator: Literal["eig", "epe"] = "eig"
    """What is maximised: the expected information gain, or minus the expected entropy that is left."""
    side: Annotated[float, tyro.conf.arg(metavar="SHARE")] = 0.25
    """Of a window, as a share of the image's; the classifier should have been trained on such."""
    points: int = 17
    """Locations along each side of the grid."""
    temperature: Annotated[str, tyro.conf.arg(metavar="T")] = "1"
    """Of the completions, as for condvae complete."""
    pixels: Literal["mean", "sample"] = "mean"
    """Pixels of the completions as the mean of their distribution, or drawn from it."""
    seed: int = 0
    """Decides what is drawn; what an image gets does not depend on the others."""
    out: Annotated[Path, tyro.conf.arg(aliases=["-o"])] = Path("scans")
    """Folder for NAME.png and NAME.gif of each image, and design.json."""
    device: Literal["cpu", "cuda"] = "cpu"
    """Where to compute."""

    def run(self) -> None:
        if self.known is not None and self.steps is not None:
            raise ValueError("with --known nothing is scanned, so there are no --steps: leave one of them out")
        from condvae.design.scan_files import ScanSettings, scan_files

        settings = ScanSettings(
            task=self.task,
            steps=5 if self.steps is None else self.steps,
            n=self.n,
            estimator=self.estimator,
            side=self.side,
            points=self.points,
            temperature=self.temperature,
            pixels=self.pixels,
            seed=self.seed,
        )
        record = scan_files(
            self.images,
            self.out,
            model=self.model,
            classifier=self.classifier,
            settings=settings,
            known=self.known,
            device=self.device,
            say=_say,
        )
        print(f"wrote {record} and the pictures beside it")


def _say(line: str) -> None:
    print(line, flush=True)  # a scan takes seconds on a CPU
