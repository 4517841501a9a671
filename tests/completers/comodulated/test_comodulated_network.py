"""CoModGAN has the size of its paper's networks, never sees hidden pixels, and draws randomness only from `Noise`."""

import math
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from helpers.models import images, randomise, some_known
from torch import Tensor, nn

from condvae.completers.comodulated import Comodulated, ComodulatedConfig
from condvae.completers.comodulated.comodulated_network import (
    DROPOUT_STREAM,
    FIRST_LAYER_STREAM,
    LATENT_STREAM,
    ComodulatedDiscriminator,
    dropped,
    with_known,
)
from condvae.noise import SeededNoise
from condvae.runtime.devices import without_weights

TINY: dict[str, Any] = {"max_width": 8, "latent_features": 6, "mapping_layers": 2, "code_features": 10}
PAPER: dict[str, Any] = {"max_width": 512, "latent_features": 512, "mapping_layers": 8, "code_features": 1024}


def network(size: int = 16, **changes: Any) -> Comodulated:
    torch.manual_seed(0)
    model = Comodulated(ComodulatedConfig(image_size=size, **(TINY | changes)))
    randomise(model, 0)
    return model.eval()


def discriminator(size: int = 16, **changes: Any) -> ComodulatedDiscriminator:
    torch.manual_seed(1)
    return ComodulatedDiscriminator(ComodulatedConfig(image_size=size, **(TINY | changes)))


def count(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


class RecordedNoise(SeededNoise):
    """Noise that records what is drawn, and in which stream. Streams in `changed` have other random numbers."""

    def __init__(self, seeds: list[int], changed: tuple[int, ...] = ()) -> None:
        super().__init__(seeds)
        self.changed = changed
        self.drawn: list[tuple[str, int, tuple[int, ...]]] = []

    def _numbers(self, kind: Any, stream: int, shape: Any, device: torch.device) -> Tensor:
        self.drawn.append((kind, stream, tuple(shape)))
        return super()._numbers(kind, stream + 1000 * (stream in self.changed), shape, device)


@pytest.mark.parametrize(
    ("preset", "size", "generator", "critic"),
    [
        (PAPER, 32, 60_590_099, 21_507_585),
        (PAPER, 64, 72_391_704, 26_489_345),
        (PAPER, 256, 79_177_378, 28_864_257),
        ({}, 32, 3_727_379, 1_346_433),
        ({}, 64, 4_465_944, 1_657_985),
    ],
)
def test_number_of_parameters(preset: dict[str, Any], size: int, generator: int, critic: int) -> None:
    config = ComodulatedConfig(image_size=size, **preset)
    with without_weights():
        networks = Comodulated(config), ComodulatedDiscriminator(config)
    assert [count(net) for net in networks] == [generator, critic]
    for net in networks:
        assert all(value.is_floating_point() for value in net.state_dict().values())
        assert set(net.state_dict()) == {name for name, _ in net.named_parameters()}


def test_the_paper_s_numbers_of_parameters_in_millions() -> None:
    found = {}
    for size in (32, 64, 256):
        config = ComodulatedConfig(image_size=size, **PAPER)
        with without_weights():
            found[size] = [
                round(count(net) / 1e6, 1) for net in (Comodulated(config), ComodulatedDiscriminator(config))
            ]
    assert found == {32: [60.6, 21.5], 64: [72.4, 26.5], 256: [79.2, 28.9]}


def test_widths_shrink_towards_fine_resolutions() -> None:
    config = ComodulatedConfig(image_size=256, **PAPER)
    assert config.sides == (4, 8, 16, 32, 64, 128, 256)
    assert config.widths == (512, 512, 512, 512, 512, 256, 128)
    assert ComodulatedConfig(image_size=8).widths == (128, 128)
    assert ComodulatedConfig(image_size=32, width_base=64, max_width=10).widths == (10, 8, 4, 2)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"image_size": 48}, "the image size is 48, expected a power of two, such as 32 or 64"),
        ({"image_size": 4}, "the image size is 4, expected a whole number, at least 8"),
        ({"channels": 2}, "the number of channels is 2, expected 1 or 3"),
        ({"max_width": 0}, "the largest width is 0, expected a whole number, at least 1"),
        ({"width_base": 16}, "the width base is 16, expected a whole number, at least 32"),
        ({"latent_features": 1.5}, "the number of latent features is 1.5, expected a whole number"),
        ({"mapping_layers": 0}, "the number of mapping layers is 0, expected a whole number, at least 1"),
        ({"code_features": "many"}, "the number of code features is 'many', expected a whole number"),
        ({"dropout": -0.1}, "the dropout is -0.1, expected a number in [0, 1]"),
        ({"dropout": 1}, "the dropout is 1, expected a number below 1"),
        ({"r1_weight": -1}, "the R1 weight is -1, expected a number >= 0"),
        ({"r1_weight": float("nan")}, "the R1 weight is nan, expected a number >= 0"),
        ({"r1_part": 2}, "the R1 part is 2, expected a number in [0, 1]"),
    ],
)
def test_a_wrong_value_of_the_configuration_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match="expected") as error:
        ComodulatedConfig(**({"image_size": 32} | changes))
    assert message in str(error.value)


