"""Muon makes the updates of torch.optim.Muon for convolutions, and those of AdamW for all other weights."""

import pytest
import torch
from torch import nn

from condvae.training.flat_parameters import FlatParameters
from condvae.training.muon import orthogonalised
from condvae.training.optimiser import Optimiser, Rule


def network() -> nn.Module:
    torch.manual_seed(0)
    layers = nn.Sequential(
        nn.Conv2d(3, 16, 3), nn.Conv2d(16, 8, 1), nn.Conv2d(8, 16, 3), nn.Conv2d(16, 8, 1), nn.Conv2d(8, 6, 1)
    )
    return layers.to(memory_format=torch.channels_last)  # type: ignore[call-overload, no-any-return]


def test_updates_equal_those_of_torch() -> None:
    ours, theirs = network(), network()
    made = Optimiser(FlatParameters(ours), Rule(kind="muon", clip=1e9, skip_above=1e9))
    matrices = {name: p for name, p in theirs.named_parameters() if name in ("1.weight", "2.weight", "3.weight")}
    # torch.optim.Muon takes matrices only. A convolution's matrix has one row per output channel.
    flat = {
        name: nn.Parameter(p.detach().permute(0, 2, 3, 1).flatten(1).clone(), requires_grad=True)
        for name, p in matrices.items()
    }
    others = {name: p for name, p in theirs.named_parameters() if name not in matrices}
    references = [
        torch.optim.Muon(flat.values(), lr=0.01, weight_decay=0.01, adjust_lr_fn="match_rms_adamw"),
        torch.optim.AdamW(others.values(), lr=0.01, betas=(0.9, 0.9), weight_decay=0.01),
    ]
    for step in range(5):
        generator = torch.Generator().manual_seed(step)
        gradients = {name: torch.randn(p.shape, generator=generator) for name, p in ours.named_parameters()}
        made.flat.fill(made.flat.gradients, gradients)
        made.update(torch.tensor(0.01), bad_losses=torch.zeros(()))
        for name, gradient in gradients.items():
            if name in flat:
                flat[name].grad = gradient.permute(0, 2, 3, 1).flatten(1)
            else:
                others[name].grad = gradient
        for reference in references:
            reference.step()
    for name, p in ours.named_parameters():
        if name in flat:  # orthogonal matrices are computed in bfloat16, which torch rounds at other places
            initial = dict(network().named_parameters())[name]
            found, before = (one.permute(0, 2, 3, 1).flatten(1) for one in (p, initial))
            assert (found - flat[name]).norm() < 0.05 * (flat[name] - before).norm()
        else:
            torch.testing.assert_close(p, others[name], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("shape", [(1, 12, 12), (3, 8, 30), (2, 40, 9)])
def test_singular_vectors_stay_and_singular_values_become_equal(shape: tuple[int, int, int]) -> None:
    u, s, v = torch.linalg.svd(torch.randn(shape, generator=torch.Generator().manual_seed(1)), full_matrices=False)
    made = orthogonalised(u @ torch.diag_embed(s + 0.5) @ v)
    inside = u.mT @ made @ v.mT
    diagonal = inside.diagonal(dim1=1, dim2=2)
    assert (diagonal > 0.6).all()
    assert (diagonal < 1.3).all()
    assert (inside - torch.diag_embed(diagonal)).abs().max() < 0.05


def test_no_gradient_means_no_step() -> None:
    assert torch.equal(orthogonalised(torch.zeros(2, 4, 8)), torch.zeros(2, 4, 8))
