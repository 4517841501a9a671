"""Compare the completions of several methods as pictures: two contact sheets, and how sharp they are."""

from collections.abc import Mapping

import torch
from PIL import Image
from torch import Tensor

from condvae.completers import Completer
from condvae.completers.by_place import complete_at
from condvae.data.image_set import Indices
from condvae.data.order import spread
from condvae.experiments.evaluation.plan import MIXTURE
from condvae.experiments.evaluation.problems import Problems
from condvae.images.contact_sheet import contact_sheet
from condvae.images.model_sheets import visible
from condvae.metrics import HOLE_BINS
from condvae.metrics.estimate import Estimate
from condvae.observe import Observation
from condvae.observe.observation import observe_levels
from condvae.runtime.pixels import to_uint8

_TILE = 64
_IMAGES_AT_ONCE = 250


def sheet_of(
    completers: Mapping[str, Completer], problems: Problems, device: torch.device, *, n: int = 3
) -> Image.Image:
    """Make a contact sheet with one row per method, below a row with the originals and what is known of them.

    There is one test image for each bin of the hidden share; images and holes are not selected by hand. Each has n
    columns for n completions; a method that does not vary has one completion, and the other places stay white.
    """
    positions = spread(len(problems), len(HOLE_BINS))
    firsts: list[Tensor] = []
    rows: list[list[Tensor]] = [[] for _ in completers]
    columns: list[str] = []
    for hole, position in enumerate(positions):
        truth, observation = problem_in(problems, hole, positions[hole : hole + 1], device)
        assert observation.known is not None
        blank = torch.full_like(truth[0], 255)
        seen = to_uint8(visible(observation))[0]
        firsts += [truth[0], seen, *[blank] * n][:n]
        for row, completer in zip(rows, completers.values(), strict=True):
            drawn = n if completer.varies else 1
            made = complete_at(completer, observation, drawn, seed=problems.seed, places=[int(position)])[0]
            row += [*made, *[blank] * (n - drawn)]
        hidden = 1 - float(observation.known.float().mean())
        columns += [f"{100 * hidden:.0f} % hidden", *[""] * (n - 1)]
    return contact_sheet([firsts, *rows], columns, tile=_TILE, row_labels=["original, known", *completers])


def large_hole_sheet(
    completers: Mapping[str, Completer], problems: Problems, device: torch.device, *, images: int = 10
) -> Image.Image:
    """Make a contact sheet with one completion by each method of up to `images` test images, with the largest holes.

    The rows of the methods are below the originals and what is known of them. Images are not selected by hand.
    """
    positions = spread(len(problems), images)
    truth, observation = problem_in(problems, len(HOLE_BINS) - 1, positions, device)
    rows = {"original": truth, "known": to_uint8(visible(observation))}
    for name, completer in completers.items():
        rows[name] = complete_at(completer, observation, 1, seed=problems.seed, places=positions.tolist())[:, 0]
    return contact_sheet([list(row) for row in rows.values()], [""] * len(positions), tile=_TILE, row_labels=list(rows))


def sharpness_of(
    completer: Completer, problems: Problems, device: torch.device, *, images: int
) -> dict[str, dict[str, float]]:
    """Return the sharpness of completions in each bin and in the mixture, with standard errors over images.

    Sharpness is the mean absolute difference between adjacent hidden pixels, divided by that of the original images.
    It is 1 if completions have as much detail as the originals, and below 1 if they are blurred.
    """
    positions = spread(len(problems), images)
    found: dict[str, dict[str, float]] = {}
    residuals: list[Tensor] = []
    for hole, which in enumerate(HOLE_BINS):
        parts = []
        for first in range(0, len(positions), _IMAGES_AT_ONCE):
            some = positions[first : first + _IMAGES_AT_ONCE]
            truth, observation = problem_in(problems, hole, some, device)
            assert observation.known is not None
            made = complete_at(completer, observation, 1, seed=problems.seed, places=some.tolist())[:, 0]
            parts.append(torch.stack([differences(image, ~observation.known) for image in (made, truth)]).cpu())
        ours, original = torch.cat(parts, dim=1)
        ratio = Estimate.of_ratio(ours, original)
        found[str(which)] = ratio._asdict()
        residuals.append((ours - ratio.mean * original) / original.sum())
    # All bins have the same images, so that their errors are not independent.
    error = float(torch.stack(residuals).mean(0).square().sum().sqrt())
    mean = sum(cell["mean"] for cell in found.values()) / len(found)
    return {**found, MIXTURE: {"mean": mean, "standard_error": error}}


def differences(images: Tensor, hidden: Tensor) -> Tensor:
    """Sum the absolute differences of horizontally and vertically adjacent pixels that are both hidden.

    images: [B, C, H, W] uint8. hidden: [B, 1, H, W] bool. The result is [B], float64, in grey levels.
    """
    levels = images.double()
    across = (levels[..., 1:] - levels[..., :-1]).abs() * (hidden[..., 1:] & hidden[..., :-1])
    down = (levels[..., 1:, :] - levels[..., :-1, :]).abs() * (hidden[..., 1:, :] & hidden[..., :-1, :])
    return across.sum(dim=(1, 2, 3)) + down.sum(dim=(1, 2, 3))


def problem_in(problems: Problems, hole: int, positions: Indices, device: torch.device) -> tuple[Tensor, Observation]:
    """Return test images and what is known of them, with the holes of the evaluation in one bin."""
    truth = problems.truth(positions, device)
    return truth, observe_levels(truth, problems.known(hole, positions, device))