@pytest.mark.parametrize(("size", "channels", "changes"), [(8, 3, {}), (16, 1, {}), (32, 3, {"width_base": 64})])
def test_shapes_of_codes_images_and_logits(size: int, channels: int, changes: dict[str, Any]) -> None:
    model = network(size, channels=channels, **changes)
    x, known = images(2, size=size, channels=channels), some_known(2, size=size)
    code = model.encode(x, known)
    config = model.config
    expected = [(2, width, side, side) for width, side in zip(config.widths, config.sides, strict=True)]
    assert [tuple(part.shape) for part in code] == [(2, 10), *expected]
    made = model.decode(code, SeededNoise([0, 1]))
    assert made.shape == x.shape and made.dtype == torch.float32
    logits = discriminator(size, channels=channels, **changes)(x, known)
    assert logits.shape == (2,) and logits.dtype == torch.float32


def test_known_pixels_are_exact_and_the_seed_changes_the_others() -> None:
    model = network()
    x, known = images(2, size=16), some_known(2, size=16)
    observation = model.observe(x, known)
    one, same, other = (model.complete(observation, 2, seed) for seed in (0, 0, 1))
    assert torch.equal(one, same) and one.shape == (2, 2, 3, 16, 16) and one.dtype == torch.uint8
    visible, levels = known[:, None].expand_as(one), ((x + 1) * 127.5).round().to(torch.uint8)[:, None].expand_as(one)
    assert torch.equal(one[visible], levels[visible]) and torch.equal(other[visible], levels[visible])
    assert not torch.equal(one[~visible], other[~visible])
    assert not torch.equal(one[:, 0], one[:, 1])
    pasted = model(x, known, SeededNoise([3, 4]))
    assert torch.equal(pasted[known.expand_as(x)], x[known.expand_as(x)])


def test_completions_do_not_depend_on_the_rest_of_the_batch() -> None:
    model = network()
    x, known = images(3, size=16), some_known(3, size=16)
    whole = model.complete(model.observe(x, known), 3, 7)
    for place in range(3):
        row = slice(place, place + 1)
        alone = model.complete(model.observe(x[row], known[row]), 3, 7, places=[place])
        assert torch.equal(alone, whole[row])
    made = model(x, known, SeededNoise([5, 6, 7]))
    torch.testing.assert_close(model(x[1:2], known[1:2], SeededNoise([6])), made[1:2], rtol=1e-4, atol=1e-5)


def test_hidden_pixels_do_not_matter_and_known_ones_do() -> None:
    model, noise = network(), SeededNoise([0, 1])
    x, known = images(2, size=16), some_known(2, size=16)
    made = [model.decode(model.encode(torch.where(known, x, o), known), noise) for o in (0.0, 7.0, torch.nan)]
    assert all(torch.equal(made[0], other) for other in made[1:])
    assert not torch.allclose(model.decode(model.encode(-x, known), noise), made[0], atol=1e-3)
    # The encoder tells a hidden pixel from a known pixel of the value 0.
    blank = torch.zeros_like(x)
    codes = [model.encode(blank, torch.full_like(known, fill)) for fill in (False, True)]
    assert not torch.allclose(codes[0][0], codes[1][0])


def test_every_source_of_randomness_has_its_own_stream() -> None:
    model = network()
    x, known = images(2, size=16), some_known(2, size=16)
    code = model.encode(x, known)
    noise = RecordedNoise([0, 1])
    base = model.decode(code, noise)
    layers = [(2, 1, side, side) for side in (4, 8, 8, 16, 16)]
    assert noise.drawn == [
        ("normal", LATENT_STREAM, (2, 6)),
        ("uniform", DROPOUT_STREAM, (2, 10)),
        *(("normal", FIRST_LAYER_STREAM + i, shape) for i, shape in enumerate(layers)),
    ]
    for stream in range(7):
        other = model.decode(code, RecordedNoise([0, 1], changed=(stream,)))
        assert not torch.allclose(other, base, atol=1e-4), stream


