import math
from typing import Any

import pytest
import torch
from helpers.models import generator, images, some_known
from torch import Tensor, nn

from condvae.completers.learned_completer import Losses
from condvae.completers.pluralistic import Pluralistic, PluralisticConfig, PluralisticLoss
from condvae.completers.pluralistic.pluralistic_loss import fixed_std
from condvae.noise import GeneratorNoise, SeededNoise

SIZE = 16
TINY: dict[str, Any] = {
    "image_size": SIZE,
    "width": 8,
    "max_width": 16,
    "latent_channels": 6,
    "prior_blocks": 1,
    "attention_size": 8,
    "output_scales": 2,
}
X, KNOWN = images(3, size=SIZE), some_known(3, size=SIZE)


def tiny_loss(**changes: Any) -> PluralisticLoss:
    """A tiny loss in training mode, in which no gamma or alpha is 0."""
    torch.manual_seed(0)
    loss = PluralisticLoss(Pluralistic(PluralisticConfig(**(TINY | changes))))
    for name, parameter in loss.named_parameters():
        if name.endswith(("gamma", "alpha")):
            nn.init.constant_(parameter, 0.5)
    return loss.train()


def compute(loss: PluralisticLoss, x: Tensor = X, known: Tensor = KNOWN) -> Losses:
    found: Losses = loss(x, known, SeededNoise(range(len(x))))
    return found


def with_gradients(module: nn.Module) -> set[str]:
    """The names of the parameters that have a gradient other than 0."""
    return {n for n, p in module.named_parameters() if p.grad is not None and float(p.grad.abs().max()) > 0}


def test_the_fixed_prior_is_wide_for_large_holes() -> None:
    known = torch.zeros(3, 1, 10, 10, dtype=torch.bool)
    known[1, :, :8] = True
    known[2] = True
    expected = torch.tensor([1 / (1 + math.exp(-6.4)), 0.5, 1 / (1 + math.exp(1.6))])  # 0.998, 0.5, 0.168
    torch.testing.assert_close(fixed_std(known).flatten(), expected)
    assert fixed_std(known).shape == (3, 1, 1, 1)


@pytest.mark.parametrize("adversarial", [True, False])
def test_the_total_is_the_weighted_sum_of_the_terms(adversarial: bool) -> None:
    loss = tiny_loss(reconstruction_weight=3.0, kl_weight=5.0, adversarial=adversarial).eval()
    total, parts = compute(loss)
    assert total.shape == () and total.dtype == torch.float32
    assert not any(part.requires_grad for part in parts.values())

    with torch.no_grad():
        paths = loss.completer.paths(X, KNOWN, SeededNoise(range(3)))
    p, q = (torch.distributions.Normal(d.mean, d.log_std.exp()) for d in (paths.posterior, paths.prior))
    s = torch.stack([1 / (1 + (8 * (k.float().mean() - 0.8)).exp()) for k in KNOWN]).view(3, 1, 1, 1)
    fixed = torch.distributions.Normal(torch.zeros_like(p.mean), s.expand_as(p.mean))
    kl = torch.distributions.kl_divergence(fixed, p).mean() + torch.distributions.kl_divergence(p, q).mean()
    coarse, m = X.unfold(2, 2, 2).unfold(3, 2, 2).mean(dim=(4, 5)), KNOWN.float()
    coarse_m = m.unfold(2, 2, 2).unfold(3, 2, 2).mean(dim=(4, 5))
    l1 = sum(
        (rec - x).abs().mean() + (known * gen - known * x).abs().mean()
        for rec, gen, x, known in zip(paths.reconstructed, paths.generated, (coarse, X), (coarse_m, m), strict=True)
    )
    expected = 3 * l1 + 5 * 2 * kl
    if loss.critic is not None:
        d, d_rec = loss.critic["generated"], loss.critic["reconstructed"]
        expected += (d(paths.generated[-1]) - 1).square().mean()
        expected += (d_rec(paths.reconstructed[-1]) - d_rec(X)).square().mean()
    torch.testing.assert_close(total, expected, rtol=1e-4, atol=1e-5)
    assert set(parts) == {"reconstruction_l1", "visible_l1", "posterior_kl_nats", "prior_kl_nats"} | (
        {"adversarial", "score_difference"} if adversarial else set()
    )


