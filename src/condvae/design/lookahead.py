"""Predictions of the classifier g after each possible next scan of each possible image, computed in chunks."""

import torch
from torch import Tensor

from condvae.design.candidates import Candidates
from condvae.design.classifier import Classifier
from condvae.observe.observation import check_known
from condvae.runtime.checks import check_whole
from condvae.runtime.pixels import from_uint8

_PIXELS_AT_ONCE = {"cuda": 2**25, "cpu": 2**18}
"""The most pixels in one call of the classifier: enough to keep the device busy, and few enough for its memory."""
_NUMBERS_AT_ONCE = 2**24
"""The most probabilities that are checked together, which limits memory."""
_ROUNDING = 0.02
"""The largest |log(sum of probabilities)| that is accepted. In half precision it is not exactly 0."""


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
    """Predict log g(v | pixels known after scan l) for every possible image n and every candidate scan l.

    images: [B, N, C, H, W] uint8, N possible images for each of B observations.
    known: [B, 1, H, W] bool, the pixels that are known before the scan.
    at_once: number of inputs in one call of the classifier.
    Returns log g as float32: [B, N, L, K] for one variable, or [B, N, L, V, K] for all V variables if none is given.
    """
    if images.ndim != 5 or images.dtype != torch.uint8:
        raise ValueError(
            f"the images are {images.dtype} of shape {tuple(images.shape)}, expected uint8 of shape [B, N, C, H, W]"
        )
    batch, n, channels, height, width = images.shape
    if (height, width) != (candidates.size, candidates.size):
        raise ValueError(
            f"the images are {height} x {width} but the candidate windows are for images of "
            f"{candidates.size} x {candidates.size}: make candidates for the size of the images"
        )
    check_known(known, (batch, 1, height, width))
    device, scans = images.device, len(candidates)
    levels, windows = images.reshape(batch * n, channels, height, width), candidates.windows.to(device)
    known = known.to(device)
    count = batch * n * scans
    out: Tensor | None = None
    for first, last in _chunks(count, images, at_once):
        number = torch.arange(first, last, device=device)  # flat index of (b, n, l)
        image, scan = number // scans, number % scans
        after = known[image // n] | windows[scan]
        said = predict(classifier, from_uint8(levels[image]), after)
        said = said if variable is None else said[:, variable]
        if out is None:
            out = torch.empty(count, *said.shape[1:], dtype=torch.float32, device=device)
        out[first:last] = said
    assert out is not None
    check_probabilities(out)
    return out.view(batch, n, scans, *out.shape[1:])


@torch.no_grad()
def log_posteriors(classifier: Classifier, images: Tensor, known: Tensor, *, at_once: int | None = None) -> Tensor:
    """Predict log g, [B, V, K] float32, from the known pixels of images.

    images: [B, C, H, W] uint8. known: [B, 1, H, W] bool. at_once: number of images in one call of the classifier.
    """
    chunks = _chunks(len(images), images, at_once)
    said = torch.cat([predict(classifier, from_uint8(images[a:b]), known[a:b]) for a, b in chunks]).float()
    check_probabilities(said)
    return said


def predict(classifier: Classifier, pixels: Tensor, known: Tensor) -> Tensor:
    """Predict log g, [B, V, K], from images with pixels in [-1, 1], whose hidden pixels are set to 0 first.

    Only the shape of the result is checked here; `check_probabilities` checks its values.
    """
    said = classifier.log_posterior(torch.where(known, pixels, 0.0), known)
    expected = (len(pixels), len(classifier.names), classifier.outcomes)
    if not isinstance(said, Tensor) or said.shape != expected:
        found = f"a tensor of shape {list(said.shape)}" if isinstance(said, Tensor) else f"a {type(said).__name__}"
        raise ValueError(
            f"the classifier returned {found}, expected a tensor of shape {list(expected)}: the numbers of images, "
            "variables and outcomes"
        )
    return said


def check_probabilities(log_p: Tensor) -> None:
    """Raise a ValueError unless log_p [..., K] contains log-probabilities, whose exponentials sum to about 1."""
    outcomes = log_p.shape[-1]
    for part in log_p.reshape(-1, outcomes).split(max(1, _NUMBERS_AT_ONCE // outcomes)):
        off = part.float().logsumexp(dim=-1).abs()
        if bool((off < _ROUNDING).all()):  # written so that NaN fails too
            continue
        raise ValueError(
            "the classifier did not return log-probabilities: expected numbers whose exponentials sum to 1 over "
            "the outcomes of a variable"
        )


def _chunks(count: int, images: Tensor, at_once: int | None) -> list[tuple[int, int]]:
    """Split `count` inputs into calls of the classifier; return (first, last + 1) for each call."""
    if at_once is None:
        pixels = _PIXELS_AT_ONCE.get(images.device.type, _PIXELS_AT_ONCE["cpu"])
        at_once = max(1, pixels // (images.shape[-2] * images.shape[-1]))
    check_whole(at_once, "the number of evaluations at once", least=1)
    return [(first, min(first + at_once, count)) for first in range(0, count, at_once)]
