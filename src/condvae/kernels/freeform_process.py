"""Draw the holes of the observation process `Freeform`, and of mixtures with it, with a GPU kernel."""

import functools
import math
from collections.abc import Sequence

import torch
from torch import Tensor

from condvae.kernels.freeform_holes import draw
from condvae.kernels.freeform_laws import Law, LawOfEach
from condvae.observe.freeform import SEGMENTS, TURN, TURN_SPREAD, WIDTHS, Freeform
from condvae.observe.process import KnownPixels

_ENOUGH = 8
"""Before the kernel is used, the CPU draws this many holes, to check that such hidden shares are frequent enough."""


def draw_known(process: Freeform, n: int, size: int, generator: torch.Generator) -> Tensor:
    """Draw holes for n images. Return [n, 1, size, size] bool, which is True where a pixel is known.

    Each image has a separate random stream. The CPU does not wait for the GPU.
    """
    seeds = _seeds(process, n, size, generator)
    return draw(seeds, size, process.hidden_pixels(size), kernel_law(process, size)).known


def draw_mixture(parts: Sequence[KnownPixels], choice: Tensor, size: int, generator: torch.Generator) -> Tensor:
    """Draw from parts[choice[i]] for each image i. All freeform holes are drawn in one launch of the kernel.

    The time of a launch is the time of its slowest image, so one launch is as quick as one part alone. The holes are
    the same as if every part drew for all images. choice: [n] int64.
    """
    n = len(choice)
    seeds, row = torch.zeros_like(choice), torch.full_like(choice, -1, dtype=torch.int32)
    freeform, others = list[Freeform](), dict[int, Tensor]()
    for k, part in enumerate(parts):
        if isinstance(part, Freeform):
            seeds = torch.where(choice == k, _seeds(part, n, size, generator), seeds)
            row = torch.where(choice == k, len(freeform), row)
            freeform.append(part)
        else:
            others[k] = part.draw(n, size, generator)
    known = torch.ones(n, 1, size, size, dtype=torch.bool, device=choice.device)
    if freeform:
        each = LawOfEach(_table(tuple(freeform), size, choice.device), row.to(torch.int32))
        known = draw(seeds, size, (0, 0), kernel_law(freeform[0], size), each=each).known
    for k, drawn in others.items():
        known = torch.where((choice == k)[:, None, None, None], drawn, known)
    return known


def _seeds(process: Freeform, n: int, size: int, generator: torch.Generator) -> Tensor:
    if generator.device.type != "cuda" or not torch.cuda.is_current_stream_capturing():
        _check_frequent(process, size)
    return torch.randint(2**63 - 1, (n,), device=generator.device, generator=generator)


@functools.cache
def _table(processes: tuple[Freeform, ...], size: int, device: torch.device) -> Tensor:
    """Return the laws of processes for `LawOfEach`. The table is kept, because a CUDA graph cannot copy it again."""
    rows = [[*process.hidden_pixels(size), *process.most_parts] for process in processes]
    return torch.tensor(rows, dtype=torch.int32, device=device)


def kernel_law(process: Freeform, size: int) -> Law:
    """Return the kernel's parameters for holes that have the distribution of the process."""
    mean = math.sqrt(2 * size**2) / 8
    return Law(*process.most_parts, *SEGMENTS, *WIDTHS, TURN, TURN_SPREAD, length=mean, length_spread=mean // 2)


@functools.cache
def _check_frequent(process: Freeform, size: int) -> None:
    """Raise ValueError if hardly any random hole has a hidden share in the range; the kernel could not report this.

    The check runs on the CPU, once per process and size.
    """
    process.draw(_ENOUGH, size, torch.Generator().manual_seed(0))
