"""Options of `condvae design train`. Their docstrings are also the texts of `--help`."""

import dataclasses
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from condvae.runtime.checks import check_seed, check_whole

WHOLE = "pixels,least=1"
"""The observation process that makes every pixel known."""


@dataclass(frozen=True, kw_only=True)
class ClassifierOptions:
    """Options for training a classifier, from the data to the file."""

    data: tuple[Path, ...]
    """Labelled images: Chest X-ray 14, CIFAR-10, a pack whose dataset.json has labels, or others that `condvae train`
    reads; cifar10 once fetched."""
    out: Path
    """The .safetensors file to write."""

    size: int | None = None
    """Crop images to a square and resize them to N x N pixels."""
    validation: int | None = None
    """Training images held out, whole patients where the data names them, to choose the best weights and to calibrate.
    Default: a tenth, at most 5,000."""
    split_seed: int = 5
    """Which images are held out where the data does not say."""
    observe: tuple[str, ...] = ("patches,side=0.25,weight=0.9", f"{WHOLE},weight=0.1")
    """What is shown of images in training, as in `condvae train`. Default: 0 to 5 patches of a quarter of the width;
    one image in ten whole."""

    trunk: Literal["lite0", "plain"] = "lite0"
    """lite0: EfficientNet-Lite0. plain: a residual network of 3 x 3 convolutions."""
    stages: int = 5
    """lite0: how many of its seven stages are used."""
    widths: tuple[int, ...] = (32, 64, 128)
    """plain: channels of its stages."""
    blocks: int = 2
    """plain: blocks per stage."""
    stem_stride: Literal[1, 2] = 2
    """Stride of the first convolution: 1 keeps small images from shrinking too soon."""
    enlarge: int = 1
    """Enlarge images so many times first."""
    head: int = 256
    """Channels of a 1 x 1 convolution behind the trunk; 0 for none."""
    dropout: float = 0.2
    """Share of the last features that are left out in training."""
    start: Literal["auto", "imagenet", "random"] = "auto"
    """Where the trunk starts. auto: lite0 at weights trained on ImageNet, which `condvae fetch efficientnet` gets."""
    weights: Path | None = None
    """File of these weights, if they are not in the cache folder."""

    batch: int = 256
    """Images per update."""
    steps: int = 1200
    """Updates to make."""
    lr: float = 1e-3
    """Learning rate, which rises over --warm-up steps and falls as a cosine to a fiftieth."""
    warm_up: int = 100
    """Steps over which the learning rate rises from zero."""
    weight_decay: float = 0.05
    """Decoupled weight decay of convolutions, times the learning rate."""
    clip: float = 1.0
    """Gradients with a larger norm are shortened to it."""
    ema: float = 0.99
    """Decay of the average of the weights, which is what is evaluated and saved; shorter at first."""

    shift: float = 0.12
    """Images are moved by up to this share of half their width ..."""
    scale: float = 0.1
    """... enlarged or made smaller by up to this share ..."""
    rotation: float = 7.0
    """... turned by up to so many degrees ..."""
    contrast: float = 0.2
    """... with up to this share more or less contrast ..."""
    brightness: float = 0.1
    """... and up to this much lighter or darker, of a range of 2."""
    blur: float = 0.5
    """Share of the images that are smoothed a little, as completions are smoother than photographs."""
    flip: Literal["auto", "yes", "no"] = "auto"
    """Mirror half of the images. auto: where the data set allows it, which digits and x-rays do not."""

    evaluate_every: int = 200
    """Steps between evaluations on held-out images, of which the best weights are kept."""
    draws: int = 4
    """Observations of every held-out image by which the classifier is calibrated and judged at the end."""
    log_every: int = 100
    """Steps between lines of the log."""
    seed: int = 0
    """Decides everything that is drawn at random; the same seed gives the same result."""
    device: str = "auto"
    """Where to compute. auto: on a GPU if there is one. On a CPU a call can be repeated bit for bit."""

    def check(self) -> None:
        """Raise a ValueError if an option has an invalid value. Files are not checked here."""
        if not self.data:
            raise ValueError("no data was given: give labelled images with --data")
        if self.out.suffix != ".safetensors":
            raise ValueError(f"{self.out} does not end in .safetensors: give --out such a name")
        for name in ("batch", "steps", "evaluate_every", "draws", "log_every", "enlarge", "stages", "blocks"):
            check_whole(getattr(self, name), _option(name), least=1)
        for name in ("seed", "split_seed"):
            check_seed(getattr(self, name), _option(name))
        for name in ("warm_up", "head"):
            check_whole(getattr(self, name), _option(name))
        if not 0 < self.lr < 1e3:
            raise ValueError(f"the learning rate is {self.lr}, expected a positive number such as 1e-3")
        if not 0 <= self.ema < 1:
            raise ValueError(f"--ema is {self.ema}, expected at least 0 and less than 1")
        for name in ("weight_decay", "shift", "rotation", "contrast", "brightness"):
            if not 0 <= getattr(self, name) < math.inf:
                raise ValueError(f"{_option(name)} is {getattr(self, name)}, expected a number, 0 or more")
        if not self.clip > 0:
            raise ValueError(f"--clip is {self.clip}, expected a positive number")
        for name in ("scale", "blur", "dropout"):
            if not 0 <= getattr(self, name) < 1:
                raise ValueError(f"{_option(name)} is {getattr(self, name)}, expected at least 0 and less than 1")
        if self.trunk == "plain" and self.start == "imagenet":
            raise ValueError("--start imagenet only applies to --trunk lite0: leave it out, or use that trunk")
        if self.weights is not None and not self.from_imagenet:
            raise ValueError("--weights does not apply to --trunk plain or --start random: leave it out")

    @property
    def from_imagenet(self) -> bool:
        """Whether training starts from ImageNet weights."""
        return self.trunk == "lite0" and self.start != "random"

    def for_record(self) -> dict[str, Any]:
        """The options for the record: file names without folders, and neither the output file nor the device."""
        plain = dataclasses.asdict(self)
        kept = {key: value for key, value in plain.items() if value is not None and key not in ("out", "device")}
        return {key: _without_folders(value) for key, value in kept.items()}


def _without_folders(value: Any) -> Any:
    if isinstance(value, Path):
        return value.name
    return [_without_folders(item) for item in value] if isinstance(value, tuple) else value


def _option(name: str) -> str:
    return "--" + name.replace("_", "-")
