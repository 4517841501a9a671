"""Observation processes that give another image or a label instead of known pixels; all pixels of x are hidden."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor
from torch.nn import functional as F

from condvae.observe.batch import Batch
from condvae.observe.canny import canny
from condvae.observe.observation import Observation
from condvae.observe.process import LinearProcess, Normalise, PictureProcess, Process
from condvae.runtime.checks import check_number, check_whole

_REC_601 = (0.299, 0.587, 0.114)
_MOST_GAPS = 100
_GAP_SIDES = (0.05, 0.35)
"""Smallest and largest side of a box in which lines are erased, as a share of the image's side."""


@dataclass(frozen=True, kw_only=True)
class Edges(PictureProcess):
    """The edges of the image are given, as dark lines on white, with as many channels as the image.

    Finding edges waits for the device, so it cannot be part of a CUDA graph.
    """

    name: ClassVar[str] = "edges"
    costly: ClassVar[bool] = True

    sigma: float = 1.0
    """Standard deviation of the Gaussian blur before edge detection, in pixels."""
    low: float = 0.05
    """Lower threshold: an edge continues where grey values (0 to 1) change by more than this over two pixels."""
    high: float = 0.15
    """Upper threshold: at least one pixel of an edge must have a change larger than this."""
    gaps: int = 0
    """In training, lines are erased in up to this many random boxes per image, since drawings by hand have fewer lines
    than photos have edges."""

    def __post_init__(self) -> None:
        check_number(self.sigma, "sigma", least=0)
        check_number(self.low, "low", least=0)
        check_number(self.high, "high", least=0)
        check_whole(self.gaps, "gaps")
        if self.gaps > _MOST_GAPS:
            raise ValueError(f"gaps is {self.gaps}, expected at most {_MOST_GAPS}")
        if self.low > self.high:
            raise ValueError(f"edges have thresholds low {self.low} and high {self.high}, expected low <= high")

    def channels(self, image_channels: int) -> int:
        return image_channels

    def pictures_of(self, batch: Batch) -> Tensor:
        edges = canny((luminance(batch.x) + 1) / 2, sigma=self.sigma, low=self.low, high=self.high)
        return (1 - 2 * edges.to(batch.x.dtype)).expand_as(batch.x)

    def show(self, pictures: Tensor, *, normalise: Normalise, generator: torch.Generator | None = None) -> Observation:
        if self.gaps and generator is not None:
            erased = random_boxes(self.gaps, len(pictures), pictures.shape[-1], generator)
            pictures = torch.where(erased, 1.0, pictures)
        return Observation(y=normalise(pictures))


@dataclass(frozen=True, kw_only=True)
class Grey(LinearProcess):
    """For colourisation: the luminance of the image is given."""

    name: ClassVar[str] = "grey"

    def channels(self, image_channels: int) -> int:
        return 1

    def weighted_sums(self, values: Tensor, *, power: int = 1) -> Tensor:
        return luminance(values, power=power)

    def show(self, pictures: Tensor, *, normalise: Normalise, generator: torch.Generator | None = None) -> Observation:
        return Observation(y=normalise(pictures))


@dataclass(frozen=True, kw_only=True)
class LowResolution(LinearProcess):
    """For super-resolution: the average colours of squares of pixels are given."""

    name: ClassVar[str] = "low-resolution"

    factor: int = 4
    """The side of the squares in pixels, which must divide the side of the image."""

    def __post_init__(self) -> None:
        check_whole(self.factor, "factor", least=1)

    def channels(self, image_channels: int) -> int:
        return image_channels

    def weighted_sums(self, values: Tensor, *, power: int = 1) -> Tensor:
        height, width = values.shape[2:]
        if height % self.factor or width % self.factor:
            raise ValueError(
                f"images are {height} x {width} pixels, expected sides that are multiples of the factor {self.factor}"
            )
        weight = 1 / self.factor**2
        return F.avg_pool2d(values, self.factor) * weight ** (power - 1)  # the average has one power of the weight

    def show(self, pictures: Tensor, *, normalise: Normalise, generator: torch.Generator | None = None) -> Observation:
        return Observation(y=normalise(pictures.repeat_interleave(self.factor, 2).repeat_interleave(self.factor, 3)))


