import pytest
import torch
import torch.nn.functional as F
from helpers.models import generator, images, some_known
from helpers.tiny_vq import SIZE, smooth_images, tiny
from torch import Tensor, nn

from condvae.completers.learned_completer import CompleterLoss
from condvae.completers.vector_quantised import CodesLoss, StructureLoss, TextureLoss, stage_loss
from condvae.completers.vector_quantised.vq_losses import code_nats
from condvae.noise import GeneratorNoise, SeededNoise

STAGES = ["codes", "structure", "texture"]
X, KNOWN = images(3, size=SIZE), some_known(3, size=SIZE)


def noise() -> SeededNoise:
    return SeededNoise(range(3))


def copy_of(module: nn.Module) -> dict[str, Tensor]:
    return {name: value.clone() for name, value in module.state_dict().items()}


def train(loss: CompleterLoss, x: Tensor, known: Tensor, steps: int, lr: float = 3e-3) -> list[float]:
    """Train a loss on one batch, the critic first, and return its values in training mode."""
    source, found = GeneratorNoise(generator()), []
    trained = [parameter for parameter in loss.completer.parameters() if parameter.requires_grad]
    optimiser = torch.optim.Adam(trained, lr, (0.5, 0.99))
    critic = None if loss.critic is None else torch.optim.Adam(loss.critic.parameters(), 1e-4, (0.5, 0.99))
    for _ in range(steps):
        if critic is not None:
            critic.zero_grad()
            loss.critic_loss(x, known, source).total.backward()
            critic.step()
        optimiser.zero_grad()
        total = loss(x, known, source).total
        total.backward()
        optimiser.step()
        found.append(total.item())
    return found


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("channels", [1, 3])
def test_losses_report_the_promised_figures_and_train_one_part(stage: str, channels: int) -> None:
    loss = stage_loss(tiny(channels=channels), stage).train()
    x = images(3, size=SIZE, channels=channels)
    found = [(loss(x, KNOWN, noise()), loss.figures)]
    assert (loss.critic is not None) == (stage == "texture")
    found[0][0].total.backward()
    for name, parameter in loss.completer.named_parameters():
        part = name.split(".")[0]
        assert parameter.requires_grad == (part == stage)
        assert (parameter.grad is not None and bool(parameter.grad.isfinite().all())) == (part == stage), name
    if loss.critic is not None:
        assert all(p.requires_grad and p.grad is None for p in loss.critic.parameters())
        found.append((loss.critic_loss(x, KNOWN, noise()), loss.critic_figures))
        before = {name: p.grad for name, p in loss.completer.named_parameters()}
        found[1][0].total.backward()
        assert all(p.grad is not None and bool(p.grad.any()) for p in loss.critic.parameters())
        assert all(p.grad is before[name] for name, p in loss.completer.named_parameters())
    for losses, figures in found:
        assert tuple(losses.parts) == figures
        assert all(part.shape == () and not part.requires_grad for part in losses.parts.values())
        assert losses.total.shape == () and losses.total.dtype == torch.float32 and bool(losses.total.isfinite())


@pytest.mark.parametrize("stage", STAGES)
def test_every_weight_of_the_trained_part_gets_a_gradient(stage: str) -> None:
    loss = stage_loss(tiny(), stage).train()
    loss(X, KNOWN, noise()).total.backward()
    part = dict(loss.completer.named_children())[stage]
    missing = [name for name, p in part.named_parameters() if p.grad is None or not bool(p.grad.any())]
    assert missing == []


@pytest.mark.parametrize("stage", STAGES)
def test_frozen_parts_do_not_move(stage: str) -> None:
    loss = stage_loss(tiny(), stage).train()
    parts = dict(loss.completer.named_children())
    before = {name: copy_of(part) for name, part in parts.items()}
    train(loss, X, KNOWN, steps=2)
    for name, part in parts.items():
        same = {key: torch.equal(value, before[name][key]) for key, value in part.state_dict().items()}
        assert not any(same.values()) if name == stage else all(same.values()), name


def test_stages_can_follow_each_other() -> None:
    model = tiny()
    for stage in STAGES:
        assert {
            n.split(".")[0] for n, p in stage_loss(model, stage).completer.named_parameters() if p.requires_grad
        } == {stage}
    with pytest.raises(ValueError, match="the stage is 'colour', expected 'codes' or 'structure' or 'texture'"):
        stage_loss(model, "colour")


def test_codebooks_learn_in_training_mode_only() -> None:
    loss = CodesLoss(tiny()).eval()
    before = copy_of(loss.completer.codes)
    loss(X, KNOWN, noise())
    assert all(torch.equal(value, before[name]) for name, value in loss.completer.codes.state_dict().items())
    loss.train()(X, KNOWN, noise())
    changed = {n for n, value in loss.completer.codes.state_dict().items() if not torch.equal(value, before[n])}
    assert changed == {f"{book}.{name}" for book in ("top", "bottom") for name in ("vectors", "sizes", "sums")}


def test_the_loss_of_the_codes_by_hand() -> None:
    loss = CodesLoss(tiny(commitment_weight=0.5)).eval()
    total, parts = loss(X, KNOWN, noise())
    network = loss.completer.codes
    with torch.no_grad():
        top, bottom = network.encode(X)
        vectors = [network.top.look_up(top.codes), network.bottom.look_up(bottom.codes)]
        error = (network.decode(*vectors) - X).square().mean()
        commitment = [(part.z - v).square().mean() for part, v in zip((top, bottom), vectors, strict=True)]
    torch.testing.assert_close(parts["squared_error"], error)
    torch.testing.assert_close(total.detach(), error + 0.5 * (commitment[0] + commitment[1]))


