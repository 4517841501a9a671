import dataclasses
from typing import Any

import pytest
import torch
from helpers.models import generator, images
from torch import Tensor

from condvae.completers.feature_reasoning import FeatureReasoning, FeatureReasoningConfig
from condvae.completers.feature_reasoning.reasoning_network import ConsistentAttention, ReasoningModule
from condvae.noise import SeededNoise

SIZE = 16
PAPER = FeatureReasoningConfig(image_size=256, widths=(64, 128, 256, 512), kernels=(7, 7), strides=3)
TINY = FeatureReasoningConfig(image_size=SIZE, widths=(4, 6, 8, 10), kernels=(3, 3), strides=1, head_width=8)


def network(config: FeatureReasoningConfig = TINY) -> FeatureReasoning:
    """A network in eval mode, whose BatchNorms have seen some images."""
    torch.manual_seed(0)
    made = FeatureReasoning(config)
    with torch.no_grad():
        for _ in range(3):
            made.encode(*observed(holes()[:3]))
    return made.eval()


def holes() -> Tensor:
    """A few known pixels, one, one half, all, and none: [5, 1, SIZE, SIZE]."""
    known = torch.zeros(5, 1, SIZE, SIZE, dtype=torch.bool)
    known[0] = torch.rand(1, SIZE, SIZE, generator=generator()) < 0.05
    known[1, :, 0, 0] = True
    known[2, :, : SIZE // 2] = True
    known[3] = True
    return known


def observed(known: Tensor, seed: int = 0) -> tuple[Tensor, Tensor]:
    return torch.where(known, images(len(known), size=SIZE, seed=seed), 0.0), known


def parameters(config: FeatureReasoningConfig) -> int:
    with torch.device("meta"):
        return sum(parameter.numel() for parameter in FeatureReasoning(config).parameters())


def test_parameters_of_the_paper() -> None:
    count = parameters(PAPER)
    assert count == 31_224_068
    assert f"{count / 1e6:.1f}" == "31.2"


@pytest.mark.parametrize(("size", "strides", "count"), [(32, 2, 7_666_404), (64, 3, 7_709_412)])
def test_parameters_of_the_small_networks(size: int, strides: int, count: int) -> None:
    assert parameters(FeatureReasoningConfig(image_size=size, strides=strides)) == count


def test_number_of_rounds() -> None:
    assert PAPER.rounds == 22  # 128 pixels, 6 in each
    assert FeatureReasoningConfig(image_size=32).rounds == 6  # 16 pixels, 3 in each
    assert FeatureReasoningConfig(image_size=64).rounds == 11


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"widths": (4, 6, 8)}, "widths is"),
        ({"widths": (4, 6, 8, 0)}, "one of widths is 0"),
        ({"kernels": (7, 4)}, "expected odd numbers"),
        ({"kernels": 7}, "kernels is 7"),
        ({"strides": 4}, "strides is 4"),
        ({"head_width": 6}, "multiple of 4"),
        ({"image_size": 18}, "multiple of 4"),
        ({"style_weight": -1.0}, "style_weight is -1.0"),
        ({"hole_weight": float("nan")}, "hole_weight is nan"),
        ({"channels": 2}, "channels"),
    ],
)
def test_wrong_configs_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        dataclasses.replace(TINY, **changes)


def test_lists_of_a_json_file_become_tuples() -> None:
    plain = {**dataclasses.asdict(TINY), "widths": list(TINY.widths), "kernels": list(TINY.kernels)}
    assert FeatureReasoningConfig(**plain) == TINY


@pytest.mark.parametrize(("size", "strides", "channels"), [(32, 2, 3), (64, 3, 1), (32, 1, 1)])
def test_native_sizes(size: int, strides: int, channels: int) -> None:
    config = dataclasses.replace(TINY, image_size=size, strides=strides, channels=channels, kernels=(5, 3))
    made = FeatureReasoning(config).eval()
    (code,) = made.encode(torch.zeros(1, channels, size, size), torch.ones(1, 1, size, size, dtype=torch.bool))
    assert code.shape == (1, channels, size, size) and code.dtype == torch.float32