@dataclass(frozen=True, kw_only=True)
class Label(Process):
    """The class of the image or its findings are given.

    y has one channel for each class or finding, which is all ones if the image has it, and all zeros otherwise.
    """

    name: ClassVar[str] = "label"

    classes: int = 10
    """Number of classes or findings of the data set."""

    def __post_init__(self) -> None:
        check_whole(self.classes, "classes", least=1)

    def channels(self, image_channels: int) -> int:
        return self.classes

    def observe(self, batch: Batch, *, normalise: Normalise, generator: torch.Generator) -> Observation:
        """Make y from the labels, and raise ValueError if a label is out of range.

        This check waits for the device. In a CUDA graph, an assertion on the device replaces it.
        """
        planes = self._holds(batch).to(batch.x.dtype)[:, :, None, None]
        return Observation(y=planes.expand(-1, -1, *batch.x.shape[2:]).contiguous())

    def _holds(self, batch: Batch) -> Tensor:
        """Return [B, classes]: True or 1 for the class or the findings of an image, False or 0 for the others."""
        labels = batch.labels
        if labels is None:
            raise ValueError("the images have no labels, but the process needs them: use a data set with labels")
        if labels.ndim == 1:
            fits = (labels >= 0) & (labels < self.classes)
            if not _all(fits, "a label is not from 0 to classes - 1"):
                raise ValueError(
                    f"labels are from {int(labels.min())} to {int(labels.max())}, "
                    f"expected 0 to {self.classes - 1}: set the number of classes with label,classes=N"
                )
            return labels[:, None] == torch.arange(self.classes, device=labels.device)
        if labels.ndim != 2 or labels.shape[1] != self.classes:
            raise ValueError(f"labels have shape {tuple(labels.shape)}, expected [B] or [B, {self.classes}]")
        if not _all((labels == 0) | (labels == 1), "findings have values other than 0 and 1"):
            raise ValueError("findings have values other than 0 and 1, expected 1 if a finding is present, else 0")
        return labels


@dataclass(frozen=True, kw_only=True)
class Paired(PictureProcess):
    """The paired image of the data set, which shows the same subject, is given."""

    name: ClassVar[str] = "paired"

    channels_of_pair: int = 3
    """Number of channels of the paired image."""

    def __post_init__(self) -> None:
        check_whole(self.channels_of_pair, "channels_of_pair", least=1)

    def channels(self, image_channels: int) -> int:
        return self.channels_of_pair

    def pictures_of(self, batch: Batch) -> Tensor:
        if batch.paired is None:
            raise ValueError("the images have no paired images, but the process needs them: use a data set of pairs")
        expected = (len(batch), self.channels_of_pair, *batch.x.shape[2:])
        if batch.paired.shape != expected:
            raise ValueError(f"the paired images have shape {tuple(batch.paired.shape)}, expected {expected}")
        return batch.paired

    def show(self, pictures: Tensor, *, normalise: Normalise, generator: torch.Generator | None = None) -> Observation:
        return Observation(y=normalise(pictures))


def random_boxes(most: int, n: int, size: int, generator: torch.Generator) -> Tensor:
    """Draw 0 to `most` boxes for each of n images: [n, 1, size, size] bool, True inside a box.

    Nothing waits for the device. Boxes may overlap, and may reach over the edge of the image.
    """
    device = generator.device
    count = torch.randint(most + 1, (n, 1), generator=generator, device=device)
    centre, side = torch.rand(2, n, most, 2, generator=generator, device=device)
    low, high = _GAP_SIDES
    centre, half = centre * size, (low + (high - low) * side) * size / 2
    pixel = torch.arange(size, device=device) + 0.5
    inside = (pixel - centre[..., None]).abs() < half[..., None]  # [n, most, 2, size]
    rows, columns = inside.unbind(dim=2)
    boxes = rows[..., :, None] & columns[..., None, :]
    used = torch.arange(most, device=device) < count
    found: Tensor = (boxes & used[:, :, None, None]).any(dim=1, keepdim=True)
    return found


def luminance(x: Tensor, *, power: int = 1) -> Tensor:
    """Convert images [B, 3, H, W] to luminance [B, 1, H, W] (Rec. 601); return grey images unchanged.

    power: exponent of the weights; 2 converts variances of independent channels to variances of the luminance.
    """
    if x.shape[1] == 1:
        return x
    if x.shape[1] != 3:
        raise ValueError(f"images have {x.shape[1]} channels, expected 3 (red, green, blue) or 1 (grey)")
    # The weights are plain numbers, because a tensor would have to be copied to the device.
    red, green, blue = (weight**power * x[:, i : i + 1] for i, weight in enumerate(_REC_601))
    return red + green + blue


def _all(holds: Tensor, message: str) -> bool:
    """Return whether all values are True. While a CUDA graph is captured, return True and let the device assert it."""
    if holds.is_cuda and torch.cuda.is_current_stream_capturing():
        torch._assert_async(holds.all(), message)
        return True
    return bool(holds.all())