def test_the_loss_of_the_critic() -> None:
    loss = tiny_loss().eval()
    total, parts = loss.critic_loss(X, KNOWN, SeededNoise(range(3)))
    assert loss.critic is not None
    with torch.no_grad():
        paths = loss.completer.paths(X, KNOWN, SeededNoise(range(3)))
        for name, made in (("generated", paths.generated[-1]), ("reconstructed", paths.reconstructed[-1])):
            scores = loss.critic[name]
            expected = 0.5 * ((scores(X) - 1).square().mean() + scores(made).square().mean())
            torch.testing.assert_close(parts[name], expected, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(total, torch.stack(list(parts.values())).sum())


def test_without_discriminators_there_is_no_critic() -> None:
    loss = tiny_loss(adversarial=False)
    assert loss.critic is None
    with pytest.raises(ValueError, match="this loss has no discriminators"):
        loss.critic_loss(X, KNOWN, SeededNoise(range(3)))


def test_every_parameter_of_the_completer_gets_a_gradient_and_the_critic_none() -> None:
    loss = tiny_loss()
    compute(loss).total.backward()
    everything = {name for name, _ in loss.completer.named_parameters()}
    # An instance norm removes the bias of the convolution before it.
    removed = {name for name in everything if name.startswith("generator.blocks.") and name.endswith("c1.bias")}
    assert len(removed) == 2
    assert with_gradients(loss.completer) | removed == everything
    assert loss.critic is not None
    assert all(parameter.grad is None and parameter.requires_grad for parameter in loss.critic.parameters())


def test_the_loss_of_the_critic_trains_only_the_critic() -> None:
    loss = tiny_loss()
    loss.critic_loss(X, KNOWN, SeededNoise(range(3))).total.backward()
    assert loss.critic is not None
    assert with_gradients(loss.critic) == {name for name, _ in loss.critic.named_parameters()}
    assert all(parameter.grad is None for parameter in loss.completer.parameters())


def test_the_kl_of_the_prior_does_not_train_the_posterior() -> None:
    """Without losses on images, the posterior is trained only by KL(N(0, s^2) || p)."""
    loss = tiny_loss(adversarial=False, reconstruction_weight=0.0)
    compute(loss).total.backward()
    posterior = loss.completer.encoder.posterior
    weight = dict(posterior.named_parameters())["shortcut.bias"]
    assert weight.grad is not None
    with_both = weight.grad.clone()

    loss = tiny_loss(adversarial=False, reconstruction_weight=0.0)
    paths = loss.completer.paths(X, KNOWN, SeededNoise(range(3)))
    mean, log_std = paths.posterior
    s = fixed_std(KNOWN)
    kl = log_std - s.log() + (s.square() + mean.square()) / (2 * (2 * log_std).exp()) - 0.5
    (20 * 2 * kl.mean()).backward()
    weight = dict(loss.completer.encoder.posterior.named_parameters())["shortcut.bias"]
    assert weight.grad is not None
    torch.testing.assert_close(with_both, weight.grad, rtol=1e-4, atol=1e-6)
    assert not with_gradients(loss.completer.encoder.prior)


def test_hidden_pixels_do_not_matter_for_the_visible_l1() -> None:
    loss = tiny_loss(output_scales=1, adversarial=False).eval()
    other = torch.where(KNOWN, X, images(3, size=SIZE, seed=5))
    first, second = compute(loss).parts, compute(loss, other).parts
    assert torch.equal(first["visible_l1"], second["visible_l1"])
    assert not torch.equal(first["reconstruction_l1"], second["reconstruction_l1"])


@pytest.mark.parametrize("fill", [True, False])
def test_losses_and_gradients_are_finite_for_whole_and_empty_observations(fill: bool) -> None:
    loss = tiny_loss()
    known = torch.full_like(KNOWN, fill)
    (compute(loss, known=known).total + loss.critic_loss(X, known, SeededNoise(range(3))).total).backward()
    assert all(bool(p.grad.isfinite().all()) for p in loss.parameters() if p.grad is not None)


def test_autocast_and_channels_last_give_nearly_the_same_loss() -> None:
    loss = tiny_loss().eval()
    expected = compute(loss).total.item()
    loss.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    x = X.contiguous(memory_format=torch.channels_last)
    with torch.autocast("cpu", torch.bfloat16):
        found = compute(loss, x).total
        critic = loss.critic_loss(x, KNOWN, SeededNoise(range(3))).total
    assert found.dtype == critic.dtype == torch.float32
    assert found.item() == pytest.approx(expected, rel=0.02)
    (found + critic).backward()
    assert all(p.grad is not None and bool(p.grad.isfinite().all()) for p in loss.parameters())


def test_the_discriminators_of_the_paper_and_of_small_images() -> None:
    with torch.device("meta"):
        config = PluralisticConfig(
            image_size=256, width=32, max_width=128, latent_size=8, attention_size=32, output_scales=4
        )
        loss = PluralisticLoss(Pluralistic(config))
    assert loss.critic is not None
    counts = [sum(p.numel() for p in d.parameters()) for d in loss.critic.values()]
    # The paper's number includes a residual block from 256 to 128 channels and a factor alpha that are never used.
    unused = (256 * 128 * 9 + 128) + (128 * 128 * 9 + 128) + (256 * 128 + 128) + 1
    assert counts == [1_575_075 - unused] * 2
    completer = sum(p.numel() for p in loss.completer.parameters())
    assert round((completer + sum(counts) + 2 * unused) / 1e6, 2) == 9.13

    for size, critic in ((16, tiny_loss().critic), (32, tiny_loss(image_size=32).critic)):
        assert critic is not None
        assert critic["generated"](images(2, size=size)).shape == (2, 1, 2, 2)


def test_training_lowers_the_loss() -> None:
    loss = tiny_loss()
    assert loss.critic is not None
    noise = GeneratorNoise(generator())
    optimisers = [torch.optim.Adam(part.parameters(), 1e-3, (0.0, 0.999)) for part in (loss.critic, loss.completer)]
    before = compute(loss).total.item()
    for _ in range(8):
        for optimiser, function in zip(optimisers, (loss.critic_loss, loss.forward), strict=True):
            optimiser.zero_grad()
            function(X, KNOWN, noise).total.backward()
            optimiser.step()
    assert compute(loss).total.item() < 0.7 * before