def test_the_loss_of_the_structure_by_hand() -> None:
    loss = StructureLoss(tiny()).eval()
    total, parts = loss(X, KNOWN, noise())
    model = loss.completer
    with torch.no_grad():
        codes = model.codes.encode(X)[0].codes
        logits = model.structure.pixel_cnn(model.codes.top.look_up(codes), model.structure.condition(X * KNOWN, KNOWN))
        probabilities = logits.softmax(dim=1).gather(1, codes[:, None])
    torch.testing.assert_close(total.detach(), -probabilities.log().mean())
    assert parts["accuracy"].item() == pytest.approx((logits.argmax(dim=1) == codes).float().mean().item())
    # Hidden pixels are targets, but not inputs.
    other = torch.where(KNOWN, X, 0.0)
    assert model.codes.top_codes(other).ne(codes).any() and loss(other, KNOWN, noise()).total != total


def test_the_losses_of_the_texture_by_hand() -> None:
    torch.manual_seed(0)
    loss = TextureLoss(tiny(adversarial_weight=0.3, code_weight=0.7)).eval()
    model, network = loss.completer, loss.completer.codes
    total, parts = loss(X, KNOWN, noise())
    critic_total, critic_parts = loss.critic_loss(X, KNOWN, noise())
    with torch.no_grad():
        top, bottom = network.encode(X)
        made = model.render(model.encode(X * KNOWN, KNOWN), top.codes)
        completion = X * KNOWN + made * ~KNOWN
        fake, real = loss.critic(completion, KNOWN), loss.critic(X, KNOWN)
        of_made = network.encode(completion)
        nats = code_nats(network.top, of_made[0].z, top.codes) + code_nats(network.bottom, of_made[1].z, bottom.codes)
        expected = (made - X).abs().mean() - 0.3 * fake.mean() + 0.7 * nats
    torch.testing.assert_close(total.detach(), expected, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(parts["adversarial"], -fake.mean(), rtol=1e-4, atol=1e-5)
    halves = [(1 - real).clamp(min=0).mean() / 2, (1 + fake).clamp(min=0).mean() / 2]
    torch.testing.assert_close([critic_parts["real"], critic_parts["fake"]], halves, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(critic_total.detach(), halves[0] + halves[1], rtol=1e-4, atol=1e-5)


def test_images_are_classified_into_codes_by_distance() -> None:
    book, z = tiny().codes.top, torch.randn(2, 6, 3, 3, generator=generator())
    distances = torch.stack([(z - v.view(1, 6, 1, 1)).square().sum(dim=1) for v in book.vectors], dim=-1)
    standard = (distances - distances.mean(-1, keepdim=True)) / distances.std(-1, keepdim=True, correction=0)
    codes = torch.randint(12, (2, 3, 3), generator=generator(1))
    expected = F.cross_entropy((-10 * standard.tanh()).movedim(-1, 1), codes)
    torch.testing.assert_close(code_nats(book, z, codes), expected, rtol=1e-4, atol=1e-5)
    assert code_nats(book, z, book.nearest(z)) < 0.5 * expected


@pytest.mark.parametrize("fill", [True, False])
@pytest.mark.parametrize("stage", STAGES)
def test_losses_and_gradients_are_finite_for_whole_and_empty_observations(stage: str, fill: bool) -> None:
    loss = stage_loss(tiny(), stage).train()
    known = torch.full_like(KNOWN, fill)
    loss(X, known, noise()).total.backward()
    if loss.critic is not None:
        loss.critic_loss(X, known, noise()).total.backward()
    assert all(bool(p.grad.isfinite().all()) for p in loss.parameters() if p.grad is not None)


@pytest.mark.parametrize("stage", STAGES)
def test_autocast_and_channels_last_give_finite_losses_in_float32(stage: str) -> None:
    loss = stage_loss(tiny(), stage).eval()
    expected = loss(X, KNOWN, noise()).total.item()
    loss.train().to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    x = X.contiguous(memory_format=torch.channels_last)
    with torch.autocast("cpu", torch.bfloat16):
        found = [loss(x, KNOWN, noise())]
        if loss.critic is not None:
            found.append(loss.critic_loss(x, KNOWN, noise()))
    for losses in found:
        assert losses.total.dtype == torch.float32 and bool(losses.total.isfinite())
        assert all(part.dtype == torch.float32 for part in losses.parts.values())
        losses.total.backward()
    assert found[0].total.item() == pytest.approx(expected, rel=0.2)
    assert all(bool(p.grad.isfinite().all()) for p in loss.parameters() if p.grad is not None)


@pytest.mark.parametrize(("stage", "part"), [("codes", 0.6), ("structure", 0.7), ("texture", 0.8)])
def test_training_lowers_each_loss(stage: str, part: float) -> None:
    torch.manual_seed(0)
    model = tiny(dropout=0.0, adversarial_weight=0.0)
    x, known = smooth_images(4), some_known(4, size=SIZE)
    if stage != "codes":
        train(CodesLoss(model).train(), x, known, steps=10)
    values = train(stage_loss(model, stage).train(), x, known, steps=20, lr=1e-2)
    assert values[-1] < part * values[0]


def test_the_critic_learns_to_tell_completions_from_images() -> None:
    torch.manual_seed(0)
    loss = TextureLoss(tiny()).train()
    optimiser = torch.optim.Adam(loss.critic.parameters(), 3e-3, (0.5, 0.99))
    known = torch.zeros_like(KNOWN)
    values = []
    for _ in range(15):
        optimiser.zero_grad()
        total = loss.critic_loss(X, known, noise()).total
        total.backward()
        optimiser.step()
        values.append(total.item())
    assert values[0] == pytest.approx(1, abs=0.2) and values[-1] < 0.7
