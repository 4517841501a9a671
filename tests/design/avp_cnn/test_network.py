import copy
import json
from dataclasses import replace
from typing import Any

import pytest
import torch
from helpers.models import generator, images, randomise, some_known
from torch import Tensor

from condvae.design.avp_cnn import network
from condvae.design.avp_cnn.layers import Norm
from condvae.design.avp_cnn.network import AVPCNN, ClassifierConfig
from condvae.observe.observation import observe_pixels

SMALL = ClassifierConfig(size=16, channels=3, names=("a", "b", "c"), trunk="plain", widths=(8, 16), blocks=1, head=12)
CLASSES = replace(SMALL, names=("class",), outcomes=4, outcome_names=("north", "east", "south", "west"))


def small(config: ClassifierConfig = SMALL, seed: int = 0) -> AVPCNN:
    torch.manual_seed(seed)
    model = AVPCNN(config)
    randomise(model, seed)
    for layer in model.modules():
        if isinstance(layer, Norm):
            layer.running_var.mul_(3)
    return model.eval()


def seen(batch: int = 5, *, seed: int = 0, channels: int = 3) -> tuple[Tensor, Tensor]:
    return images(batch, size=16, channels=channels, seed=seed), some_known(batch, size=16, seed=seed)


@pytest.mark.parametrize(
    ("config", "shape"),
    [
        (SMALL, (5, 3, 2)),
        (CLASSES, (5, 1, 4)),
        (replace(SMALL, names=("only",)), (5, 1, 2)),
        (replace(SMALL, trunk="lite0", stages=3, head=0), (5, 3, 2)),
        (replace(SMALL, trunk="lite0", stages=2, enlarge=2, stem_stride=1), (5, 3, 2)),
        (replace(SMALL, channels=1, enlarge=3), (5, 3, 2)),
    ],
)
def test_it_gives_log_probabilities(config: ClassifierConfig, shape: tuple[int, ...]) -> None:
    model = small(config)
    log_p = model.log_posterior(*seen(channels=config.channels))
    assert log_p.shape == shape and log_p.dtype == torch.float32
    torch.testing.assert_close(log_p.exp().sum(dim=2), torch.ones(shape[:2]))
    assert model.names == config.names and model.outcomes == shape[2]
    assert not log_p.requires_grad
    assert len(log_p[:, 0, 0].unique()) == 5  # predictions depend on the images


@pytest.mark.parametrize("config", [SMALL, CLASSES])
def test_log_posterior_agrees_with_forward(config: ClassifierConfig) -> None:
    model, (pixels, known) = small(config), seen()
    logits = model(observe_pixels(pixels, known, model.normalise).y)
    expected = logits.log_softmax(dim=1)[:, None]
    if config.outcomes == 2:
        expected = torch.stack(((-logits).sigmoid().log(), logits.sigmoid().log()), dim=2)
    torch.testing.assert_close(model.log_posterior(pixels, known), expected)
    assert model.training is False


def test_hidden_pixels_cannot_be_seen() -> None:
    model, (pixels, known) = small(), seen()
    expected = model.log_posterior(pixels, known)
    for anything in (float("nan"), float("inf"), 0.3):
        assert torch.equal(model.log_posterior(torch.where(known, pixels, anything), known), expected)
    assert not torch.equal(model.log_posterior(pixels, ~known), expected)
    dark = torch.full_like(pixels, 2 * SMALL.mean / 255 - 1)  # known pixels of this value look like hidden ones
    assert not torch.equal(model.log_posterior(dark, known), model.log_posterior(dark, ~known))


def test_images_are_processed_in_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    model, (pixels, known) = small(), seen(7)
    whole = model.log_posterior(pixels, known)
    sizes: list[int] = []
    monkeypatch.setattr(network, "_PIXELS_AT_ONCE", {"cpu": 2 * 16 * 16})
    forward = AVPCNN.forward

    def counted(self: AVPCNN, y: Tensor, *more: Any) -> Tensor:
        sizes.append(len(y))
        return forward(self, y, *more)

    monkeypatch.setattr(AVPCNN, "forward", counted)
    torch.testing.assert_close(model.log_posterior(pixels, known), whole)
    assert sizes == [2, 2, 2, 1]


def test_calibration_scales_and_shifts_the_log_odds() -> None:
    model, (pixels, known) = small(), seen()
    before = model.log_posterior(pixels, known)
    model.gain.copy_(torch.tensor([2.0, 1.0, 0.5]))
    model.offset.copy_(torch.tensor([0.0, -1.0, 3.0]))
    after = model.log_posterior(pixels, known)
    odds, scaled = (log_p[..., 1] - log_p[..., 0] for log_p in (before, after))
    torch.testing.assert_close(scaled, odds * model.gain + model.offset, rtol=1e-4, atol=1e-4)
    classes = small(CLASSES)
    before = classes.log_posterior(pixels, known)
    classes.gain.fill_(0.5)
    torch.testing.assert_close(classes.log_posterior(pixels, known), (before / 2).log_softmax(dim=2))


def test_predictions_follow_the_weights() -> None:
    model, (pixels, known) = small(), seen()
    first = model.log_posterior(pixels, known)
    other = small(seed=1)
    second = other.log_posterior(pixels, known)
    other.load_state_dict(model.state_dict())
    assert torch.equal(other.log_posterior(pixels, known), first)
    with torch.no_grad():
        for parameter in other.train().parameters():
            parameter.add_(0.1)
    changed = other.eval().log_posterior(pixels, known)
    assert not torch.equal(changed, first) and not torch.equal(changed, second)
    torch.testing.assert_close(copy.deepcopy(model).double().float().log_posterior(pixels, known), first)


