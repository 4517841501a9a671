from typing import Any

import pytest
import torch
from helpers.models import generator, images, some_known
from torch import Tensor, nn

from condvae.completers.pluralistic import Pluralistic, PluralisticConfig
from condvae.completers.pluralistic.pluralistic_blocks import LongRangeAttention, SharedAttention, SpectralResidual
from condvae.completers.pluralistic.pluralistic_network import Paths, gaussian, known_area
from condvae.completers.spectral_norm import SpectralNorm
from condvae.noise import SeededNoise

TINY: dict[str, Any] = {"width": 8, "max_width": 16, "latent_channels": 6, "prior_blocks": 1}
PAPER: dict[str, Any] = {
    "image_size": 256,
    "width": 32,
    "max_width": 128,
    "latent_size": 8,
    "attention_size": 32,
    "output_scales": 4,
}


def network(size: int = 32, *, gate: float = 0.5, **changes: Any) -> Pluralistic:
    """A tiny network. gate: the value of gamma and alpha, which start at 0."""
    torch.manual_seed(0)
    model = Pluralistic(PluralisticConfig(image_size=size, **(TINY | changes)))
    for name, parameter in model.named_parameters():
        if name.endswith(("gamma", "alpha")):
            assert not bool(parameter.any())
            nn.init.constant_(parameter, gate)
    return model.eval()


def count(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


def both_paths(model: Pluralistic, x: Tensor, known: Tensor) -> Paths:
    with torch.no_grad():
        return model.paths(x, known, SeededNoise(range(len(x))))


def test_the_paper_s_network_has_the_paper_s_number_of_parameters() -> None:
    with torch.device("meta"):
        model = Pluralistic(PluralisticConfig(**PAPER))
    assert model.config.widths == (32, 64, 128, 128, 128)
    assert count(model.encoder) == 3_604_224
    assert count(model.generator) == 2_374_016


def test_native_networks_for_small_images() -> None:
    with torch.device("meta"):
        small, large = (Pluralistic(PluralisticConfig(image_size=size)) for size in (32, 64))
    assert small.config.widths == (64, 128, 256)
    assert large.config.widths == (64, 128, 256, 256)
    assert count(small) == 14_192_055


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"image_size": 48}, "the latent size is 4 and the image size is 48"),
        ({"image_size": 8}, "4, 8, 16, ... times the latent size"),
        ({"latent_size": 2}, "the latent size is 2, expected a whole number, at least 4"),
        ({"latent_size": 64}, "the latent size is 64 and the image size is 32"),
        ({"attention_size": 32}, "the attention size is 32, expected 8 or 16"),
        ({"attention_size": 4}, "the attention size is 4, expected 8 or 16"),
        ({"output_scales": True}, "the number of output scales is True, expected 1 or 2 or 3"),
        ({"output_scales": 4}, "the number of output scales is 4, expected 1 or 2 or 3"),
        ({"max_width": 32}, "the largest width is 32, expected a whole number, at least 64"),
        ({"kl_weight": float("nan")}, "the KL weight is nan, expected a number >= 0"),
        ({"adversarial": 0.5}, "adversarial is 0.5, expected True or False"),
    ],
)
def test_a_wrong_value_of_the_configuration_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message.replace(".", r"\.")):
        PluralisticConfig(**({"image_size": 32} | changes))


