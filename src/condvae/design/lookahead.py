"""What g would say after each scan that could come next, of each image that could be there: all at once, in chunks."""

import torch
from torch import Tensor

from condvae.design.candidates import Candidates
from condvae.design.classifier import Classifier
from condvae.observe.observation import check_known
from condvae.runtime.checks import check_whole
from condvae.runtime.pixels import from_uint8

_PIXELS_AT_ONCE = {"cuda": 2**25, "cpu": 2**18}
"""Of the images that the classifier is given in one call: as many as keep a device busy, which bounds the memory."""


_NUMBERS_AT_ONCE = 2**24
"""Of those that are checked together."""
_ROUNDING = 0.02
"""By how much the logarithm of a sum of probabilities may be off 0: those in half precision are."""


@torch.no_grad()
def look_ahead(
    classifier: Classifier,
    images: Tensor,
    known: Tensor,
    candidates: Candidates,
    *,
    variable: int | None = None,
    at_once: int | None = None,
) -> Tensor:
    """log g(v | what would be seen of image n after scan l, with what is known already).

    images: [B, N, C, H, W] uint8; known: [B, 1, H, W] bool. Returns [B, N, L, K] float32 for one variable, or
    [B, N, L, V, K] for all. at_once: evaluations in one call of the classifier.
    """
    if images.ndim != 5 or images.dtype != torch.uint8:
        raise ValueError(
            f"the images are {images.dtype} of shape {tuple(images.shape)}, expected uint8 of [B, N, C, H, W]"
        )
    batch, n, channels, height, width = images.shape
    if (height, width) != (candidates.size, candidates.size):
        raise ValueError(
            f"the images are {height} x {width}, the candidates are windows of {candidates.size} x {candidates.size}: "
            "give candidates of the images' size"
        )
    check_known(known, (batch, 1, height, width))
    device, scans = images.device, len(candidates)
    levels, windows = images.reshape(batch * n, channels, height, width), candidates.windows.to(device)
    known = known.to(device)
    count = batch * n * scans
    out: Tensor | None = None
    for first, last in _chunks(count, images, at_once):
        number = torch.arange(first, last, device=device)  # of (b, n, l), counted through
        image, scan = number // scans, number % scans
        after = known[image // n] | windows[scan]
        said = ask(classifier, from_uint8(levels[image]), after)
        said = said if variable is None else said[:, variable]
        if out is None:
            out = torch.empty(count, *said.shape[1:], dtype=torch.float32, device=device)
        out[first:last] = said
    assert out is not None
    check_probabilities(out)
    return out.view(batch, n, scans, *out.shape[1:])


@torch.no_grad()
def log_posteriors(classifier: Classifier, images: Tensor, known: Tensor, *, at_once: int | None = None) -> Tensor:
    """[B, V, K] float32: what g says of images [B, C, H, W] uint8 of which known: [B, 1, H, W] is seen."""
    chunks = _chunks(len(images), images, at_once)
    said = torch.cat([ask(classifier, from_uint8(images[a:b]), known[a:b]) for a, b in chunks]).float()
    check_probabilities(said)
    return said


def ask(classifier: Classifier, pixels: Tensor, known: Tensor) -> Tensor:
    """[B, V, K] log g for pixels in [-1, 1], of which nothing but the known ones is handed on; their values are not
    looked at.
    """
    said = classifier.log_posterior(torch.where(known, pixels, 0.0), known)
    expected = (len(pixels), len(classifier.names), classifier.outcomes)
    if not isinstance(said, Tensor) or said.shape != expected:
        found = list(said.shape) if isinstance(said, Tensor) else f"a {type(said).__name__}"
        raise ValueError(f"the classifier gave {found}, expected a tensor {list(expected)}: [B, V, K]")
    return said


def check_probabilities(log_p: Tensor) -> None:
    """Raise a ValueError unless [..., K] are the logarithms of probabilities that sum to 1, about."""
    outcomes = log_p.shape[-1]
    for part in log_p.reshape(-1, outcomes).split(max(1, _NUMBERS_AT_ONCE // outcomes)):
        off = part.float().logsumexp(dim=-1).abs()
        if bool((off < _ROUNDING).all()):  # so that NaN is refused too
            continue
        raise ValueError(
            "the classifier gave what are no log-probabilities: expected numbers, of which the exponentials sum to 1"
        )


def _chunks(count: int, images: Tensor, at_once: int | None) -> list[tuple[int, int]]:
    """First and last + 1 of the evaluations of each call."""
    if at_once is None:
        pixels = _PIXELS_AT_ONCE.get(images.device.type, _PIXELS_AT_ONCE["cpu"])
        at_once = max(1, pixels // (images.shape[-2] * images.shape[-1]))
    check_whole(at_once, "the number of evaluations at once", least=1)
    return [(first, min(first + at_once, count)) for first in range(0, count, at_once)]
