from typing import Any

import pytest
import torch
from helpers.models import images, randomise, some_known
from torch import Tensor
from torch.distributions import Normal, kl_divergence
from torch.utils._python_dispatch import TorchDispatchMode

from condvae.completers.neural_process import (
    NeuralProcess,
    NeuralProcessConfig,
    NeuralProcessLoss,
    PointAttention,
    PointSet,
    pixel_positions,
)
from condvae.gaussian import Gaussian
from condvae.noise import GeneratorNoise, SeededNoise


def network(**changes: Any) -> NeuralProcess:
    torch.manual_seed(0)
    net = NeuralProcess(NeuralProcessConfig(**({"image_size": 8, "width": 16, "heads": 2} | changes)))
    randomise(net, 0)
    return net


def points(n: int = 20, *, batch: int = 2, seed: int = 0) -> PointSet:
    """Points anywhere in the plane, some of which do not exist."""
    generator = torch.Generator().manual_seed(seed)
    positions = 2 * torch.rand(batch, n, 2, generator=generator) - 1
    values = torch.rand(batch, n, 3, generator=generator) - 0.5
    return PointSet(positions, values, torch.rand(batch, n, generator=generator) < 0.6)


def close(found: Any, expected: Any, atol: float = 1e-5) -> None:
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=atol)


@pytest.mark.parametrize(("width", "count"), [(512, 11_575_814), (256, 2_904_326), (128, 731_270)])
def test_number_of_parameters(width: int, count: int) -> None:
    with torch.device("meta"):
        net = NeuralProcess(NeuralProcessConfig(image_size=32, width=width))
    assert sum(parameter.numel() for parameter in net.parameters()) == count
    assert all(value.is_floating_point() for value in net.state_dict().values())


def test_positions_are_row_and_column_from_the_centre() -> None:
    positions = pixel_positions(4, torch.device("cpu"))
    assert positions.shape == (1, 16, 2)
    assert positions[0, [0, 1, 4, 10, 15]].tolist() == [[-1, -1], [-1, -0.5], [-0.5, -1], [0, 0], [0.5, 0.5]]
    x = images(2, size=4)
    whole = PointSet.of_images(x)
    assert torch.equal(whole.values[1, 6], x[1, :, 1, 2] / 2)  # from [-1, 1] to [-0.5, 0.5]


def test_attention_agrees_with_its_equations() -> None:
    block = PointAttention(12, 3)
    randomise(block, 1)
    queries, keys, values = torch.randn(3, 2, 5, 12).unbind()
    used = torch.tensor([[True, True, False, True, False], [False, True, True, True, True]])
    q = queries @ block.query.weight.T + block.query.bias
    k, v = keys @ block.key.weight.T, values @ block.value.weight.T
    heads = []
    for head in range(3):
        part = slice(4 * head, 4 * head + 4)
        scores = q[..., part] @ k[..., part].transpose(1, 2) / 4**0.5
        weights = scores.masked_fill(~used[:, None], -torch.inf).softmax(dim=2)
        heads.append(weights @ v[..., part])
    a = block.attended_norm(torch.cat(heads, dim=2) + queries)
    expected = block.norm(a + block.mlp[2](block.mlp[0](a).relu()))
    close(block(queries, keys, values, used[:, None, None]), expected)
    fresh = PointAttention(256, 8)
    assert fresh.query.weight.var().item() == pytest.approx(2 / (256 + 32), rel=0.05)


def test_the_order_of_the_context_does_not_matter() -> None:
    net, context = network(), points()
    assert context.valid is not None
    order = torch.randperm(20, generator=torch.Generator().manual_seed(3))
    shuffled = PointSet(context.positions[:, order], context.values[:, order], context.valid[:, order])
    targets = points(7, seed=1).positions
    close(net.latent(shuffled), net.latent(context))
    close(net.features(shuffled, targets), net.features(context, targets))


def test_each_target_is_predicted_by_itself() -> None:
    net, context, z = network(), points(), torch.randn(2, 16)
    targets = points(9, seed=1).positions
    all_targets = net.predict(targets, z, net.features(context, targets))
    assert all_targets.mean.std(dim=1).min() > 1e-3  # the predictions differ from target to target
    for choice in ([4, 0, 8, 2, 1, 7, 3, 5, 6], [0, 1, 2, 3], [5]):  # in another order, and with fewer targets
        some = targets[:, choice]
        close(
            net.predict(some, z, net.features(context, some)),
            Gaussian(all_targets.mean[:, choice], all_targets.log_std[:, choice]),
        )


