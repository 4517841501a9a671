import dataclasses

import pytest
import torch
from helpers.models import generator, images
from torch import Tensor, nn

from condvae.completers.feature_reasoning import FeatureReasoning, FeatureReasoningConfig, FeatureReasoningLoss
from condvae.completers.feature_reasoning.reasoning_loss import gram
from condvae.noise import SeededNoise

SIZE = 16
TINY = FeatureReasoningConfig(image_size=SIZE, widths=(4, 6, 8, 10), kernels=(5, 3), strides=1, head_width=8)
PIXELS_ONLY = dataclasses.replace(TINY, perceptual_weight=0.0, style_weight=0.0)
NOISE = SeededNoise([0, 1])


class Pyramid(nn.Module):
    """Three frozen random feature maps."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Conv2d(i, o, 3, stride=2, padding=1) for i, o in ((3, 4), (4, 6), (6, 8)))
        self.requires_grad_(False)
        self.seen: list[Tensor] = []

    def forward(self, x: Tensor) -> list[Tensor]:
        self.seen.append(x)
        maps: list[Tensor] = []
        for layer in self.layers:
            x = torch.relu(layer(x))
            maps.append(x)
        return maps


class FixedCompleter(FeatureReasoning):
    """Returns a given image as the completion."""

    image: Tensor
    seen: Tensor

    def encode(self, pixels: Tensor, known: Tensor) -> tuple[Tensor]:
        self.seen = pixels
        return (self.image,)


def fixed(image: Tensor, config: FeatureReasoningConfig = TINY) -> FixedCompleter:
    completer = FixedCompleter(config)
    completer.image = image
    return completer


def half_known() -> Tensor:
    known = torch.zeros(2, 1, SIZE, SIZE, dtype=torch.bool)
    known[..., : SIZE // 4] = True
    return known


def test_terms_of_pixels_equal_a_hand_computation() -> None:
    x = images(2, size=SIZE)
    completion = torch.where(half_known(), x + 0.2, x - 0.6)
    found = FeatureReasoningLoss(fixed(completion, PIXELS_ONLY))(x, half_known(), NOISE)
    # In [0, 1], the errors are half as large. A quarter of the pixels is known, and the mean is over all pixels.
    assert float(found.parts["valid"]) == pytest.approx(0.1 / 4, rel=1e-4)
    assert float(found.parts["hole"]) == pytest.approx(0.3 * 3 / 4, rel=1e-4)
    assert float(found.total) == pytest.approx(6 * 0.225 + 0.025, rel=1e-4)
    assert float(found.parts["perceptual"]) == float(found.parts["style"]) == 0


def test_gram_matrix_equals_a_hand_computation() -> None:
    features = torch.tensor([[[[1.0, 2.0]], [[3.0, -1.0]], [[0.0, 2.0]]]])  # C = 3, H = 1, W = 2
    expected = torch.tensor([[[5.0, 1.0, 4.0], [1.0, 10.0, -2.0], [4.0, -2.0, 4.0]]]) / 6
    torch.testing.assert_close(gram(features), expected)


def test_gram_matrix_is_computed_in_float32() -> None:
    features = 100 + torch.randn(1, 4, 16, 16, generator=generator())
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = gram(features)
    assert found.dtype == torch.float32
    torch.testing.assert_close(found, gram(features))


def test_a_perfect_completion_has_no_loss() -> None:
    x = images(2, size=SIZE)
    found = FeatureReasoningLoss(fixed(x), Pyramid())(x, half_known(), NOISE)
    assert float(found.total) == 0
    assert all(float(part) == 0 for part in found.parts.values())


def test_terms_of_features_cover_the_completion_and_the_pasted_one() -> None:
    features, x, known = Pyramid(), images(2, size=SIZE), half_known()
    completion = images(2, size=SIZE, seed=1)
    found = FeatureReasoningLoss(fixed(completion), features)(x, known, NOISE)
    true = features((x + 1) / 2)
    perceptual = style = 0.0
    for made in (completion, torch.where(known, x, completion)):
        for one, target in zip(features((made + 1) / 2), true, strict=True):
            perceptual += float((one - target).abs().mean())
            for b in range(2):
                f, g = one[b].flatten(1), target[b].flatten(1)
                style += float((f @ f.T - g @ g.T).abs().mean() / f.numel()) / 2
    assert float(found.parts["perceptual"]) == pytest.approx(perceptual, rel=1e-4)
    assert float(found.parts["style"]) == pytest.approx(style, rel=1e-4)
    pixels = 6 * float(found.parts["hole"]) + float(found.parts["valid"])
    assert float(found.total) == pytest.approx(pixels + 0.1 * perceptual + 180 * style, rel=1e-4)


def test_gradients_pass_through_the_features_but_not_into_them() -> None:
    torch.manual_seed(0)
    features, weights = Pyramid(), {"hole_weight": 0.0, "valid_weight": 0.0}
    completer = FeatureReasoning(dataclasses.replace(TINY, **weights))  # type: ignore[arg-type]
    loss = FeatureReasoningLoss(completer, features)
    loss(images(2, size=SIZE), half_known(), NOISE).total.backward()
    gradient = completer.head.last.weight.grad
    assert gradient is not None and bool(gradient.any()) and bool(gradient.isfinite().all())
    assert all(parameter.grad is None for parameter in features.parameters())


def test_the_feature_network_is_no_part_of_the_loss() -> None:
    completer = FeatureReasoning(TINY)
    loss = FeatureReasoningLoss(completer, Pyramid())
    assert {id(p) for p in loss.parameters()} == {id(p) for p in completer.parameters()}
    assert all(name.startswith("completer.") for name in loss.state_dict())
    assert not any(isinstance(module, Pyramid) for module in loss.modules())


@pytest.mark.parametrize("zero", ["perceptual_weight", "style_weight"])
def test_terms_of_features_need_a_feature_network(zero: str) -> None:
    config = dataclasses.replace(TINY, **{zero: 0.0})  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="need a feature network"):
        FeatureReasoningLoss(FeatureReasoning(config))


def test_the_features_get_three_channels_in_0_to_1() -> None:
    features, config = Pyramid(), dataclasses.replace(TINY, channels=1)
    x = images(2, size=SIZE, channels=1)
    FeatureReasoningLoss(fixed(x, config), features)(x, half_known(), NOISE)
    for seen in features.seen:
        assert seen.shape[1:] == (3, SIZE, SIZE)
        assert torch.equal(seen[:, 0], seen[:, 2])
        assert 0 <= float(seen.min()) < 0.3 and 0.7 < float(seen.max()) <= 1


def test_the_network_sees_no_hidden_pixels() -> None:
    completer = FeatureReasoning(PIXELS_ONLY).eval()
    loss, x, known = FeatureReasoningLoss(completer), images(2, size=SIZE), half_known()
    first = loss(x, known, NOISE).parts
    second = loss(torch.where(known, x, -x), known, NOISE).parts
    assert torch.equal(first["valid"], second["valid"])
    assert not torch.equal(first["hole"], second["hole"])


def test_the_loss_hides_pixels_before_it_calls_the_network() -> None:
    x, known = images(2, size=SIZE), half_known()
    completer = fixed(x, PIXELS_ONLY)
    FeatureReasoningLoss(completer)(x, known, NOISE)
    assert torch.equal(completer.seen, torch.where(known, x, 0.0))


def test_the_loss_is_float32_and_finite_in_bfloat16() -> None:
    torch.manual_seed(0)
    loss = FeatureReasoningLoss(FeatureReasoning(TINY), Pyramid()).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    known = half_known()
    known[1] = False
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = loss(images(2, size=SIZE).contiguous(memory_format=torch.channels_last), known, NOISE)
    assert found.total.dtype == torch.float32 and found.total.shape == ()
    assert set(found.parts) == {"hole", "valid", "perceptual", "style"}
    assert not any(part.requires_grad for part in found.parts.values())
    found.total.backward()
    for name, parameter in loss.named_parameters():
        assert parameter.grad is not None and bool(parameter.grad.isfinite().all()), name


def test_training_learns_to_fill_a_hole() -> None:
    """A few steps on images of one colour: the hole takes the colour of the known pixels."""
    torch.manual_seed(0)
    loss = FeatureReasoningLoss(FeatureReasoning(PIXELS_ONLY))
    optimiser = torch.optim.Adam(loss.parameters(), lr=3e-3)
    colours = torch.rand(8, 3, 1, 1, generator=generator()) * 2 - 1
    x, known = colours.expand(-1, -1, SIZE, SIZE), half_known()[:1].expand(8, -1, -1, -1)
    totals = []
    for _ in range(60):
        total = loss(x, known, NOISE).total
        totals.append(float(total.detach()))
        optimiser.zero_grad()
        total.backward()
        optimiser.step()
    assert totals[-1] < 0.3 * totals[0]
