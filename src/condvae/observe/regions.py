"""Processes with simple regions of known pixels: patches, boxes, halves, single pixels, nothing, and mixtures."""

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from condvae.observe.process import KnownPixels
from condvae.runtime.checks import check_number, check_whole
from condvae.runtime.fast_paths import fast_path

_MOST_PATCHES = 10_000


@dataclass(frozen=True, kw_only=True)
class Patches(KnownPixels):
    """A few square patches are known. They may overlap and extend beyond the image."""

    name: ClassVar[str] = "patches"

    most: int = 5
    """Maximum number of patches. Each number of patches from 0 to this maximum is equally likely."""
    side: float = 0.35
    """The side of a patch, as a fraction of the image's width."""

    def __post_init__(self) -> None:
        check_whole(self.most, "most")
        if self.most > _MOST_PATCHES:
            raise ValueError(f"most is {self.most:,} patches, expected at most {_MOST_PATCHES:,}")
        _check_share(self.side, "side")

    def draw(self, n: int, size: int, generator: torch.Generator) -> Tensor:
        device = generator.device
        side = max(1, round(self.side * size))
        number = torch.randint(0, self.most + 1, (n, 1), device=device, generator=generator)
        drawn = torch.arange(self.most, device=device) < number
        # Corners are from -side + 1 to size - 1, so that at least one pixel of every patch is inside the image.
        corner = torch.randint(1 - side, size, (n, self.most, 2), device=device, generator=generator)
        rows, columns = _stretch(corner, corner + side, size).unbind(2)
        return (rows[..., :, None] & columns[..., None, :] & drawn[..., None, None]).any(dim=1, keepdim=True)


@dataclass(frozen=True, kw_only=True)
class Boxes(KnownPixels):
    """A random rectangle inside the image (the box) is hidden, or only this rectangle is known."""

    name: ClassVar[str] = "boxes"

    least: float = 0.25
    """The shortest possible side of the box, as a fraction of the image's width."""
    largest: float = 0.75
    """The longest possible side of the box, as a fraction of the image's width."""
    hidden: float = 0.5
    """Probability that the box is hidden; otherwise, only the box is known."""

    def __post_init__(self) -> None:
        _check_share(self.least, "least")
        _check_share(self.largest, "largest")
        check_number(self.hidden, "hidden", least=0, most=1)
        if self.least > self.largest:
            raise ValueError(
                f"box sides are from least={self.least} to largest={self.largest}, expected least <= largest"
            )

    def draw(self, n: int, size: int, generator: torch.Generator) -> Tensor:
        device = generator.device
        shortest, longest = (max(1, round(share * size)) for share in (self.least, self.largest))
        sides = torch.randint(shortest, longest + 1, (n, 2), device=device, generator=generator)
        # randint(size - side + 1), with a different bound for each box
        room = size - sides + 1
        corner = (torch.rand(n, 2, device=device, generator=generator) * room).long()
        rows, columns = _stretch(corner, corner + sides, size).unbind(1)
        box = (rows[:, :, None] & columns[:, None, :])[:, None]
        hidden = torch.rand(n, 1, 1, 1, device=device, generator=generator) < self.hidden
        return box ^ hidden


@dataclass(frozen=True, kw_only=True)
class Halves(KnownPixels):
    """The left, right, upper or lower half of the image is hidden, with equal probability."""

    name: ClassVar[str] = "halves"

    def draw(self, n: int, size: int, generator: torch.Generator) -> Tensor:
        coins = torch.rand(2, n, 1, 1, 1, device=generator.device, generator=generator) < 0.5
        first = torch.arange(size, device=generator.device) < size // 2
        half = torch.where(coins[0], first[:, None], first[None, :])  # the upper or the left half
        return half ^ coins[1]


@dataclass(frozen=True, kw_only=True)
class Pixels(KnownPixels):
    """Single pixels are known, each independently with the same probability."""

    name: ClassVar[str] = "pixels"

    least: float = 0.0
    """Lower limit of the probability that a pixel is known, which is drawn uniformly for each image."""
    most: float = 1.0
    """Upper limit of the probability that a pixel is known."""

    def __post_init__(self) -> None:
        check_number(self.least, "least", least=0, most=1)
        check_number(self.most, "most", least=0, most=1)
        if self.least > self.most:
            raise ValueError(f"the known share is from least={self.least} to most={self.most}, expected least <= most")

    def draw(self, n: int, size: int, generator: torch.Generator) -> Tensor:
        share = torch.rand(n, 1, 1, 1, device=generator.device, generator=generator)
        share = self.least + (self.most - self.least) * share
        return torch.rand(n, 1, size, size, device=generator.device, generator=generator) < share


