"""Probabilities that mean what they say: how far they are from that, and scalings of logits that bring them there."""

import torch
import torch.nn.functional as F
from torch import Tensor

_LEAST_GAIN = 0.05
"""Calibration never turns an order round: a variable that held-out data speaks against is told to say little."""
_ITERATIONS, _HALVINGS = 100, 40
_DONE = 1e-10


def expected_calibration_error(p: Tensor, labels: Tensor, *, bins: int = 15, equal_mass: bool = False) -> float:
    """The mean distance between probabilities and how often they came true, in bins of like probabilities.

    p: [N] of outcome 1, with labels [N] of 0 and 1; or [N, K], of whose most likely outcomes it is taken, with labels
    [N]. equal_mass: bins of as many probabilities as can be, equal ones together; else of equal width.
    """
    if p.ndim not in (1, 2) or labels.shape != p.shape[:1] or not len(p):
        raise ValueError(
            f"probabilities are {list(p.shape)} and labels {list(labels.shape)}, expected [N] or [N, K], and [N]"
        )
    if bins < 1:
        raise ValueError(f"there are {bins} bins, expected at least one")
    p, true = p.double(), labels.double()
    if p.ndim == 2:
        p, likeliest = p.max(dim=1)
        true = (likeliest == labels).double()
    if not bool(((p >= 0) & (p <= 1)).all()):
        raise ValueError("probabilities to be judged are not all between 0 and 1")
    place = p = p.contiguous()  # a column of a table is not, and searching would warn
    if equal_mass:
        place = torch.searchsorted(p.sort().values, p) / len(p)  # the share of smaller ones
    which = (place * bins).long().clamp(max=bins - 1)
    gaps = torch.zeros(bins, dtype=torch.float64, device=p.device).index_add_(0, which, p - true)
    return float(gaps.abs().sum() / len(p))


def platt_scaling(logits: Tensor, labels: Tensor, *, strength: float = 1.0) -> tuple[Tensor, Tensor]:
    """gain and offset, [V] float64 each, so that gain * logit + offset fits labels [N, V] of 0 and 1 best.

    By Newton's method on the log-loss, to which as much is added as `strength` observations of gain 1 and offset 0
    would say: a finding that nobody has keeps its logits about as they are.
    """
    z, t = logits.double(), labels.double()
    if z.ndim != 2 or z.shape != t.shape:
        raise ValueError(f"logits are {list(z.shape)} and labels {list(t.shape)}, expected [N, V] both")
    ones = torch.ones(z.shape[1], dtype=torch.float64, device=z.device)
    fitted = _newton(z, t, strength, gain=ones, free=ones)
    # Convex: where the best gain is too small, the best that is allowed is the smallest allowed.
    bounded = _newton(z, t, strength, gain=_LEAST_GAIN * ones, free=0 * ones)
    low = fitted[0] < _LEAST_GAIN
    return torch.where(low, bounded[0], fitted[0]), torch.where(low, bounded[1], fitted[1])


def temperature_scaling(logits: Tensor, labels: Tensor, *, strength: float = 1.0) -> Tensor:
    """The gain, [] float64, by which logits [N, K] fit labels [N] best; `strength` as in `platt_scaling`."""
    z = logits.double()
    if z.ndim != 2 or labels.shape != z.shape[:1]:
        raise ValueError(f"logits are {list(z.shape)} and labels {list(labels.shape)}, expected [N, K] and [N]")
    low, high = torch.tensor([_LEAST_GAIN, 100.0], dtype=torch.float64, device=z.device)

    def slope(gain: Tensor) -> Tensor:
        p = (gain * z).softmax(dim=1)
        expected, found = (p * z).sum(dim=1), z.gather(1, labels.long()[:, None])[:, 0]
        rises: Tensor = (expected - found).sum() + strength * (gain - 1)
        return rises

    for _ in range(60):  # the loss is convex in the gain: its slope rises, and halving finds where it is zero
        middle = (low + high) / 2
        rising = slope(middle) > 0
        low, high = torch.where(rising, low, middle), torch.where(rising, middle, high)
    found: Tensor = (low + high) / 2
    return found


def _newton(z: Tensor, t: Tensor, strength: float, *, gain: Tensor, free: Tensor) -> tuple[Tensor, Tensor]:
    """Gains where they are `free` (1, else 0), and offsets, that make the loss of every variable smallest."""
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
        for _ in range(_HALVINGS):  # a whole step may overshoot
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
