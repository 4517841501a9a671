"""The Context Encoder has the layers of its paper, never sees hidden pixels, and its losses equal their definitions."""

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from helpers.models import images, randomise, some_known
from torch import Tensor, nn

from condvae.completers.context_encoder import ContextEncoder, ContextEncoderConfig, ContextEncoderLoss, Discriminator
from condvae.noise import SeededNoise

NOISE = SeededNoise([0, 1, 2])  # its losses draw no random numbers


def network(**changes: Any) -> ContextEncoder:
    torch.manual_seed(0)
    model = ContextEncoder(ContextEncoderConfig(**({"image_size": 16, "bottleneck": 12, "width": 4} | changes)))
    randomise(model, 0)
    return model.eval()


def training_loss(**changes: Any) -> tuple[ContextEncoderLoss, nn.Module]:
    """A loss in training mode, and its critic."""
    loss = ContextEncoderLoss(network(**changes))
    assert loss.critic is not None
    randomise(loss.critic, 1)
    return loss.train(), loss.critic


def batch(n: int = 3, *, size: int = 16, channels: int = 3) -> tuple[Tensor, Tensor]:
    return images(n, size=size, channels=channels), some_known(n, size=size)


def has_gradients(module: nn.Module) -> list[bool]:
    return [parameter.grad is not None and bool(parameter.grad.any()) for parameter in module.parameters()]


@pytest.mark.parametrize(
    ("size", "bottleneck", "generator", "critic"),
    [
        (32, 4000, 34_094_528, 663_296),
        (64, 4000, 71_058_880, 2_765_568),
        (256, 4000, 71_321_536, 2_896_896),
        (32, 512, 5_513_856, 663_296),
        (64, 512, 13_904_512, 2_765_568),
    ],
)
def test_number_of_parameters(size: int, bottleneck: int, generator: int, critic: int) -> None:
    config = ContextEncoderConfig(image_size=size, bottleneck=bottleneck)
    with torch.device("meta"):
        networks = ContextEncoder(config), Discriminator(config)
    assert [sum(weight.numel() for weight in net.parameters()) for net in networks] == [generator, critic]
    for net in networks:
        assert all(value.is_floating_point() for value in net.state_dict().values())


def test_widths_double_below_a_resolution_of_32() -> None:
    widths = {size: ContextEncoderConfig(image_size=size).widths for size in (8, 16, 32, 64, 128, 256)}
    assert widths == {
        8: (64,),
        16: (64, 128),
        32: (64, 128, 256),
        64: (64, 128, 256, 512),
        128: (64, 64, 128, 256, 512),
        256: (64, 64, 64, 128, 256, 512),
    }
    assert ContextEncoderConfig(image_size=32, width=6).widths == (6, 12, 24)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"image_size": 48}, "the image size is 48, expected a power of two, such as 32 or 64"),
        ({"image_size": 4}, "the image size is 4, expected a whole number, at least 8"),
        ({"channels": 2}, "the number of channels is 2, expected 1 or 3"),
        ({"channels": True}, "the number of channels is True, expected 1 or 3"),
        ({"bottleneck": 0}, "the bottleneck is 0, expected a whole number, at least 1"),
        ({"width": 1.5}, "the width is 1.5, expected a whole number, at least 1"),
        ({"adversarial": 1.5}, "the adversarial weight is 1.5, expected a number in"),
        ({"adversarial": float("nan")}, "the adversarial weight is nan, expected a number"),
        ({"adversarial": "little"}, "the adversarial weight is 'little', expected a number"),
    ],
)
def test_a_wrong_value_of_the_configuration_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message.replace(".", r"\.")):
        ContextEncoderConfig(**({"image_size": 32} | changes))