@dataclass(frozen=True, kw_only=True)
class Nothing(KnownPixels):
    """No pixel is known, so that completions are unconditional samples."""

    name: ClassVar[str] = "nothing"

    def draw(self, n: int, size: int, generator: torch.Generator) -> Tensor:
        return torch.zeros(n, 1, size, size, dtype=torch.bool, device=generator.device)


@dataclass(frozen=True, kw_only=True)
class Mixture(KnownPixels):
    """One of several processes is chosen at random for each image."""

    name: ClassVar[str] = "mixture"

    parts: tuple[tuple[KnownPixels, float], ...]
    """The processes with their weights. A process is chosen with a probability proportional to its weight."""

    def __post_init__(self) -> None:
        if not isinstance(self.parts, tuple):
            raise ValueError(f"parts is {self.parts!r}, expected a tuple of (process, weight) pairs")
        if len(self.parts) < 2:
            raise ValueError(f"the number of processes in the mixture is {len(self.parts)}, expected at least 2")
        for process, weight in self.parts:
            if isinstance(process, Mixture) or not isinstance(process, KnownPixels):
                raise ValueError(f"the mixture contains {process!r}, expected processes with known pixels, like boxes")
            check_number(weight, f"the weight of {process.name}", least=0)
            if weight == 0:
                raise ValueError(
                    f"the weight of {process.name} is 0, expected a number above 0: leave the process out instead"
                )

    def draw(self, n: int, size: int, generator: torch.Generator) -> Tensor:
        """Choose a process for each image, and draw from it.

        On a CPU, each process draws only for the images for which it was chosen. On a GPU, counting these images would
        have to wait for the device, so each process draws for all images.
        """
        weights = torch.tensor([weight for _, weight in self.parts], dtype=torch.float64)
        bounds = (weights.cumsum(0) / weights.sum())[:-1].to(torch.float32)
        position = torch.rand(n, device=generator.device, generator=generator)
        if generator.device.type != "cpu":
            return self._select(position, bounds.tolist(), size, generator)
        choice = torch.bucketize(position, bounds, right=True)
        counts = choice.bincount(minlength=len(self.parts)).tolist()
        drawn = torch.cat(
            [part.draw(count, size, generator) for (part, _), count in zip(self.parts, counts, strict=True)]
        )
        # `drawn` is sorted by part, so its j-th entry belongs to the j-th image in the order of the choices.
        known = torch.empty_like(drawn)
        known[choice.argsort(stable=True)] = drawn
        return known

    def _select(self, position: Tensor, bounds: list[float], size: int, generator: torch.Generator) -> Tensor:
        """Let every process draw for all n images, then choose one process per image.

        Process k is chosen if the image's number in `position`, [n], is from bounds[k - 1] up to bounds[k].
        """
        processes = [process for process, _ in self.parts]
        if draw_together := fast_path("mixtures of holes", generator.device):
            choice = torch.stack([position >= bound for bound in bounds]).sum(dim=0)
            drawn: Tensor = draw_together(processes, choice, size, generator)
            return drawn
        known, *others = (process.draw(len(position), size, generator) for process in processes)
        for bound, other in zip(bounds, others, strict=True):
            known = torch.where((position >= bound)[:, None, None, None], other, known)
        return known

    def to_dict(self) -> dict[str, Any]:
        parts = [{"process": process.to_dict(), "weight": weight} for process, weight in self.parts]
        return {"name": self.name, "parts": parts}


def _check_share(value: object, name: str) -> None:
    check_number(value, name, least=0, most=1)
    if value == 0:
        raise ValueError(f"{name} is {value!r}, expected a fraction of the image's width that is above 0")


def _stretch(start: Tensor, end: Tensor, size: int) -> Tensor:
    """Return [..., size] bool: True at the indices start, ..., end - 1 of the last dimension."""
    at = torch.arange(size, device=start.device)
    return (at >= start[..., None]) & (at < end[..., None])
