"""The optimisers make the same updates as torch's own, and a skipped update changes no bit of the state."""

import math
from typing import Any

import pytest
import torch
from torch import nn

from condvae.training.flat_parameters import FlatParameters
from condvae.training.optimiser import Optimiser, Rule

NO_BAD_LOSSES = torch.zeros(())


def parameters(seed: int = 0) -> nn.ParameterDict:
    generator = torch.Generator().manual_seed(seed)
    return nn.ParameterDict({n: torch.randn(s, generator=generator) for n, s in (("a", (3, 4)), ("b", (5,)))})


def gradients(step: int) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(100 + step)
    return {name: torch.randn(value.shape, generator=generator) for name, value in parameters().items()}


def optimiser(rule: Rule) -> tuple[nn.ParameterDict, Optimiser]:
    module = parameters()
    return module, Optimiser(FlatParameters(module), rule)


def give(made: Optimiser, step: int, factor: float = 1.0) -> None:
    made.flat.fill(made.flat.gradients, {name: factor * g for name, g in gradients(step).items()})


@pytest.mark.parametrize(
    ("rule", "reference", "options"),
    [
        (Rule(clip=1e9, skip_above=1e9), torch.optim.AdamW, {"betas": (0.9, 0.9), "weight_decay": 0.01}),
        (Rule(clip=1e9, skip_above=1e9, beta2=0.99), torch.optim.AdamW, {"betas": (0.9, 0.99), "weight_decay": 0.01}),
        (
            Rule(kind="adamax", clip=1e9, skip_above=1e9, beta2=0.999, weight_decay=0.0),
            torch.optim.Adamax,
            {"betas": (0.9, 0.999)},
        ),
    ],
)
def test_updates_equal_those_of_torch(rule: Rule, reference: Any, options: dict[str, Any]) -> None:
    module, made = optimiser(rule)
    other = parameters()
    theirs = reference(other.values(), lr=0.01, **options)
    for step in range(20):
        rate = 0.01 * (step + 1) / 20
        theirs.param_groups[0]["lr"] = rate
        for name, g in gradients(step).items():
            other[name].grad = g
        theirs.step()
        give(made, step)
        made.update(torch.tensor(rate), bad_losses=NO_BAD_LOSSES)
    for name in module:
        torch.testing.assert_close(module[name], other[name], rtol=1e-5, atol=1e-6)


def test_gradients_are_clipped_as_torch_does() -> None:
    module, made = optimiser(Rule(clip=0.5, skip_above=1e9))
    other = parameters()
    theirs = torch.optim.AdamW(other.values(), lr=0.01, betas=(0.9, 0.9), weight_decay=0.01)
    for step in range(5):
        for name, g in gradients(step).items():
            other[name].grad = g * 10**step
        expected = nn.utils.clip_grad_norm_(other.values(), 0.5)
        theirs.step()
        give(made, step, 10.0**step)
        norm, accepted = made.update(torch.tensor(0.01), bad_losses=NO_BAD_LOSSES)
        torch.testing.assert_close(norm, expected)
        assert accepted == 1
    for name in module:
        torch.testing.assert_close(module[name], other[name], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("kind", ["adamw", "adamax", "muon"])
@pytest.mark.parametrize("broken", ["nan", "inf", "too long", "loss on another rank", "nan flag"])
def test_a_skipped_update_changes_nothing(kind: Any, broken: str) -> None:
    _, made = optimiser(Rule(kind=kind, skip_above=50.0, ema=0.9))
    for step in range(3):
        give(made, step)
        made.update(torch.tensor(0.01), bad_losses=NO_BAD_LOSSES)
    before = {name: vector.clone() for name, vector in made.vectors().items()}
    give(made, 3, 1000.0 if broken == "too long" else 1.0)
    bad_losses = NO_BAD_LOSSES
    if broken in ("nan", "inf"):
        made.flat.gradients[2] = float(broken)
    elif broken == "loss on another rank":
        bad_losses = torch.ones(())
    elif broken == "nan flag":
        bad_losses = torch.full((), math.nan)
    _, accepted = made.update(torch.tensor(0.01), bad_losses=bad_losses)
    assert accepted == 0
    assert made.updates == 3
    for name, vector in made.vectors().items():
        assert torch.equal(vector, before[name]), name


def test_skipping_the_first_update_does_not_divide_by_zero() -> None:
    module, made = optimiser(Rule())
    give(made, 0, math.nan)
    made.update(torch.tensor(0.01), bad_losses=NO_BAD_LOSSES)
    assert all(torch.equal(module[name], parameters()[name]) for name in module)
    give(made, 0)
    made.update(torch.tensor(0.01), bad_losses=NO_BAD_LOSSES)
    assert all(torch.isfinite(module[name]).all() for name in module)


def test_the_average_follows_its_recursion() -> None:
    _, made = optimiser(Rule(ema=0.5))
    expected = made.flat.values.clone()
    for step in range(15):
        give(made, step)
        made.update(torch.tensor(0.01), bad_losses=NO_BAD_LOSSES)
        decay = min(0.5, (1 + step) / (10 + step))
        expected = decay * expected + (1 - decay) * made.flat.values
    torch.testing.assert_close(made.average, expected)


@pytest.mark.parametrize(
    "wrong",
    [
        {"beta1": 1.0},
        {"beta2": -0.1},
        {"ema": 1.0},
        {"clip": 0.0},
        {"skip_above": math.nan},
        {"kind": "sgd"},
        {"weight_decay": -1.0},
    ],
)
def test_invalid_settings_are_rejected(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong)).replace("kind", "optimiser")):
        Rule(**wrong)
