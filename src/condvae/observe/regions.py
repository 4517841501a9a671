"""Known pixels in simple regions: patches, boxes, halves, single pixels, nothing, and mixtures of such processes."""

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from condvae.observe.process import KnownPixels, check_number
from condvae.runtime.checks import check_whole


@dataclass(frozen=True, kw_only=True)
class Patches(KnownPixels):
    """A few square patches are known, which may overlap and reach out of the image."""

    name: ClassVar[str] = "patches"

    most: int = 5
    """There are 0 to this many patches, all numbers equally often."""
    side: float = 0.35
    """A patch's side, as a share of the image's width."""

    def __post_init__(self) -> None:
        check_whole(self.most, "most")
        _check_share(self.side, "side")

    def draw(self, n: int, size: int, generator: torch.Generator) -> Tensor:
        device = generator.device
        side = max(1, round(self.side * size))
        number = torch.randint(0, self.most + 1, (n, 1), device=device, generator=generator)
        drawn = torch.arange(self.most, device=device) < number
        # Corners from -side + 1 to size - 1: at least one pixel of every patch lies in the image.
        corner = torch.randint(1 - side, size, (n, self.most, 2), device=device, generator=generator)
        rows, columns = _stretch(corner, corner + side, size).unbind(2)
        return (rows[..., :, None] & columns[..., None, :] & drawn[..., None, None]).any(dim=1, keepdim=True)


@dataclass(frozen=True, kw_only=True)
class Boxes(KnownPixels):
    """One box inside the image is hidden, or is all that is known."""

    name: ClassVar[str] = "boxes"

    least: float = 0.25
    """The shortest side, as a share of the image's width."""
    largest: float = 0.75
    """The longest side, as a share of the image's width."""
    hidden: float = 0.5
    """How often the box is what is hidden; else it is all that is known."""

    def __post_init__(self) -> None:
        _check_share(self.least, "least")
        _check_share(self.largest, "largest")
        check_number(self.hidden, "hidden", least=0, most=1)
        if self.least > self.largest:
            raise ValueError(f"a box has sides from {self.least} to {self.largest}, expected least up to largest")

    def draw(self, n: int, size: int, generator: torch.Generator) -> Tensor:
        device = generator.device
        shortest, longest = (max(1, round(share * size)) for share in (self.least, self.largest))
        sides = torch.randint(shortest, longest + 1, (n, 2), device=device, generator=generator)
        # randint(size - side + 1), whose bound differs from box to box
        room = size - sides + 1
        corner = (torch.rand(n, 2, device=device, generator=generator) * room).long()
        rows, columns = _stretch(corner, corner + sides, size).unbind(1)
        box = (rows[:, :, None] & columns[:, None, :])[:, None]
        hidden = torch.rand(n, 1, 1, 1, device=device, generator=generator) < self.hidden
        return box ^ hidden


@dataclass(frozen=True, kw_only=True)
class Halves(KnownPixels):
    """The left, right, upper or lower half is hidden, equally often."""

    name: ClassVar[str] = "halves"

    def draw(self, n: int, size: int, generator: torch.Generator) -> Tensor:
        way = torch.rand(2, n, 1, 1, 1, device=generator.device, generator=generator) < 0.5
        first = torch.arange(size, device=generator.device) < size // 2
        half = torch.where(way[0], first[:, None], first[None, :])  # the upper or the left half
        return half ^ way[1]


@dataclass(frozen=True, kw_only=True)
class Pixels(KnownPixels):
    """Single pixels are known, each independently of the others."""

    name: ClassVar[str] = "pixels"

    least: float = 0.0
    """An image's share of known pixels is uniform from this ..."""
    most: float = 1.0
    """... to this."""

    def __post_init__(self) -> None:
        check_number(self.least, "least", least=0, most=1)
        check_number(self.most, "most", least=0, most=1)
        if self.least > self.most:
            raise ValueError(f"the known share is from {self.least} to {self.most}, expected least up to most")

    def draw(self, n: int, size: int, generator: torch.Generator) -> Tensor:
        share = torch.rand(n, 1, 1, 1, device=generator.device, generator=generator)
        share = self.least + (self.most - self.least) * share
        return torch.rand(n, 1, size, size, device=generator.device, generator=generator) < share


@dataclass(frozen=True, kw_only=True)
class Nothing(KnownPixels):
    """Nothing is known: conditional sampling becomes sampling."""

    name: ClassVar[str] = "nothing"

    def draw(self, n: int, size: int, generator: torch.Generator) -> Tensor:
        return torch.zeros(n, 1, size, size, dtype=torch.bool, device=generator.device)


@dataclass(frozen=True, kw_only=True)
class Mixture(KnownPixels):
    """Each image is observed by one of several processes."""

    name: ClassVar[str] = "mixture"

    parts: tuple[tuple[KnownPixels, float], ...]
    """The processes, and how often each is drawn relative to the others."""

    def __post_init__(self) -> None:
        if not isinstance(self.parts, tuple):
            raise ValueError(f"parts is {self.parts!r}, expected a tuple of processes with their weights")
        if len(self.parts) < 2:
            raise ValueError(f"a mixture has {len(self.parts)} parts, expected at least two")
        for process, weight in self.parts:
            if isinstance(process, Mixture) or not isinstance(process, KnownPixels):
                raise ValueError(f"a mixture holds {process!r}, expected processes that show some of an image's pixels")
            check_number(weight, f"the weight of {process.name}", least=0)
            if weight == 0:
                raise ValueError(f"the weight of {process.name} is 0, expected more: leave it out instead")

    def draw(self, n: int, size: int, generator: torch.Generator) -> Tensor:
        """On the CPU no more is drawn from each part than the images that chose it; on a GPU that would wait for it."""
        weights = torch.tensor([weight for _, weight in self.parts], dtype=torch.float64)
        bounds = (weights.cumsum(0) / weights.sum())[:-1].to(torch.float32)
        way = torch.rand(n, device=generator.device, generator=generator)
        if generator.device.type != "cpu":
            return self._chosen(way, bounds.tolist(), size, generator)
        choice = torch.bucketize(way, bounds, right=True)
        counts = choice.bincount(minlength=len(self.parts)).tolist()
        drawn = torch.cat(
            [part.draw(count, size, generator) for (part, _), count in zip(self.parts, counts, strict=True)]
        )
        # drawn is in the order of the parts: the j-th of them goes to the image that is j-th by its choice.
        known = torch.empty_like(drawn)
        known[choice.argsort(stable=True)] = drawn
        return known

    def _chosen(self, way: Tensor, bounds: list[float], size: int, generator: torch.Generator) -> Tensor:
        """Every part for every image, the k-th where `way` [n] lies from bounds[k - 1] up to bounds[k]."""
        known, *others = (part.draw(len(way), size, generator) for part, _ in self.parts)
        for bound, other in zip(bounds, others, strict=True):
            known = torch.where((way >= bound)[:, None, None, None], other, known)
        return known

    def to_dict(self) -> dict[str, Any]:
        parts = [{"process": process.to_dict(), "weight": weight} for process, weight in self.parts]
        return {"name": self.name, "parts": parts}


def _check_share(value: object, name: str) -> None:
    check_number(value, name, least=0, most=1)
    if value == 0:
        raise ValueError(f"{name} is {value!r}, expected a share of the image's width above 0")


def _stretch(start: Tensor, end: Tensor, size: int) -> Tensor:
    """[..., size] bool: True from start up to end."""
    at = torch.arange(size, device=start.device)
    return (at >= start[..., None]) & (at < end[..., None])
