"""The options for training a classifier. `condvae design train --help` prints their docstrings."""

import dataclasses
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from condvae.runtime.checks import check_seed, check_whole, option_name

TRUNK_MEANINGS = {"lite0": "EfficientNet-Lite0", "plain": "a residual network of 3 x 3 convolutions"}
"""The convolutional networks that a classifier can be built on."""
WHOLE = "pixels,least=1"
"""The observation process under which every pixel is known."""


@dataclass(frozen=True, kw_only=True)
class ClassifierOptions:
    """The options of `condvae design train`."""

    data: tuple[Path, ...]
    """Labelled images: Chest X-ray 14, CIFAR-10, a pack whose dataset.json has labels, or another labelled data set
    that `condvae train` reads. Several data sets are joined."""
    out: Path
    """The .safetensors file to write."""

    size: int | None = None
    """Crop the middle square of each image, and resize it to N x N pixels."""
    validation: int | None = None
    """How many training images to hold out. They are used to choose the best weights and to calibrate the classifier.
    If the data set names patients, all images of a patient are held out together. If not given, a tenth, but at most
    5,000."""
    split_seed: int = 5
    """The seed that decides which images are held out, if the data set has no validation images of its own."""
    observe: tuple[str, ...] = ("patches,side=0.25,weight=0.9", f"{WHOLE},weight=0.1")
    """The observation process that hides pixels during training, as in `condvae train`. By default, every pixel is
    known in one image of ten; in the others, 0 to 5 square patches are known, each a quarter as wide as the image."""

    trunk: Literal["lite0", "plain"] = "lite0"
    """The convolutional network: EfficientNet-Lite0 (lite0), or a residual network of 3 x 3 convolutions (plain)."""
    stages: int = 5
    """How many of the seven stages of EfficientNet-Lite0 to use (for --trunk lite0)."""
    widths: tuple[int, ...] = (32, 64, 128)
    """How many channels each stage has, one number per stage (for --trunk plain)."""
    blocks: int = 2
    """How many residual blocks each stage has (for --trunk plain)."""
    stem_stride: Literal[1, 2] = 2
    """Stride of the first convolution. 1 keeps the resolution of small images."""
    enlarge: int = 1
    """Enlarge images by this factor before they enter the network."""
    head: int = 256
    """How many channels a 1 x 1 convolution after the trunk has. 0: no such convolution."""
    dropout: float = 0.2
    """Dropout: the fraction of the pooled features that is set to zero at random during training."""
    start: Literal["auto", "imagenet", "random"] = "auto"
    """Initial weights of the convolutional network (--trunk): trained on ImageNet (imagenet), or random. auto: imagenet
    for --trunk lite0, random for --trunk plain. `condvae fetch efficientnet` downloads the ImageNet weights."""
    weights: Path | None = None
    """The file with the ImageNet weights. If not given, the file that `condvae fetch efficientnet` has put into the
    cache folder."""

    batch: int = 256
    """How many images each update uses."""
    steps: int = 1200
    """How many updates to make."""
    lr: float = 1e-3
    """The highest learning rate. The learning rate rises to it over --warm-up steps, and then falls along a cosine to a
    fiftieth of it."""
    warm_up: int = 100
    """The number of steps, at the start of training, over which the learning rate rises from zero."""
    weight_decay: float = 0.05
    """Decoupled weight decay of convolutions and linear layers: each update shrinks their weights by this factor times
    the learning rate."""
    clip: float = 1.0
    """Gradient clipping: a gradient with a norm above this is scaled down to this norm."""
    ema: float = 0.99
    """Decay of the moving average of the weights, per update. The averaged weights are evaluated and saved. The decay
    is smaller during the first updates."""

    shift: float = 0.12
    """Augmentation: shift images by a random distance of up to this fraction of half their width."""
    scale: float = 0.1
    """Augmentation: enlarge or shrink images by a random fraction of up to this."""
    rotation: float = 7.0
    """Augmentation: rotate images by a random angle of up to this many degrees."""
    contrast: float = 0.2
    """Augmentation: raise or lower the contrast of images by a random fraction of up to this."""
    brightness: float = 0.1
    """Augmentation: add a random number of up to this size to all pixels of an image, or subtract it. Pixels range from
    -1 to 1."""
    blur: float = 0.5
    """Augmentation: blur this fraction of the images slightly, because completions are smoother than photographs."""
    flip: Literal["auto", "yes", "no"] = "auto"
    """Mirror half of the training images, chosen at random. auto: yes, except for data such as digits and x-rays."""

    evaluate_every: int = 200
    """How many steps lie between two evaluations on held-out images. The weights of the best evaluation are kept."""
    draws: int = 4
    """How many random observations of every held-out image are used to calibrate and evaluate the finished
    classifier."""
    log_every: int = 100
    """How many steps lie between two lines of the log."""
    seed: int = 0
    """The seed of everything that is drawn at random; the same seed gives the same result."""
    device: str = "auto"
    """Where to compute. auto uses a GPU if there is one. On a CPU, repeating a call gives the same result bit for
    bit."""

    def check(self) -> None:
        """Raise a ValueError if an option has an invalid value. Whether files exist is not checked."""
        if not self.data:
            raise ValueError("no data was given: give --data with labelled images")
        if self.out.suffix != ".safetensors":
            raise ValueError(f"{self.out} does not end in .safetensors: give --out a file name with this ending")
        for name in ("batch", "steps", "evaluate_every", "draws", "log_every", "enlarge", "stages", "blocks"):
            check_whole(getattr(self, name), option_name(name), least=1)
        for name in ("seed", "split_seed"):
            check_seed(getattr(self, name), option_name(name))
        for name in ("warm_up", "head"):
            check_whole(getattr(self, name), option_name(name))
        if not 0 < self.lr < 1e3:
            raise ValueError(f"the learning rate is {self.lr}, expected a positive number, such as 1e-3")
        if not 0 <= self.ema < 1:
            raise ValueError(f"--ema is {self.ema}, expected a number that is at least 0 and less than 1")
        for name in ("weight_decay", "shift", "rotation", "contrast", "brightness"):
            if not 0 <= getattr(self, name) < math.inf:
                raise ValueError(f"{option_name(name)} is {getattr(self, name)}, expected 0 or more")
        if not self.clip > 0:
            raise ValueError(f"--clip is {self.clip}, expected a positive number")
        for name in ("scale", "blur", "dropout"):
            if not 0 <= getattr(self, name) < 1:
                raise ValueError(
                    f"{option_name(name)} is {getattr(self, name)}, expected a number from 0 to less than 1"
                )
        if self.trunk == "plain" and self.start == "imagenet":
            raise ValueError("--start imagenet only applies to --trunk lite0: --trunk plain has no ImageNet weights")
        if self.weights is not None and not self.from_imagenet:
            raise ValueError("--weights only applies if --trunk lite0 starts from ImageNet weights: leave it out")

    @property
    def from_imagenet(self) -> bool:
        """Whether training starts from ImageNet weights."""
        return self.trunk == "lite0" and self.start != "random"

    def for_record(self) -> dict[str, Any]:
        """Return the options that have a value, for the record in the classifier file. Paths are cut to file names."""
        plain = dataclasses.asdict(self)
        kept = {key: value for key, value in plain.items() if value is not None and key not in ("out", "device")}
        return {key: _name_only(value) for key, value in kept.items()}


def _name_only(value: Any) -> Any:
    if isinstance(value, Path):
        return value.name
    return [_name_only(item) for item in value] if isinstance(value, tuple) else value
