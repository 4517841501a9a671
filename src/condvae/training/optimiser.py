"""AdamW, Adamax and Muon with gradient clipping, skipped updates and an average of the weights.

torch's own optimisers need the host to decide whether to skip an update. Here the device decides: all changes are
multiplied by `accepted`, which is 0 or 1. So a step needs no synchronisation and can be captured as one graph. Tests
compare all optimisers with torch.optim.
"""

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from condvae.runtime.checks import check_choice
from condvae.training.flat_parameters import FlatParameters
from condvae.training.muon import MOMENTUM, ConvolutionSteps


@dataclass(frozen=True, kw_only=True)
class Rule:
    """The optimiser and its settings."""

    kind: Literal["adamw", "adamax", "muon"] = "adamw"
    """muon: Muon for the weights of convolutions, AdamW for all others."""
    beta1: float = 0.9
    beta2: float = 0.9
    eps: float = 1e-8
    weight_decay: float = 0.01
    clip: float = 200.0
    """Gradient clipping: a gradient with a norm above this is scaled down to this norm."""
    skip_above: float = 400.0
    """An update is skipped if the norm of its gradient is above this, or if its loss or its gradient is not finite."""
    ema: float = 0.9999
    """Decay of the moving average of the weights, per update. After n updates, it is at most (1 + n) / (10 + n)."""

    def __post_init__(self) -> None:
        check_choice(self.kind, "the optimiser", ("adamw", "adamax", "muon"))
        for name in ("beta1", "beta2", "ema"):
            if not 0 <= getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}, expected a number from 0 to below 1")
        for name in ("clip", "skip_above", "eps"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name} is {getattr(self, name)}, expected a positive number")
        if not self.weight_decay >= 0:
            raise ValueError(f"weight_decay is {self.weight_decay}, expected 0 or more")


class Optimiser:
    """The state of training: weights, moments of the gradient, averaged weights, and the number of updates."""

    def __init__(self, flat: FlatParameters, rule: Rule) -> None:
        self.flat = flat
        self.rule = rule
        self.first = flat.zeros()
        self.second = flat.zeros()
        self.average = flat.values.clone()
        self.updates = torch.zeros((), device=flat.values.device)
        self.convolutions = ConvolutionSteps(flat) if rule.kind == "muon" else None

    def vectors(self) -> dict[str, Tensor]:
        """Return the vectors of the training state by name: weights, both moments of the gradient, averaged weights."""
        return {"weights": self.flat.values, "first": self.first, "second": self.second, "average": self.average}

    @torch.no_grad()
    def update(self, lr: Tensor, *, bad_losses: Tensor) -> tuple[Tensor, Tensor]:
        """Update the weights with `self.flat.gradients`, or skip the update.

        bad_losses: the number of losses that were not finite, on all ranks. The update is skipped unless it is 0.
        Return the gradient norm, and whether the update was made, as 1 or 0.
        """
        rule, values, gradients = self.rule, self.flat.values, self.flat.gradients
        norm = torch.linalg.vector_norm(gradients)
        valid = torch.isfinite(norm) & (norm <= rule.skip_above) & (bad_losses == 0)
        accepted = valid.to(values.dtype)
        # Skipped gradients are replaced by 0, because NaN times 0 is NaN.
        g = torch.where(valid, gradients * torch.clamp(rule.clip / (norm + 1e-6), max=1.0), 0.0)
        count = self.updates + 1
        correction1, correction2 = 1 - rule.beta1**count, 1 - rule.beta2**count
        decay1: Tensor | float = rule.beta1
        if self.convolutions:
            decay1 = torch.where(self.convolutions.chosen, MOMENTUM, rule.beta1)
        self.first.lerp_(g, (1 - decay1) * accepted)
        if rule.kind == "adamax":
            size = torch.maximum(self.second * rule.beta2, g.abs() + rule.eps)
            self.second.copy_(torch.where(valid, size, self.second))
        else:
            self.second.lerp_(g.square(), (1 - rule.beta2) * accepted)
            size = (self.second / correction2).sqrt() + rule.eps
        steps = self.first / correction1 / size
        if self.convolutions:
            self.convolutions.write(steps, g.lerp(self.first, MOMENTUM))
        rate = lr * accepted
        values.mul_(1 - rate * rule.weight_decay)
        values.sub_(rate * steps)
        decay = torch.clamp((1 + self.updates) / (10 + self.updates), max=rule.ema)
        self.average.lerp_(values, (1 - decay) * accepted)
        self.updates.add_(accepted)
        return norm, accepted