def test_points_that_do_not_exist_have_no_effect() -> None:
    net, context = network(), points()
    targets = points(7, seed=1).positions
    assert context.valid is not None
    assert context.valid.sum(dim=1).unique().numel() == 2  # the two sets have different sizes
    noted = context._replace(values=context.values.masked_fill(~context.valid[..., None], torch.nan))
    found, features = net.latent(noted), net.features(noted, targets)
    for b in range(2):
        there = context.valid[b]
        alone = PointSet(context.positions[b : b + 1, there], context.values[b : b + 1, there])
        q = net.latent(alone)
        close((found.mean[b : b + 1], found.log_std[b : b + 1]), (q.mean, q.log_std))
        close(features[b : b + 1], net.features(alone, targets[b : b + 1]))


def test_loss_is_the_negative_lower_bound_per_value() -> None:
    net, x, known = network(), images(3), some_known(3)
    losses = NeuralProcessLoss(net)(x, known, SeededNoise([1, 2, 3]))
    values = x.flatten(2).transpose(1, 2) / 2
    positions = pixel_positions(8, x.device).expand(3, -1, -1)
    context = PointSet(positions, values, known.flatten(1))
    q, prior = (Normal(g.mean, g.log_std.exp()) for g in (net.latent(PointSet(positions, values)), net.latent(context)))
    z = q.mean + q.stddev * SeededNoise([1, 2, 3]).normal(0, (3, 16), x.device)
    y = net.predict(positions, z, net.features(context, positions))
    log_likelihood = Normal(y.mean, y.log_std.exp()).log_prob(values).sum() / 3
    kl = kl_divergence(q, prior).sum() / 3
    assert kl > 1e-3
    close(losses.parts["log_likelihood_nats"], log_likelihood.detach())
    close(losses.parts["kl_nats"], kl.detach())
    close(losses.total, (kl - log_likelihood) / (64 * 3))
    assert losses.total.dtype == torch.float32 and losses.total.shape == ()


def test_standard_deviations() -> None:
    net, context = network(), points()
    raw = torch.linspace(-20, 20, 16)
    with torch.no_grad():
        for layer in (net.latent_outputs, net.decoder_outputs):
            layer.weight.zero_()
        net.latent_outputs.bias[16:] = raw
        net.decoder_outputs.bias[3:] = torch.tensor([-20.0, 0.5, 3.0])
    close(net.latent(context).log_std.exp(), (0.1 + 0.9 / (1 + (-raw).exp())).expand(2, -1))
    y = net.predict(context.positions, torch.zeros(2, 16), torch.zeros(2, 20, 16))
    expected = 0.1 + 0.9 * torch.tensor([-20.0, 0.5, 3.0]).exp().log1p()
    close(y.log_std.exp(), expected.expand(2, 20, -1))


def test_kl_is_zero_if_everything_is_known() -> None:
    losses = NeuralProcessLoss(network())(images(2), torch.ones(2, 1, 8, 8, dtype=torch.bool), SeededNoise([1, 2]))
    assert losses.parts["kl_nats"].abs() < 1e-6
    net, some = network(), points()
    assert net.latent(some).total_kl_to(net.latent(some)).tolist() == [0, 0]


@pytest.mark.parametrize("limits", [{}, {"context_points": 20, "target_points": 40}])
def test_gradients_reach_every_parameter(limits: dict[str, int]) -> None:
    net = network(**limits)
    NeuralProcessLoss(net)(images(3), some_known(3), SeededNoise([1, 2, 3])).total.backward()
    for name, parameter in net.named_parameters():
        assert parameter.grad is not None and parameter.grad.isfinite().all(), name
        assert parameter.grad.abs().max() > 0, name


@pytest.mark.parametrize("limits", [{}, {"context_points": 20, "target_points": 40}])
def test_an_empty_context_is_allowed(limits: dict[str, int], monkeypatch: pytest.MonkeyPatch) -> None:
    attend = torch.nn.functional.scaled_dot_product_attention

    def attend_to_something(q: Tensor, k: Tensor, v: Tensor, *, attn_mask: Tensor | None) -> Tensor:
        assert attn_mask is None or attn_mask.any(dim=-1).all()  # without any key, some devices return NaN
        return attend(q, k, v, attn_mask=attn_mask)

    monkeypatch.setattr("torch.nn.functional.scaled_dot_product_attention", attend_to_something)
    net, x, known = network(**limits), images(3), some_known(3)
    known[1] = False
    mean, _, r = net.encode(torch.where(known, x, 0.0), known)
    assert torch.equal(r[1], torch.zeros(64, 16))
    assert r[0].abs().min() > 0
    close(mean[1], net.latent_outputs(net.latent_pooled(torch.zeros(16)).relu())[:16])  # the mean over the context is 0
    losses = NeuralProcessLoss(net)(x, known, SeededNoise([1, 2, 3]))
    losses.total.backward()
    assert losses.total.isfinite()
    assert all(parameter.grad is not None and parameter.grad.isfinite().all() for parameter in net.parameters())
    known[:] = False
    assert NeuralProcessLoss(net)(x, known, SeededNoise([1, 2, 3])).total.isfinite()
    assert net.complete(net.observe(x, known), 2, 0).shape == (3, 2, 3, 8, 8)