def test_dropout_is_active_for_completions() -> None:
    c, uniform = torch.ones(1, 5), torch.tensor([[0.0, 0.2, 0.49, 0.5, 0.9]])
    assert dropped(c, uniform, 0.5).tolist() == [[0, 0, 0, 2, 2]]
    assert torch.equal(dropped(c, uniform, 0.0), c)
    for probability, same in ((0.5, False), (0.0, True)):
        model = network(dropout=probability)
        code = model.encode(images(1, size=16), some_known(1, size=16))
        made = [model.decode(code, RecordedNoise([0], changed=changed)) for changed in ((), (DROPOUT_STREAM,))]
        assert torch.equal(*made) == same


def test_the_discriminator_sees_which_pixels_are_known() -> None:
    x, known = images(4, size=16), some_known(4, size=16)
    stacked = with_known(x, known)
    assert torch.equal(stacked[:, 1:], x) and torch.equal(stacked[:, :1] + 0.5, known.float())
    critic = discriminator()
    assert not torch.allclose(critic(x, known), critic(x, ~known))
    # Two batches that pass through the network together do not share statistics. 4 divides 12 images, but not 6.
    x, y, known = images(6, size=16), images(6, size=16, seed=1), some_known(6, size=16)
    both = critic(torch.cat((x, y)), torch.cat((known, known)), batches=2)
    torch.testing.assert_close(both, torch.cat((critic(x, known), critic(y, known))), rtol=1e-4, atol=1e-5)


def test_blocks_of_the_discriminator_are_averages_of_a_branch_and_a_shortcut() -> None:
    block = discriminator().blocks[0]
    c1, c2, shortcut = (block.get_parameter(f"{name}.weight") for name in ("c1", "c2", "shortcut"))
    x = torch.randn(2, 8, 16, 16)
    taps = torch.tensor([1.0, 3.0, 3.0, 1.0]) / 8
    fir = torch.outer(taps, taps).expand(8, 1, 4, 4)

    def act(y: Tensor) -> Tensor:
        return math.sqrt(2) * F.leaky_relu(y, 0.2)

    a = act(F.conv2d(x, c1 / math.sqrt(72), padding=1))  # biases start at 0
    a = act(F.conv2d(F.conv2d(a, fir, padding=2, groups=8), c2 / math.sqrt(72), stride=2))
    b = F.conv2d(F.conv2d(x, fir, stride=2, padding=1, groups=8), shortcut / math.sqrt(8))
    torch.testing.assert_close(block(x), (a + b) / math.sqrt(2), rtol=1e-4, atol=1e-5)


def test_the_generator_uses_the_features_of_every_resolution() -> None:
    model = network()
    code = model.encode(images(2, size=16), some_known(2, size=16))
    base = model.decode(code, SeededNoise([0, 1]))
    for place in range(len(code)):
        other = tuple(2 * part if i == place else part for i, part in enumerate(code))
        assert not torch.allclose(model.decode(other, SeededNoise([0, 1])), base, atol=1e-3), place


def test_fresh_networks_have_styles_around_one_and_slow_mappings() -> None:
    torch.manual_seed(0)
    model = Comodulated(ComodulatedConfig(image_size=8, max_width=16))
    for layer in model.mapping:
        assert layer.get_parameter("weight").std().item() == pytest.approx(
            100, rel=0.05
        )  # 0.01 times the learning rate
    seen: list[Tensor] = []
    for layer in (*model.generator.up, *model.generator.convs, *model.generator.images):
        layer.register_forward_pre_hook(lambda _, given: seen.append(given[1]))
    model(images(32, size=8), some_known(32, size=8), SeededNoise(range(32)))
    assert [tuple(style.shape) for style in seen] == [(32, 16)] * 5
    styles = torch.cat(seen)
    assert styles.mean().item() == pytest.approx(1, abs=0.2) and styles.std().item() == pytest.approx(1, abs=0.4)


def test_activations_of_fresh_networks_have_about_unit_scale() -> None:
    """Equalised rates, gains and demodulation keep the scale of features from layer to layer."""
    torch.manual_seed(0)
    config = ComodulatedConfig(image_size=16, max_width=64)
    model, critic = Comodulated(config), ComodulatedDiscriminator(config)
    with torch.no_grad():
        x, known = torch.randn(8, 3, 16, 16), torch.ones(8, 1, 16, 16, dtype=torch.bool)
        scales = [part.square().mean().sqrt().item() for part in model.encode(x, known)]
        scales.append(model.mapped(torch.randn(8, 128)).square().mean().sqrt().item())
        y = critic.input(with_known(x, known))
        for block in critic.blocks:
            y = block(y)
            scales.append(y.square().mean().sqrt().item())
    assert all(0.3 < scale < 2 for scale in scales), scales