def test_changed_weights_are_noticed() -> None:
    model, (pixels, known) = small(), seen()
    predictions = [model.log_posterior(pixels, known)]

    def check() -> None:
        predictions.append(model.log_posterior(pixels, known))
        assert not torch.equal(predictions[-1], predictions[-2])
        fresh = small(seed=1)
        fresh.load_state_dict(model.state_dict())
        assert torch.equal(fresh.log_posterior(pixels, known), predictions[-1])

    for foreach in (False, True):
        optimiser = torch.optim.AdamW(model.parameters(), lr=0.1, foreach=foreach)
        model(observe_pixels(pixels, known, model.normalise).y).square().sum().backward()
        optimiser.step()
        check()
    with torch.no_grad():
        next(layer for layer in model.modules() if isinstance(layer, Norm)).running_mean.add_(1)
    check()
    model.last.bias = torch.nn.Parameter(model.last.bias.detach() + 1)
    check()
    model.last.weight.data = model.last.weight.data * 2
    check()
    model.start_at(torch.tensor([0.1, 0.5, 0.9]))
    check()
    network = model._folded(torch.float32)
    model.log_posterior(pixels, known)
    assert model._folded(torch.float32) is network  # nothing is folded again if nothing has changed


def test_a_copy_is_independent() -> None:
    model, (pixels, known) = small(), seen()
    first = model.log_posterior(pixels, known)
    other = copy.deepcopy(model)
    with torch.no_grad():
        other.last.bias.add_(1)
    assert not torch.equal(other.log_posterior(pixels, known), first)
    assert torch.equal(model.log_posterior(pixels, known), first)


def test_start_at_predicts_the_frequencies() -> None:
    pixels, known = seen()
    model, shares = small(), torch.tensor([0.1, 0.5, 0.9])
    model.start_at(shares)
    torch.testing.assert_close(model.log_posterior(pixels, known)[..., 1].exp(), shares.expand(5, 3))
    classes, shares = small(CLASSES), torch.tensor([0.1, 0.2, 0.3, 0.4])
    classes.start_at(shares)
    torch.testing.assert_close(classes.log_posterior(pixels, known)[:, 0].exp(), shares.expand(5, 4))


def test_dropout_needs_a_generator() -> None:
    model, (pixels, known) = small(replace(SMALL, dropout=0.5)), seen()
    y = observe_pixels(pixels, known, model.normalise).y
    whole = model(y)
    assert torch.equal(model(y), whole)
    assert torch.equal(model(y, generator(0)), model(y, generator(0)))
    assert not torch.equal(model(y, generator(0)), model(y, generator(1)))
    many = model(y[:1].expand(4000, -1, -1, -1), generator(2))
    torch.testing.assert_close(many.mean(dim=0), whole[0], rtol=0.1, atol=0.05)


def test_a_config_survives_json_and_refuses_typos() -> None:
    for config in (SMALL, CLASSES):
        assert ClassifierConfig.from_dict(json.loads(json.dumps(config.to_dict()))) == config
    with pytest.raises(ValueError, match="unknown key in classifier config: trunks"):
        ClassifierConfig.from_dict({**SMALL.to_dict(), "trunks": 1})
    with pytest.raises(ValueError, match="missing key in classifier config: size"):
        ClassifierConfig.from_dict({"channels": 1, "names": ["a"]})


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"names": ()}, "expected the names of one or more variables"),
        ({"outcomes": 3}, "3 variables have 3 outcomes each"),
        ({"outcome_names": ("a",)}, "2 outcomes but 1 outcome names"),
        ({"channels": 2}, "channels is 2"),
        ({"trunk": "oak"}, "trunk is 'oak'"),
        ({"dropout": 1.0}, "dropout is 1.0"),
        ({"std": 0.0}, "a positive std"),
        ({"enlarge": 0}, "enlarge is 0"),
    ],
)
def test_invalid_configurations_are_refused(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        replace(SMALL, **wrong)


def test_images_that_do_not_fit_are_refused() -> None:
    model, (pixels, known) = small(), seen()
    with pytest.raises(ValueError, match="pixels is 8 x 8 pixels"):
        model.log_posterior(pixels[..., :8, :8], known)
    with pytest.raises(ValueError, match="has 1 channel,"):
        model.log_posterior(pixels[:, :1], known)
    with pytest.raises(ValueError, match=r"known has shape \(4, 1, 16, 16\)"):
        model.log_posterior(pixels, known[:4])
    with pytest.raises(ValueError, match="expected bool"):
        model.log_posterior(pixels, known.float())
    with pytest.raises(ValueError, match="precision is 'half'"):
        AVPCNN(SMALL, precision="half")  # type: ignore[arg-type]


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")
@pytest.mark.parametrize("trunk", ["lite0", "plain"])
def test_half_precision_is_close(trunk: Any) -> None:
    config = replace(SMALL, trunk=trunk, size=64)
    model = small(config)
    pixels, known = images(64, size=64), some_known(64, size=64)
    exact = model.log_posterior(pixels, known)
    fast, plain = AVPCNN(config, precision="fast"), AVPCNN(config, precision="exact")
    for other in (fast, plain):
        other.load_state_dict(model.state_dict())
        other.cuda().eval()
    torch.testing.assert_close(plain.log_posterior(pixels, known), exact, rtol=1e-3, atol=1e-3)
    torch.testing.assert_close(fast.log_posterior(pixels, known), exact, rtol=0.05, atol=0.05)
    assert fast.log_posterior(pixels.cuda(), known.cuda()).is_cuda
