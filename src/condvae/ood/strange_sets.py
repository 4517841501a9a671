"""Make the sets of strange images for experiments: transformed test images, random images, and other data sets.

Image i of a generated set depends only on the seed, on i and on test image i, not on the number of images.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from condvae.data import Dataset, open_data
from condvae.data.order import spread
from condvae.noise import SeededNoise
from condvae.runtime.seeds import Seeds
from condvae.sampling.plain import seeds_from


class OODSet(Protocol):
    """A set of strange images to compare with test images."""

    @property
    def name(self) -> str:
        """The name of the set in commands and reports."""

    @property
    def paired(self) -> bool:
        """Whether image i of the set is a transformation of test image i."""

    def images(self, test: Tensor, *, seed: int) -> Tensor:
        """Return the images of the set for the test images `test`: uint8 [N, C, H, W] on the CPU, of the same shape.

        There are fewer than N images if the set is another data set that has fewer.
        """


@dataclass(frozen=True, kw_only=True)
class GeneratedSet:
    """A built-in set, which is computed from test images or drawn at random for them."""

    name: str
    paired: bool
    make: Callable[[Tensor, SeededNoise], Tensor]

    def images(self, test: Tensor, *, seed: int) -> Tensor:
        _check_levels(test)
        # Each set has its own seeds, so that its images are independent of other sets and of the latents that are drawn
        # to score the images.
        own_seed = Seeds(seed, f"ood set {self.name}")(0)
        return self.make(test, seeds_from(own_seed, 1, observations=range(len(test)))).contiguous()


@dataclass(frozen=True, kw_only=True, eq=False)
class Foreign:
    """A set of images of another data set, which was opened with the image size and channels of the model."""

    name: str
    data: Dataset
    paired: ClassVar[bool] = False

    def images(self, test: Tensor, *, seed: int = 0) -> Tensor:
        """Return as many images of the other data set as `test` has, evenly spread over its test images.

        If it has too few test images, its validation and then its training images are added; the scored model was
        trained on none of them.
        """
        _check_levels(test)
        held, rest = self.data.test, (self.data.validation, self.data.train)
        own_shape, shape = (held.channels, held.size, held.size), tuple(test.shape[1:])
        if own_shape != shape:
            raise ValueError(
                f"images of {self.name} have shape {own_shape}, but test images have shape {shape} (channels, height, "
                f"width): open {self.name} with the size and channels of the test images"
            )
        taken: list[Tensor] = []
        for one in (held, *rest):
            wanted = len(test) - sum(map(len, taken))
            taken.append(one.take(spread(len(one), wanted)).images)
        return torch.cat(taken)


def open_foreign(text: str, *, size: int, channels: int) -> Foreign:
    """Open another data set as a set of strange images. text: NAME=PATH.

    Its images are converted to size x size pixels and to the number of channels; grey images can become RGB.
    """
    name, equals, path = text.partition("=")
    if not (equals and name.strip() and path.strip()):
        raise ValueError(f"the data set is given as {text!r}, expected NAME=PATH, such as svhn=folder/svhn")
    if not name.isprintable():
        raise ValueError(f"the set name {name!r} contains unprintable characters: give it another name")
    if name in GENERATED_SETS:
        raise ValueError(f"{name} is the name of a built-in set: give {path} another name")
    return Foreign(name=name, data=open_data(path, size=size, channels=channels))


def own(name: str) -> OODSet:
    """Return the built-in set with this name. Built-in sets need no other data."""
    if name not in GENERATED_SETS:
        known = ", ".join(GENERATED_SETS)
        raise ValueError(f"unknown set {name!r}, expected one of {known}; give other data with --against NAME=PATH")
    return GENERATED_SETS[name]


def _noise(test: Tensor, noise: SeededNoise) -> Tensor:
    """Return images of noise: each channel of each pixel is drawn uniformly."""
    return _levels(noise.uniform(0, test.shape, test.device))


def _constant(test: Tensor, noise: SeededNoise) -> Tensor:
    """Return images of a single colour, which is drawn uniformly for each image."""
    return _levels(noise.uniform(0, (*test.shape[:2], 1, 1), test.device)).expand_as(test)


def _crop(test: Tensor, noise: SeededNoise) -> Tensor:
    """Enlarge images to 1.5 times their size and crop the middle to the original size."""
    size = test.shape[-1]
    large = round(1.5 * size)
    first = (large - size) // 2
    return _resized(test, large)[..., first : first + size, first : first + size]


def _translate(test: Tensor, noise: SeededNoise) -> Tensor:
    """Crop each image to 9/10 of its width and height at a random corner, and enlarge the crop to the full size."""
    size = test.shape[-1]
    side = round(0.9 * size)
    rest = size - side
    corners = [test[..., y : y + side, x : x + side] for y in (0, rest) for x in (0, rest)]
    which = (4 * noise.uniform(0, (len(test), 1), test.device)).long().flatten()
    return _resized(torch.stack(corners)[which, torch.arange(len(test))], size)


def _resized(levels: Tensor, size: int) -> Tensor:
    """Resize images by bicubic interpolation, in float64 so that the results are the same on every processor."""
    # antialias=True selects Pillow's kernel (a = -0.5), which keeps linear ramps linear. It changes nothing else here.
    large = F.interpolate(levels.double(), size=(size, size), mode="bicubic", antialias=True)
    return large.round().clamp(0, 255).to(torch.uint8)


def _levels(uniform: Tensor) -> Tensor:
    """Convert uniform random numbers in [0, 1) to grey levels from 0 to 255."""
    return (256 * uniform).to(torch.uint8)


def _check_levels(test: Tensor) -> None:
    if test.dtype != torch.uint8 or test.ndim != 4 or test.shape[2] != test.shape[3]:
        raise ValueError(
            f"the test images are {test.dtype} {list(test.shape)}, expected torch.uint8 [N, channels, size, size]"
        )


GENERATED_SETS: dict[str, GeneratedSet] = {
    one.name: one
    for one in (
        GeneratedSet(name="noise", paired=False, make=_noise),
        GeneratedSet(name="constant", paired=False, make=_constant),
        GeneratedSet(name="flip", paired=True, make=lambda test, noise: test.flip(2)),
        GeneratedSet(name="rotate", paired=True, make=lambda test, noise: test.rot90(1, (2, 3))),
        GeneratedSet(name="crop", paired=True, make=_crop),
        GeneratedSet(name="translate", paired=True, make=_translate),
    )
}
PAPER_SETS = ("noise", "constant", "flip", "rotate")
"""The built-in sets for which the paper has CIFAR-10 results. It has results for crop and translate only on FFHQ."""