@pytest.mark.parametrize(("size", "scales", "attention"), [(32, 3, 16), (32, 2, 8), (64, 3, 16), (64, 4, 32)])
def test_images_have_the_finest_scales(size: int, scales: int, attention: int) -> None:
    model = network(size, output_scales=scales, attention_size=attention)
    paths = both_paths(model, images(2, size=size), some_known(2, size=size))
    expected = [(2, 3, side, side) for side in (8, 16, 32, 64) if size // 2**scales < side <= size]
    assert len(expected) == scales
    for made in (paths.reconstructed, paths.generated):
        assert [tuple(image.shape) for image in made] == expected
        assert all(float(image.abs().max()) <= 1 for image in made)
    for distribution in (paths.prior, paths.posterior):
        assert distribution.shape == (2, 6, 4, 4)


def test_grey_images() -> None:
    model = network(16, attention_size=8, output_scales=2, channels=1)
    completions = model.complete(model.observe(images(1, size=16, channels=1), some_known(1, size=16)), 2, 0)
    assert completions.shape == (1, 2, 1, 16, 16)


def test_the_standard_deviation_is_a_softplus_and_always_positive() -> None:
    raw = torch.tensor([0.0, 0.0, 0.0, 0.0, -1000.0, 3.0]).view(1, 6, 1, 1)
    std = gaussian(raw).log_std.exp().flatten()
    torch.testing.assert_close(std, torch.tensor([0.6931, 0.0, 3.0486]), rtol=0, atol=2e-3)
    assert bool((std >= 9e-4).all())
    assert gaussian(raw.bfloat16()).mean.dtype == torch.float32


def test_the_prior_sees_only_visible_pixels_and_the_posterior_only_hidden_ones() -> None:
    model, known = network(), some_known(2, size=32)
    x, other = images(2, size=32), images(2, size=32, seed=1)
    base = both_paths(model, x, known)
    hidden_changed = both_paths(model, torch.where(known, x, other), known)
    visible_changed = both_paths(model, torch.where(known, other, x), known)
    for same, changed in ((base.prior, hidden_changed.prior), (base.posterior, visible_changed.posterior)):
        assert torch.equal(same.mean, changed.mean) and torch.equal(same.log_std, changed.log_std)
    assert all(map(torch.equal, base.generated, hidden_changed.generated))
    assert not torch.equal(base.prior.mean, visible_changed.prior.mean)
    assert not torch.equal(base.posterior.mean, hidden_changed.posterior.mean)
    assert not torch.equal(base.reconstructed[-1], hidden_changed.reconstructed[-1])


def test_training_and_sampling_compute_the_same_image() -> None:
    model, x, known = network(), images(2, size=32), some_known(2, size=32)
    with torch.no_grad():
        code = model.encode(torch.where(known, x, 0.0), known)
        drawn = model.decode(code, SeededNoise([0, 1]))
    torch.testing.assert_close(drawn, both_paths(model, x, known).generated[-1], rtol=1e-4, atol=1e-5)


def test_completions_differ_in_holes_only_and_can_be_repeated() -> None:
    model, x, known = network().train(), images(2, size=32), some_known(2, size=32)
    observation = model.observe(x, known)
    completions = model.complete(observation, 3, seed=0)
    assert completions.shape == (2, 3, 3, 32, 32) and completions.dtype == torch.uint8
    differ = (completions[:, 0] != completions[:, 1]).any(dim=1, keepdim=True)
    assert not bool((differ & known).any())
    assert float(differ[~known].float().mean()) > 0.5
    assert torch.equal(model.complete(observation, 3, seed=0), completions)
    alone = model.complete(model.observe(x[1:], known[1:]), 3, seed=0, places=[1])
    assert torch.equal(alone, completions[1:])
    assert model.training


def test_spectral_norm_is_on_all_convolutions_but_the_queries() -> None:
    model = network()
    for name, module in model.named_modules():
        if isinstance(module, nn.Conv2d | nn.ConvTranspose2d):
            normalised = any(isinstance(part, SpectralNorm) for part in module.modules())
            assert normalised != name.endswith("query"), name
    assert all(tensor.is_floating_point() for tensor in model.state_dict().values())


def test_attention_starts_as_the_identity_and_shares_its_weights() -> None:
    x = torch.randn(2, 8, 4, 4, generator=generator())
    attention = SharedAttention(8)
    assert torch.equal(attention(x), x)
    weights = attention.weights(x)
    torch.testing.assert_close(weights.sum(dim=-1), torch.ones(2, 16))
    nn.init.constant_(attention.gamma, 0.5)
    q = attention.query(x).flatten(2)
    for b, i in ((0, 3), (1, 10)):  # output i is x_i + gamma sum_j A_ij x_j, A_ij = softmax over j of q_i . q_j
        row = torch.stack([torch.dot(q[b, :, i], q[b, :, j]) for j in range(16)]).softmax(dim=0)
        expected = x[b].flatten(1)[:, i] + 0.5 * x[b].flatten(1) @ row
        torch.testing.assert_close(attention(x)[b].flatten(1)[:, i], expected)


def test_long_range_attention_copies_features_of_the_encoder_into_holes() -> None:
    torch.manual_seed(0)
    layer = LongRangeAttention(8, 6).eval()
    given: list[Tensor] = []
    layer.output.register_forward_pre_hook(lambda _, inputs: given.append(inputs[0]))
    x, features = torch.randn(1, 8, 4, 4), torch.randn(1, 6, 4, 4)
    known = known_area(some_known(1, size=8), 4)
    layer(x, features, known)
    nn.init.constant_(layer.alpha, 0.7)
    layer(x, features, known)
    at_start, later = given
    assert torch.equal(at_start, torch.cat((x, known * features), dim=1))
    averaged = features.flatten(2) @ layer.attention.weights(x).mT
    expected = known * features + 0.7 * (1 - known) * averaged.view_as(features)
    torch.testing.assert_close(later[:, 8:], expected)
    assert torch.equal(later[:, :8], x)


def test_queries_do_not_matter_at_the_start() -> None:
    model, x, known = network(gate=0.0), images(1, size=32), some_known(1, size=32)
    before = both_paths(model, x, known).generated[-1]
    nn.init.normal_(model.generator.attention.attention.query.weight)
    assert torch.equal(both_paths(model, x, known).generated[-1], before)
    nn.init.ones_(model.generator.attention.alpha)
    assert not torch.equal(both_paths(model, x, known).generated[-1], before)


def test_the_known_area_of_a_coarse_pixel() -> None:
    known = torch.zeros(1, 1, 4, 4, dtype=torch.bool)
    known[0, 0, 0] = known[0, 0, 1, 0] = True
    expected = torch.tensor([[0.75, 0.5], [0.0, 0.0]])
    assert torch.equal(known_area(known, 2)[0, 0], expected)


def test_a_block_that_halves_the_resolution_averages_the_block_that_does_not() -> None:
    torch.manual_seed(0)
    down, same = SpectralResidual(4, 6, down=True).eval(), SpectralResidual(4, 6).eval()
    same.load_state_dict(down.state_dict())
    x = torch.randn(2, 4, 8, 8)
    torch.testing.assert_close(down(x), nn.functional.avg_pool2d(same(x), 2))