@pytest.mark.parametrize(("strides", "coarse"), [(1, 8), (2, 4), (3, 2)])
def test_attention_works_before_the_last_stride(strides: int, coarse: int) -> None:
    module, x = ReasoningModule((4, 6, 8, 10), strides), torch.randn(2, 4, 8, 8, generator=generator())
    y, weights = module(x, None, torch.ones(2, 1, 8, 8))
    assert y.shape == x.shape
    assert weights.shape == (2, coarse**2, coarse**2)
    assert module(x, weights, torch.ones(2, 1, 8, 8))[1].shape == weights.shape


def test_attention_weights_sum_to_one_with_any_blend() -> None:
    attention, x = ConsistentAttention(6), torch.randn(2, 6, 5, 5, generator=generator())
    known = (torch.rand(2, 1, 5, 5, generator=generator()) < 0.5).float()
    _, first = attention(x, None, known)
    ones = torch.ones(2, 25)
    torch.testing.assert_close(first.sum(dim=2), ones)
    for blend in (1.0, -0.3, 0.0):
        torch.nn.init.constant_(attention.blend, blend)
        _, second = attention(x.flip(0), first, known)
        torch.testing.assert_close(second.sum(dim=2), ones)
        assert bool((second >= 0).all())


def test_attention_equals_its_definition() -> None:
    attention, x = ConsistentAttention(3), torch.randn(1, 3, 4, 4, generator=generator())
    torch.nn.init.constant_(attention.blend, -0.5)
    sources = x / x.norm(dim=1, keepdim=True)
    scores = torch.einsum("bcyx,bcs->bsyx", x, sources.flatten(2))
    padded = torch.nn.functional.pad(scores, (1, 1, 1, 1))
    box = sum((padded[..., i : i + 4, j : j + 4] for i in range(3) for j in range(3)), torch.zeros(()))
    new = box.flatten(2).transpose(1, 2).softmax(dim=2)  # [1, positions, sources]
    before = torch.rand(1, 16, 16, generator=generator()).softmax(dim=2)
    known = torch.zeros(1, 1, 4, 4)
    known[..., :2] = 1
    at = known.flatten(1)[:, :, None]
    expected = (before * at + 0.5 * new) / (at + 0.5)
    y, found = attention(x, before, known)
    torch.testing.assert_close(found, expected)
    attended = torch.einsum("bps,bcs->bcp", expected, sources.flatten(2)).view_as(x)
    torch.testing.assert_close(y, attention.merge(torch.cat((x, attended), dim=1)))


def test_results_are_repeatable() -> None:
    made = network()
    first = made.encode(*observed(holes()))
    made.encode(*observed(holes(), seed=5))  # no state may remain
    assert torch.equal(made.encode(*observed(holes()))[0], first[0])


def test_results_do_not_depend_on_the_rest_of_the_batch() -> None:
    made = network()
    pixels, known = observed(holes())
    (together,) = made.encode(pixels, known)
    for b in range(len(known)):
        (alone,) = made.encode(pixels[b : b + 1], known[b : b + 1])
        torch.testing.assert_close(together[b : b + 1], alone, rtol=1e-4, atol=1e-5)


def test_leaving_the_rounds_early_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    made = network()
    calls: list[int] = []
    made.shrink.register_forward_hook(lambda *_: calls.append(1))
    pixels, known = observed(holes()[2:])
    early, rounds_early = made.encode(pixels, known), len(calls)
    monkeypatch.setattr(FeatureReasoning, "_may_stop", lambda self, active: False)
    assert torch.equal(made.encode(pixels, known)[0], early[0])
    assert rounds_early < len(calls) - rounds_early == TINY.rounds


def test_training_always_runs_all_rounds() -> None:
    made = network().train()
    calls: list[int] = []
    made.shrink.register_forward_hook(lambda *_: calls.append(1))
    made.encode(*observed(holes()[3:]))
    assert len(calls) == TINY.rounds


def test_a_complete_image_keeps_its_features_while_others_take_more_rounds() -> None:
    made = network().train()
    inputs: list[Tensor] = []
    made.shrink.register_forward_pre_hook(lambda _, given: inputs.append(given[0].detach()))
    made.encode(*observed(holes()[[1, 3]]))
    assert len(inputs) == TINY.rounds > 2
    one_pixel, complete = torch.stack(inputs, dim=1)  # of each image: [rounds, base, h, w]
    assert not torch.equal(complete[0], complete[1])  # it takes one round
    assert all(torch.equal(later, complete[1]) for later in complete[2:])
    assert not torch.equal(one_pixel[1], one_pixel[2])


