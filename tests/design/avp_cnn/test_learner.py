"""Each part of the training has an effect, and none of them uses test images."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from helpers.labelled_images import findings_pack
from torch import Tensor

from condvae import observe
from condvae.data import Dataset, open_data
from condvae.data.image_set import LevelBatch
from condvae.design.avp_cnn.classifier_file import describe_classifier, load_classifier
from condvae.design.avp_cnn.classifier_options import WHOLE, ClassifierOptions
from condvae.design.avp_cnn.classifier_training import Learner, train_classifier
from condvae.design.avp_cnn.held_out import HeldOut
from condvae.design.avp_cnn.network import AVPCNN, ClassifierConfig
from condvae.design.avp_cnn.targets import targets_of
from condvae.observe.process import KnownPixels
from condvae.runtime.messages import silent

STILL: dict[str, Any] = dict.fromkeys(("shift", "scale", "rotation", "contrast", "brightness", "blur", "dropout"), 0.0)
SMALL: dict[str, Any] = {"trunk": "plain", "widths": (4, 8), "blocks": 1, "head": 0, "warm_up": 0, "device": "cpu"}


@pytest.fixture(scope="module")
def pack(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return findings_pack(tmp_path_factory.mktemp("data") / "pack.zip", train=160, test=80)


@pytest.fixture(scope="module")
def data(pack: Path) -> Dataset:
    return open_data(pack, validation=60)


def process_of(words: str | tuple[str, ...]) -> KnownPixels:
    process = observe.parse(words)
    assert isinstance(process, KnownPixels)
    return process


def learner(data: Dataset, **changes: Any) -> Learner:
    """A learner that sees whole images without augmentation, and starts from random weights."""
    options = ClassifierOptions(data=(), out=Path("g.safetensors"), **{**SMALL, **STILL, "flip": "no", **changes})
    targets = targets_of(data)
    config = ClassifierConfig(
        size=16,
        channels=1,
        names=targets.names,
        trunk="plain",
        widths=options.widths,
        blocks=1,
        head=0,
        dropout=options.dropout,
    )
    torch.manual_seed(0)
    return Learner(AVPCNN(config), options, process_of(WHOLE), targets, flips=data.flips)


def batch(data: Dataset) -> LevelBatch:
    return data.train.take(torch.arange(16).numpy())


def test_augmentation_and_dropout_change_the_loss(data: Dataset) -> None:
    def loss(**changes: Any) -> float:
        return float(learner(data, **changes).step(0, batch(data)))

    still = loss()
    assert loss() == still
    for name, value in {**dict.fromkeys(STILL, 0.4), "rotation": 40.0, "flip": "yes"}.items():
        assert abs(loss(**{name: value}) - still) > 1e-5, name


def test_large_gradients_are_clipped(data: Dataset) -> None:
    def slope(clip: float) -> float:
        """Norm of the gradients of the first step."""
        one = learner(data, clip=clip)
        one.step(0, batch(data))
        return float(torch.cat([p.grad.flatten() for p in one.model.parameters() if p.grad is not None]).norm())

    whole = slope(1e9)
    assert whole > 0.02
    assert slope(0.01) == pytest.approx(0.01, rel=1e-3)
    assert slope(2 * whole) == pytest.approx(whole)


def test_the_average_follows_the_weights(data: Dataset) -> None:
    one = learner(data, ema=0.15)
    names = ("last.weight", "trunk.stem.norm.running_mean")
    expected = {name: one.model.state_dict()[name].clone() for name in names}
    for number in range(4):
        one.step(number, batch(data))
        decay = min(0.15, (1 + number) / (10 + number))
        for name in names:
            now = one.model.state_dict()[name]
            expected[name] = decay * expected[name] + (1 - decay) * now
            torch.testing.assert_close(one.average.state_dict()[name], expected[name])
            assert not torch.equal(one.average.state_dict()[name], now)


def train(pack: Path, out: Path, **changes: Any) -> AVPCNN:
    given = {**SMALL, "validation": 60, "batch": 16, "steps": 2, "draws": 2, "lr": 0.01, **changes}
    return load_classifier(train_classifier(ClassifierOptions(data=(pack,), out=out, **given), silent))


def test_the_averaged_weights_are_evaluated_and_saved(pack: Path, data: Dataset, tmp_path: Path) -> None:
    long, none = (train(pack, tmp_path / f"{ema}.safetensors", ema=ema, lr=0.2) for ema in (0.9, 0.0))
    # Both made the same steps, but one averages over more of them.
    assert float((long.last.weight - none.last.weight).detach().abs().max()) > 0.005
    process = process_of(ClassifierOptions(data=(), out=tmp_path).observe)
    with torch.no_grad():
        long.gain.fill_(1)
        long.offset.fill_(0)
    held_out = HeldOut(data.validation, targets_of(data), process, seed=0)
    expected = held_out.nll(held_out.logits(long))
    recorded = describe_classifier(tmp_path / "0.9.safetensors").record["validation_nll"]
    assert recorded == pytest.approx(expected, abs=2e-4)


def test_training_starts_at_the_frequencies_of_findings(pack: Path, data: Dataset, tmp_path: Path) -> None:
    model = train(pack, tmp_path / "g.safetensors", lr=1e-9, steps=1, dropout=0.3)
    expected = targets_of(data).frequencies(data.train).logit().float()
    torch.testing.assert_close(model.last.bias.detach(), expected, rtol=2e-3, atol=1e-3)
    assert float(model.last.weight.detach().abs().max()) < 1e-6
    assert describe_classifier(tmp_path / "g.safetensors").config.dropout == 0.3


def test_only_held_out_images_choose_and_calibrate(
    pack: Path, data: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    judged: list[list[int]] = []
    real = HeldOut.__init__

    def noted(self: HeldOut, images: Any, *rest: Any, **options: Any) -> None:
        judged.append(images.rows.tolist())
        real(self, images, *rest, **options)

    monkeypatch.setattr(HeldOut, "__init__", noted)
    model = train(pack, tmp_path / "g.safetensors", steps=30, seed=3)
    held_out, tests = data.validation.rows.tolist(), data.test.rows.tolist()
    assert judged == [held_out, held_out, tests]  # for choosing, for calibration, and for the final report
    process = process_of(ClassifierOptions(data=(), out=tmp_path).observe)

    def fitted(images: Any) -> Tensor:
        one = load_classifier(tmp_path / "g.safetensors")
        HeldOut(images, targets_of(data), process, seed=3 + 1, draws=2).calibrate(one)
        return torch.stack((one.gain, one.offset))

    found = torch.stack((model.gain, model.offset))
    torch.testing.assert_close(found, fitted(data.validation), rtol=0, atol=1e-3)
    for images in (data.test, data.train, replace(data.validation, rows=data.validation.rows[:30])):
        assert float((found - fitted(images)).abs().max()) > 5e-3
    plain = torch.stack((torch.ones_like(model.gain), torch.zeros_like(model.offset)))
    assert float((found - plain).abs().max()) > 5e-3