@pytest.mark.parametrize("channels", [1, 3])
def test_completions(channels: int) -> None:
    net, x, known = network(channels=channels), images(3, channels=channels), some_known(3)
    made = net.complete(net.observe(x, known), 3, 5)
    shown = known[:, None].expand_as(made)
    levels = ((x + 1) * 127.5).round().to(torch.uint8)[:, None].expand_as(made)
    assert torch.equal(made[shown], levels[shown])
    assert torch.equal(made, net.complete(net.observe(x, known), 3, 5))
    assert torch.equal(made, net.complete(net.observe(torch.where(known, x, 0.7), known), 3, 5))  # hidden pixels
    for b in range(3):
        holes = (~known[b]).expand_as(made[b, 0])
        assert not torch.equal(made[b, 0][holes], made[b, 1][holes])
        alone = net.complete(net.observe(x[b : b + 1], known[b : b + 1]), 3, 5, places=[b])
        assert torch.equal(made[b], alone[0])


def test_codes_do_not_depend_on_hidden_pixels_or_on_the_batch() -> None:
    net, x, known = network().eval(), images(4), some_known(4)
    code = net.encode(torch.where(known, x, 0.0), known)
    assert [part.shape for part in code] == [(4, 16), (4, 16), (4, 64, 16)]
    for found, expected in zip(net.encode(torch.where(known, x, torch.nan), known), code, strict=True):
        assert torch.equal(found, expected)
    close(net.encode(x[2:3], known[2:3]), tuple(part[2:3] for part in code))
    drawn = net.decode(code, SeededNoise([4, 5, 6, 7]))
    close(net.decode(tuple(part[2:3] for part in code), SeededNoise([6])), drawn[2:3])
    y = net.predict(pixel_positions(8, x.device), code[0][:1], code[2][:1])  # the image of z = the mean
    still = net.decode((code[0][:1], torch.full((1, 16), -torch.inf), code[2][:1]), SeededNoise([4]))
    close(still[0, :, 3, 5], (2 * y.mean[0, 8 * 3 + 5]).clamp(-1, 1))


def test_large_batches_are_computed_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    net, x, known = network().eval(), images(5), some_known(5)
    code = net.encode(x, known)
    drawn = net.decode(code, SeededNoise(range(5)))
    monkeypatch.setattr("condvae.completers.neural_process._POINTS_AT_ONCE", 2 * 64)
    close(net.encode(x, known), code)
    close(net.decode(code, SeededNoise(range(5))), drawn)


def test_limited_sets_are_random_choices() -> None:
    loss = NeuralProcessLoss(network(context_points=20, target_points=40))
    x, known = images(4), some_known(4)
    known[1] = False
    known[1, :, 3, 2:7] = True
    every = pixel_positions(8, x.device)[0].tolist()
    seen_context, seen_targets = torch.zeros(4, 64), torch.zeros(4, 64)
    for i in range(100):
        context, targets = loss.choose_points(x, known, SeededNoise(range(4 * i, 4 * i + 4)))
        assert context.valid is not None and targets.valid is None
        assert context.values.shape == (4, 20, 3) and targets.values.shape == (4, 40, 3)
        for b in range(4):
            inside = [every.index(place) for place in context.positions[b, context.valid[b]].tolist()]
            chosen = [every.index(place) for place in targets.positions[b].tolist()]
            assert len(set(inside)) == len(inside) == min(20, int(known[b].sum()))
            assert len(set(chosen)) == 40 and set(inside) <= set(chosen)
            pixels = x[b].flatten(1).T / 2
            assert torch.equal(context.values[b, context.valid[b]], pixels[inside])
            assert torch.equal(targets.values[b], pixels[chosen])
            assert not context.values[b, ~context.valid[b]].any()  # nothing of a hidden pixel is in the context
            seen_context[b, inside] += 1
            seen_targets[b, chosen] += 1
    assert torch.equal(seen_context > 0, known.flatten(1))
    # All pixels outside the context are equally likely: 35 of 59 in image 1, whose context has five pixels.
    others = seen_targets[1, ~known[1].flatten()] / 100
    assert (others - 35 / 59).abs().max() < 0.2
    # In image 0, pixels are targets as context points, or by chance, with the same probability at all known pixels.
    count = int(known[0].sum())
    probability = 20 / count + (1 - 20 / count) * 20 / 44
    assert (seen_targets[0, known[0].flatten()] / 100 - probability).abs().max() < 0.2
    assert (seen_targets[0, ~known[0].flatten()] / 100 - 20 / 44).abs().max() < 0.2


