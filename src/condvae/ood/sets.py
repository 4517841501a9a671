"""Images that are none of the model's kind: made of test images, out of nothing, or from elsewhere.

Row i of what is made depends on (seed, i) and on test image i alone: it stays the same however many are made.
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
    """A set of strange images to hold against test images."""

    @property
    def name(self) -> str: ...

    @property
    def paired(self) -> bool:
        """Whether row i is made of test image i."""

    def images(self, test: Tensor, *, seed: int) -> Tensor:
        """uint8 [N, C, H, W] on the CPU, for N test images of that shape; of a foreign set, as many as it has."""


@dataclass(frozen=True, kw_only=True)
class MadeSet:
    """A set that can be made for any test images."""

    name: str
    paired: bool
    make: Callable[[Tensor, SeededNoise], Tensor]

    def images(self, test: Tensor, *, seed: int) -> Tensor:
        _check_levels(test)
        # A row of seeds for each set: what an image is made of shares no number with other sets, nor with the latents
        # by which it is scored.
        own_seed = Seeds(seed, f"ood set {self.name}")(0)
        return self.make(test, seeds_from(own_seed, 1, observations=range(len(test)))).contiguous()


@dataclass(frozen=True, kw_only=True, eq=False)
class Foreign:
    """Another data set's images, opened at the size and with the channels of the model's."""

    name: str
    data: Dataset
    paired: ClassVar[bool] = False

    def images(self, test: Tensor, *, seed: int = 0) -> Tensor:
        """Its test images, evenly spread over them; if they are too few, all, and then others: none was trained on."""
        _check_levels(test)
        held, rest = self.data.test, (self.data.validation, self.data.train)
        own_shape, shape = (held.channels, held.size, held.size), tuple(test.shape[1:])
        if own_shape != shape:
            raise ValueError(
                f"images of {self.name} are {own_shape}, test images are {shape} (channels, height, width): open it "
                "with their size and channels"
            )
        taken: list[Tensor] = []
        for one in (held, *rest):
            wanted = len(test) - sum(map(len, taken))
            taken.append(one.take(spread(len(one), wanted)).images)
        return torch.cat(taken)


def open_foreign(text: str, *, size: int, channels: int) -> Foreign:
    """NAME=PATH, such as svhn=folder: grey images become RGB where the model's are."""
    name, equals, path = text.partition("=")
    if not (equals and name.strip() and path.strip()):
        raise ValueError(f"the data set {text!r} cannot be read, expected NAME=PATH, such as svhn=folder/svhn")
    if not name.isprintable():
        raise ValueError(f"a set is called {name!r}: give it a name of one line")
    if name in TRANSFORMS:
        raise ValueError(f"{name} is the name of a set that is made of test images: give {path} another name")
    return Foreign(name=name, data=open_data(path, size=size, channels=channels))


def own(name: str) -> OODSet:
    """One of the six that need no other data."""
    if name not in TRANSFORMS:
        raise ValueError(f"unknown set {name!r}, expected some of {', '.join(TRANSFORMS)}, or NAME=PATH for other data")
    return TRANSFORMS[name]


def _noise(test: Tensor, noise: SeededNoise) -> Tensor:
    """Every grey level of every pixel equally likely."""
    return _levels(noise.uniform(0, test.shape, test.device))


def _constant(test: Tensor, noise: SeededNoise) -> Tensor:
    """One colour, each equally likely."""
    return _levels(noise.uniform(0, (*test.shape[:2], 1, 1), test.device)).expand_as(test)


def _crop(test: Tensor, noise: SeededNoise) -> Tensor:
    """Enlarged by half, the middle kept."""
    size = test.shape[-1]
    large = round(1.5 * size)
    first = (large - size) // 2
    return _resized(test, large)[..., first : first + size, first : first + size]


def _translate(test: Tensor, noise: SeededNoise) -> Tensor:
    """From one of the four corners, 9/10 of the side, enlarged to all of it."""
    size = test.shape[-1]
    side = round(0.9 * size)
    rest = size - side
    corners = [test[..., y : y + side, x : x + side] for y in (0, rest) for x in (0, rest)]
    which = (4 * noise.uniform(0, (len(test), 1), test.device)).long().flatten()
    return _resized(torch.stack(corners)[which, torch.arange(len(test))], size)


def _resized(levels: Tensor, size: int) -> Tensor:
    """By bicubic interpolation, in float64: no grey level hangs on how a processor rounds."""
    # antialias: what enlarges is the same, but for Pillow's kernel (a = -0.5), which alone leaves ramps as they are.
    large = F.interpolate(levels.double(), size=(size, size), mode="bicubic", antialias=True)
    return large.round().clamp(0, 255).to(torch.uint8)


def _levels(uniform: Tensor) -> Tensor:
    """Numbers in [0, 1) as grey levels, each equally likely."""
    return (256 * uniform).to(torch.uint8)


def _check_levels(test: Tensor) -> None:
    if test.dtype != torch.uint8 or test.ndim != 4 or test.shape[2] != test.shape[3]:
        raise ValueError(
            f"test images are {test.dtype} {list(test.shape)}, expected uint8 [N, channels, size, size] grey levels"
        )


TRANSFORMS: dict[str, MadeSet] = {
    one.name: one
    for one in (
        MadeSet(name="noise", paired=False, make=_noise),
        MadeSet(name="constant", paired=False, make=_constant),
        MadeSet(name="flip", paired=True, make=lambda test, noise: test.flip(2)),
        MadeSet(name="rotate", paired=True, make=lambda test, noise: test.rot90(1, (2, 3))),
        MadeSet(name="crop", paired=True, make=_crop),
        MadeSet(name="translate", paired=True, make=_translate),
    )
}
PAPER_SETS = ("noise", "constant", "flip", "rotate")
"""Those of the paper's table for CIFAR-10; crop and translate are FFHQ's."""