@pytest.mark.parametrize(("size", "channels"), [(8, 3), (16, 1), (32, 3), (64, 1)])
def test_images_pass_through_a_bottleneck_of_one_position(size: int, channels: int) -> None:
    model = network(image_size=size, channels=channels)
    x, known = batch(2, size=size, channels=channels)
    made = model(x, known)
    assert made.shape == x.shape and made.dtype == torch.float32
    assert float(made.detach().abs().max()) <= 1
    assert model.encoder(x).shape == (2, 12, 1, 1)
    assert ContextEncoderLoss(model).train().critic_loss(x, known, NOISE).total.shape == ()


def test_hidden_pixels_do_not_matter_and_become_the_mean_colour() -> None:
    x, known = batch()
    seen: list[Tensor] = []
    for channels, colour in ((3, (117, 104, 123)), (1, ((117 + 104 + 123) / 3,))):
        model = network(channels=channels)
        model.encoder.register_forward_pre_hook(lambda _, given: seen.append(given[0]))
        mine = x[:, :channels]
        made = [model(torch.where(known, mine, other), known) for other in (0.0, 7.0, torch.nan)]
        assert all(torch.equal(made[0], other) for other in made[1:])
        fill = torch.tensor(colour).view(1, channels, 1, 1) / 127.5 - 1
        torch.testing.assert_close(seen[-1], torch.where(known, mine, fill))
        other_known = torch.where(known, -mine, mine)
        assert not torch.allclose(model(other_known, known), made[0], atol=1e-3)
    assert not any("fill" in name for name in network().state_dict())


def test_results_in_eval_mode_repeat_and_are_independent_of_the_rest_of_the_batch() -> None:
    model = network()
    x, known = batch(4)
    state = {name: value.clone() for name, value in model.state_dict().items()}
    whole = model(x, known)
    assert torch.equal(whole, model(x, known))
    for i in range(4):
        torch.testing.assert_close(model(x[i : i + 1], known[i : i + 1])[0], whole[i])
    assert all(torch.equal(value, state[name]) for name, value in model.state_dict().items())
    (code,) = model.encode(x, known)
    assert torch.equal(code, whole) and model.decode((code,), NOISE) is code


@pytest.mark.parametrize("weight", [0.0, 0.001, 0.3])
def test_losses_equal_their_definitions(weight: float) -> None:
    loss, critic = training_loss(adversarial=weight)
    x, known = batch()
    found, of_critic = loss(x, known, NOISE), loss.critic_loss(x, known, NOISE)
    made = loss.completer(x, known)
    ones, zeros = torch.ones(3), torch.zeros(3)
    fooled = F.binary_cross_entropy_with_logits(critic(made), ones)
    error = ((made - x) ** 2).sum() / (3 * 3 * 16 * 16)  # known pixels count, too
    expected = weight * fooled + (1 - weight) * error
    torch.testing.assert_close(found.total, expected)
    gradients = (torch.autograd.grad(total, list(loss.completer.parameters())) for total in (found.total, expected))
    torch.testing.assert_close(*gradients)
    torch.testing.assert_close(dict(found.parts), {"squared_error": error.detach(), "adversarial": fooled.detach()})
    # Real images and completions are separate batches, so BatchNorm does not mix their statistics.
    real = F.binary_cross_entropy_with_logits(critic(x), ones)
    fake = F.binary_cross_entropy_with_logits(critic(made), zeros)
    torch.testing.assert_close(of_critic.total, real + fake)
    torch.testing.assert_close(dict(of_critic.parts), {"real": real.detach(), "fake": fake.detach()})
    assert not any(part.requires_grad for part in (*found.parts.values(), *of_critic.parts.values()))


def test_gradients_reach_all_weights_of_the_trained_network_and_no_others() -> None:
    loss, critic = training_loss(adversarial=0.5)
    x, known = batch()
    loss(x, known, NOISE).total.backward()
    assert all(has_gradients(loss.completer))
    assert all(weight.grad is None and weight.requires_grad for weight in critic.parameters())
    loss.completer.zero_grad()
    loss.critic_loss(x, known, NOISE).total.backward()
    assert all(has_gradients(critic))
    assert all(weight.grad is None and weight.requires_grad for weight in loss.completer.parameters())