def test_limits_apply_one_by_one() -> None:
    x, known = images(2), some_known(2)
    context, targets = NeuralProcessLoss(network(context_points=9)).choose_points(x, known, SeededNoise([1, 2]))
    assert (context.positions.shape[1], targets.positions.shape[1]) == (9, 64)
    config = NeuralProcessConfig(image_size=8, context_points=1000, target_points=2000)
    assert (config.most_context, config.most_targets) == (64, 64)


class _OnlyGraphOperations(TorchDispatchMode):
    """Fails on operations that a CUDA graph cannot contain, or that use torch's own random numbers."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func.overloadpacket.__name__
        forbidden = ("_local_scalar_dense", "nonzero", "masked_select", "is_nonzero", "rand", "bernoulli", "normal_")
        assert not name.startswith(forbidden), name
        return func(*args, **(kwargs or {}))


class _FixedNoise:
    """The same random numbers in every call, made before."""

    def __init__(self, *shapes: tuple[int, ...]) -> None:
        self.made = [torch.randn(shape, generator=torch.Generator().manual_seed(i)) for i, shape in enumerate(shapes)]

    def normal(self, stream: int, shape: Any, device: torch.device) -> Tensor:
        assert self.made[stream].shape == tuple(shape)
        return self.made[stream]

    def uniform(self, stream: int, shape: Any, device: torch.device) -> Tensor:
        raise NotImplementedError


@pytest.mark.parametrize("limits", [{}, {"context_points": 20, "target_points": 40}])
def test_training_step_fits_into_a_graph(limits: dict[str, int]) -> None:
    loss, noise = NeuralProcessLoss(network(**limits)), _FixedNoise((2, 16), (2, 64), (2, 64))
    x, known = images(2), some_known(2)
    expected = loss(x, known, noise)
    with _OnlyGraphOperations(), torch.autocast("cpu", dtype=torch.bfloat16):  # type: ignore[no-untyped-call]
        found = loss(x.contiguous(memory_format=torch.channels_last), known, noise)
        found.total.backward()
    assert found.total.dtype == torch.float32
    assert found.total.item() == pytest.approx(expected.total.item(), rel=0.05)
    assert not any(part.requires_grad for part in found.parts.values())


def test_images_of_64_pixels_use_all_positions() -> None:
    net = network(image_size=64, width=8, heads=1, context_points=16, target_points=32).eval()
    x, known = images(1, size=64), torch.zeros(1, 1, 64, 64, dtype=torch.bool)
    known[:, :, :, 60:] = True
    with torch.inference_mode():
        code = net.encode(torch.where(known, x, 0.0), known)
        x[0, :, 63, 63] *= -1  # the last pixel is part of the context
        other = net.encode(torch.where(known, x, 0.0), known)
        assert code[2].shape == (1, 4096, 8)
        assert not torch.equal(code[2], other[2])
        assert net.decode(code, SeededNoise([1])).shape == (1, 3, 64, 64)


def test_training_learns_to_copy_a_colour() -> None:
    torch.manual_seed(0)
    net = NeuralProcess(NeuralProcessConfig(image_size=8, channels=1, width=32, heads=2))
    loss, noise = NeuralProcessLoss(net), GeneratorNoise(torch.Generator().manual_seed(0))
    optimiser = torch.optim.Adam(net.parameters(), lr=2e-3)
    known = torch.zeros(8, 1, 8, 8, dtype=torch.bool)
    known[:, :, 2:4, 3:6] = True
    for _ in range(80):
        x = (2 * torch.rand(8, 1, 1, 1) - 1).expand(-1, -1, 8, 8)
        optimiser.zero_grad()
        loss(x, known, noise).total.backward()
        optimiser.step()
    x = torch.linspace(-0.8, 0.8, 8)[:, None, None, None].expand(-1, -1, 8, 8)
    with torch.no_grad():
        made = net.decode(net.encode(torch.where(known, x, 0.0), known), SeededNoise(range(8)))
    assert (made - x).abs().mean() < 0.25  # 0.46 if it ignores the context


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"width": 20, "heads": 8}, "the width is 20, which 8 heads cannot share equally"),
        ({"heads": 0}, "the number of heads is 0"),
        ({"cross_attention_blocks": 0}, "the number of cross-attention blocks is 0"),
        ({"target_points": 100}, "give at most 100 context points"),
        ({"target_points": 100, "context_points": 101}, "101 points but there are only 100 targets"),
        ({"context_points": 0}, "the number of context points is 0"),
        ({"channels": 2}, "the number of channels is 2"),
    ],
)
def test_wrong_values_are_explained(changes: dict[str, int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        NeuralProcessConfig(**({"image_size": 32} | changes))
