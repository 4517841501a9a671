"""Calibration of predicted probabilities: measure the calibration error, and scale logits to reduce it."""

import torch
import torch.nn.functional as F
from torch import Tensor

_LEAST_GAIN = 0.05
"""Smallest gain, the factor on logits. It is positive, so that calibration never reverses the order of predictions."""
_ITERATIONS, _HALVINGS = 100, 40
_DONE = 1e-10


def expected_calibration_error(p: Tensor, labels: Tensor, *, bins: int = 15, equal_mass: bool = False) -> float:
    """Return the expected calibration error: the mean gap between predicted probability and observed frequency in bins.

    p: either probabilities [N] of outcome 1, with labels [N] of 0 and 1; or probabilities [N, K] of K outcomes, with
    labels [N], in which case only the most likely outcome of each row is judged.
    equal_mass: use bins that contain about the same number of predictions, instead of bins of equal width. Equal
    probabilities are always in the same bin.
    """
    if p.ndim not in (1, 2) or labels.shape != p.shape[:1] or not len(p):
        raise ValueError(
            f"the probabilities have shape {list(p.shape)} and the labels {list(labels.shape)}, expected probabilities "
            "[N] or [N, K] and labels [N]"
        )
    if bins < 1:
        raise ValueError(f"the number of bins is {bins}, expected at least 1")
    p, true = p.double(), labels.double()
    if p.ndim == 2:
        p, likeliest = p.max(dim=1)
        true = (likeliest == labels).double()
    if not bool(((p >= 0) & (p <= 1)).all()):
        raise ValueError("not all probabilities are between 0 and 1: give probabilities, not logits")
    place = p = p.contiguous()  # searchsorted warns about tensors that are not contiguous
    if equal_mass:
        place = torch.searchsorted(p.sort().values, p) / len(p)  # the share of smaller probabilities
    which = (place * bins).long().clamp(max=bins - 1)
    gaps = torch.zeros(bins, dtype=torch.float64, device=p.device).index_add_(0, which, p - true)
    return float(gaps.abs().sum() / len(p))


def platt_scaling(logits: Tensor, labels: Tensor, *, strength: float = 1.0) -> tuple[Tensor, Tensor]:
    """Fit a gain and an offset for each of V variables, such that gain * logit + offset predicts the labels best.

    labels: [N, V], each 0 or 1. Returns gains and offsets, [V] float64 each. The fit minimises the log loss by Newton's
    method, plus a penalty that acts like `strength` observations in favour of gain 1 and offset 0. A variable without
    positive labels therefore keeps about its own logits.
    """
    z, t = logits.double(), labels.double()
    if z.ndim != 2 or z.shape != t.shape:
        raise ValueError(f"the logits have shape {list(z.shape)} and the labels {list(t.shape)}, expected both [N, V]")
    ones = torch.ones(z.shape[1], dtype=torch.float64, device=z.device)
    fitted = _newton(z, t, strength, gain=ones, free=ones)
    # The loss is convex, so if the best gain is below the limit, the best allowed gain is the limit itself.
    bounded = _newton(z, t, strength, gain=_LEAST_GAIN * ones, free=0 * ones)
    low = fitted[0] < _LEAST_GAIN
    return torch.where(low, bounded[0], fitted[0]), torch.where(low, bounded[1], fitted[1])


def temperature_scaling(logits: Tensor, labels: Tensor, *, strength: float = 1.0) -> Tensor:
    """Fit one gain, a float64 scalar, such that softmax(gain * logits) predicts the labels best.

    logits: [N, K]. labels: [N], from 0 to K - 1. strength: as in `platt_scaling`.
    """
    z = logits.double()
    if z.ndim != 2 or labels.shape != z.shape[:1]:
        raise ValueError(
            f"the logits have shape {list(z.shape)} and the labels {list(labels.shape)}, expected logits [N, K] and "
            "labels [N]"
        )
    low, high = torch.tensor([_LEAST_GAIN, 100.0], dtype=torch.float64, device=z.device)

    def slope(gain: Tensor) -> Tensor:
        p = (gain * z).softmax(dim=1)
        expected, found = (p * z).sum(dim=1), z.gather(1, labels.long()[:, None])[:, 0]
        rises: Tensor = (expected - found).sum() + strength * (gain - 1)
        return rises

    for _ in range(60):  # bisection: the loss is convex in the gain, so its slope has one zero
        middle = (low + high) / 2
        rising = slope(middle) > 0
        low, high = torch.where(rising, low, middle), torch.where(rising, middle, high)
    found: Tensor = (low + high) / 2
    return found


def _newton(z: Tensor, t: Tensor, strength: float, *, gain: Tensor, free: Tensor) -> tuple[Tensor, Tensor]:
    """Minimise each variable's loss over its offset, and also over its gain where `free` is 1 instead of 0."""
    offset = torch.zeros_like(gain)

    def loss(gain: Tensor, offset: Tensor) -> Tensor:
        data = F.binary_cross_entropy_with_logits(z * gain + offset, t, reduction="none").sum(dim=0)
        return data + strength / 2 * ((gain - 1).square() + offset.square())

    now = loss(gain, offset)
    for _ in range(_ITERATIONS):
        p = (z * gain + offset).sigmoid()
        weight = p * (1 - p)
        slope = torch.stack((((p - t) * z).sum(0) + strength * (gain - 1), (p - t).sum(0) + strength * offset), dim=1)
        mixed = (weight * z).sum(0) * free
        curvature = torch.stack(((weight * z * z).sum(0) + strength, mixed, mixed, weight.sum(0) + strength), dim=1)
        step = torch.linalg.solve(curvature.view(-1, 2, 2), slope * torch.stack((free, torch.ones_like(free)), dim=1))
        length = torch.ones_like(now)
        for _ in range(_HALVINGS):  # halve the step where it overshoots
            then = loss(gain - length * step[:, 0], offset - length * step[:, 1])
            worse = then > now + 1e-12
            if not bool(worse.any()):
                break
            length = torch.where(worse, length / 2, length)
        else:
            length = torch.where(worse, 0.0, length)
        gain, offset = gain - length * step[:, 0], offset - length * step[:, 1]
        now = loss(gain, offset)
        if float((length[:, None] * step).abs().max()) < _DONE:
            break
    return gain, offset