@pytest.mark.parametrize("place", [(0, 0), (SIZE - 1, SIZE - 1), (5, 9)])
@pytest.mark.parametrize("kernels", [(3, 3), (5, 3), (7, 7)])
def test_one_known_pixel_fills_the_features(place: tuple[int, int], kernels: tuple[int, int]) -> None:
    made = FeatureReasoning(dataclasses.replace(TINY, kernels=kernels)).eval()
    known = torch.zeros(1, 1, SIZE, SIZE)
    known[..., place[0], place[1]] = 1
    _, last = made.reason(*made.stem(torch.zeros(1, 3, SIZE, SIZE), known))
    assert bool((last == 1).all())


def test_fused_features_are_the_mean_over_the_rounds_that_an_image_needs() -> None:
    made = network()
    features = torch.randn(2, 4, 8, 8, generator=generator())
    known = torch.zeros(2, 1, 8, 8)
    known[0] = 1  # complete from the start: one round
    known[1, :, :, :5] = 1  # three columns are missing: two rounds of two columns each
    expected, weights, at = features * known, None, known
    rounds, knowns = [expected], [known]
    x = features
    for _ in range(2):
        shrunk, grown = made.shrink(x, at)
        x, weights = made.encoder_decoder(shrunk, weights, at)
        x, at = x * grown, grown
        rounds.append(x)
        knowns.append(at)
    found, last = made.reason(features, known)
    torch.testing.assert_close(found[0], (rounds[0][0] + rounds[1][0]) / 2)
    total, count = (torch.stack([t[1] for t in terms]).sum(dim=0) for terms in (rounds, knowns))
    torch.testing.assert_close(found[1], total / count)
    assert count[0, 0].tolist() == [3, 3, 3, 3, 3, 2, 2, 1]
    assert bool((last == 1).all())


@pytest.mark.parametrize("training", [False, True])
def test_an_empty_observation_gives_a_finite_image_and_gradients(training: bool) -> None:
    made = network().train(training)
    known = torch.zeros(2, 1, SIZE, SIZE, dtype=torch.bool)
    (code,) = made.encode(torch.zeros(2, 3, SIZE, SIZE), known)
    assert bool(code.isfinite().all())
    code.square().mean().backward()
    gradients = [parameter.grad for parameter in made.parameters() if parameter.grad is not None]
    assert gradients and all(bool(gradient.isfinite().all()) for gradient in gradients)


def test_every_parameter_is_trained() -> None:
    made = network().train()
    (code,) = made.encode(*observed(holes()))
    code.square().mean().backward()
    for name, parameter in made.named_parameters():
        assert parameter.grad is not None and bool(parameter.grad.isfinite().all()), name
        assert bool(parameter.grad.any()), name


def test_hidden_pixels_do_not_matter() -> None:
    made = network()
    pixels, known = observed(holes())
    (code,) = made.encode(pixels, known)
    assert torch.equal(made.encode(torch.where(known, pixels, 0.9), known)[0], code)
    assert not torch.equal(made.encode(torch.where(known, 0.9, pixels), known)[0][0], code[0])


def test_decode_returns_the_code() -> None:
    code = images(2, size=SIZE)
    assert torch.equal(network().decode((code,), SeededNoise([0, 1])), code)


def test_completions_repeat_one_image_and_keep_known_pixels() -> None:
    made, x, known = network(), images(2, size=SIZE), holes()[:2]
    observation = made.observe(x, known)
    found = made.complete(observation, 3, seed=0)
    assert found.shape == (2, 3, 3, SIZE, SIZE)
    assert torch.equal(found[:, 0], found[:, 2])
    assert torch.equal(found, made.complete(observation, 3, seed=1))
    whole = made.observe(x, torch.ones_like(known))
    assert torch.equal(
        found[:, 0][known.expand(-1, 3, -1, -1)], made.complete(whole, 1, seed=0)[:, 0][known.expand(-1, 3, -1, -1)]
    )


def test_the_state_dict_has_only_floating_point_numbers() -> None:
    assert all(value.is_floating_point() for value in network().state_dict().values())
