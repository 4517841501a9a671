"""What all learned baselines share, with a toy network: known pixels, random numbers, batches, and messages."""

import re
import threading
from typing import Any, ClassVar

import pytest
import torch
from helpers.models import images, randomise, some_known
from torch import Tensor, nn

from condvae.completers.by_place import complete_at, identity_of
from condvae.completers.learned_completer import (
    BaselineConfig,
    Code,
    FloatBatchNorm,
    LearnedCompleter,
    batch_norm,
    without_gradients,
)
from condvae.noise import Noise
from condvae.observe import Observation
from condvae.runtime.pixels import to_uint8


class Toy(LearnedCompleter):
    """Two convolutions: what decode returns depends on the pixels, on which are known, and on noise."""

    kind: ClassVar[str] = "toy"
    title: ClassVar[str] = "Toy Completer"
    varies: ClassVar[bool] = True

    def __init__(self, *, size: int = 8, channels: int = 3) -> None:
        super().__init__(BaselineConfig(image_size=size, channels=channels))
        torch.manual_seed(0)
        self.first = nn.Conv2d(channels + 1, 16, 3, padding=1)
        self.norm = batch_norm(16)
        self.second = nn.Conv2d(16, channels, 3, padding=1)
        self.encoded: list[tuple[Tensor, Tensor, bool]] = []
        self.threads: set[int] = set()
        self.decoded: list[int] = []
        self._lock = threading.Lock()

    def encode(self, pixels: Tensor, known: Tensor) -> Code:
        with self._lock:
            self.encoded.append((pixels, known, self.training))
            self.threads.add(torch.get_num_threads())
        return (self.norm(self.first(torch.cat((pixels, known.float()), dim=1))),)

    def decode(self, code: Code, noise: Noise) -> Tensor:
        (features,) = code
        with self._lock:
            self.decoded.append(len(features))
        drawn = noise.normal(0, features.shape, features.device) if self.varies else 0.0
        return torch.tanh(self.second(features + drawn))


class Certain(Toy):
    varies: ClassVar[bool] = False


class Broken(Toy):
    """All pixels of its images are one number."""

    level = torch.nan

    def decode(self, code: Code, noise: Noise) -> Tensor:
        return torch.full((len(code[0]), 3, 8, 8), self.level)


def observed(model: LearnedCompleter, n: int = 5) -> Observation:
    return model.observe(images(n), some_known(n))


def test_known_pixels_stay_and_hidden_ones_never_reach_the_network() -> None:
    model, x, known = Toy(), images(3), some_known(3)
    made = [model.complete(model.observe(torch.where(known, x, other), known), 4, seed=0) for other in (0.0, torch.nan)]
    assert made[0].shape == (3, 4, 3, 8, 8) and made[0].dtype == torch.uint8
    assert torch.equal(*made)
    whole, level = known[:, None].expand_as(made[0]), to_uint8(x)[:, None].expand_as(made[0])
    assert torch.equal(made[0][whole], level[whole])
    assert (made[0][~whole] != level[~whole]).float().mean() > 0.9
    # An observation can also be made by other means, with any values at hidden pixels.
    other = Observation(y=known.float(), known=known, pixels=torch.where(known, x, torch.nan))
    assert torch.equal(model.complete(other, 4, seed=0), made[0])
    for pixels, flags, _ in model.encoded:
        assert not bool(torch.where(flags, 0.0, pixels).any())


@pytest.mark.parametrize("make", [Toy, Certain])
def test_a_completion_depends_only_on_the_seed_the_place_and_its_number(make: type[Toy]) -> None:
    model = make()
    observation = observed(model)
    whole = model.complete(observation, 9, seed=3)
    assert torch.equal(model.complete(observation, 9, seed=3), whole)
    for k in (1, 4, 6):
        assert torch.equal(model.complete(observation, k, seed=3), whole[:, :k])
    for row in range(5):
        alone = model.complete(observation[row : row + 1], 9, seed=3, places=[row])
        assert torch.equal(alone[0], whole[row])
    order = torch.tensor([3, 0, 4, 1, 2])
    shuffled = model.observe(images(5)[order], some_known(5)[order])
    assert torch.equal(complete_at(model, shuffled, 9, seed=3, places=order.tolist()), whole[order])
    same = torch.equal(model.complete(observation, 9, seed=4), whole)
    elsewhere = torch.equal(model.complete(observation, 9, seed=3, places=[9, 8, 7, 6, 5]), whole)
    assert same == elsewhere == (not model.varies)


def test_each_image_is_computed_in_one_thread_so_that_no_bit_depends_on_their_number() -> None:
    model = Toy()
    observation = observed(model)
    before, found = torch.get_num_threads(), []
    try:
        for threads in (1, 3):
            torch.set_num_threads(threads)
            found.append(model.complete(observation, 5, seed=0))
            assert torch.get_num_threads() == threads
    finally:
        torch.set_num_threads(before)
    assert torch.equal(*found) and model.threads == {1}


def test_one_encoding_serves_all_completions_of_an_image() -> None:
    model = Toy()
    model.complete(observed(model), 11, seed=0)
    assert [len(pixels) for pixels, _, _ in model.encoded] == [1] * 5
    assert sum(model.decoded) == 5 * 11 and max(model.decoded) <= 4


def test_a_method_that_does_not_vary_computes_one_completion() -> None:
    model = Certain()
    made = model.complete(observed(model), 1000, seed=0)
    assert made.shape == (5, 1000, 3, 8, 8) and made.stride(1) == 0
    assert model.decoded == [1] * 5 and len(model.encoded) == 5
    assert torch.equal(made[:, :1], model.complete(observed(model), 1, seed=7))


def test_completions_of_one_image_differ_if_the_method_varies() -> None:
    model = Toy()
    made = model.complete(model.observe(images(1).expand(2, -1, -1, -1), some_known(1).expand(2, -1, -1, -1)), 6, 0)
    assert len({tuple(image.flatten().tolist()) for image in made.flatten(0, 1)}) == 12  # equal images, other places


def test_the_mode_of_training_is_restored_and_statistics_do_not_move() -> None:
    for training in (True, False):
        for model in (Toy(), Broken()):
            model.train(training)
            before = model.norm.running_mean.clone() if model.norm.running_mean is not None else None
            if isinstance(model, Broken):
                with pytest.raises(ValueError, match="NaN"):
                    model.complete(observed(model), 2, seed=0)
            else:
                model.complete(observed(model), 2, seed=0)
            assert all(module.training == training for module in model.modules())
            assert {mode for _, _, mode in model.encoded} == {False}
            assert before is not None and model.norm.running_mean is not None
            assert torch.equal(before, model.norm.running_mean)


def test_completions_carry_no_gradient() -> None:
    model = Toy()
    assert not model.complete(observed(model), 2, seed=0).requires_grad
    assert all(parameter.requires_grad and parameter.grad is None for parameter in model.parameters())


@pytest.mark.parametrize("level", [torch.nan, torch.inf, -torch.inf])
def test_pixels_that_are_no_numbers_are_refused(level: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Broken, "level", level)
    model = Broken()
    expected = (
        "pixels of a completion are NaN or infinite: the weights of this Toy Completer are damaged, or its training "
        "has diverged; use another model file"
    )
    with pytest.raises(ValueError, match=f"^{expected}$"):
        model.complete(observed(model), 2, seed=0)


def test_observations_that_do_not_fit_are_refused_in_one_sentence() -> None:
    model, known = Toy(), some_known(2)

    def plain(size: int, channels: int) -> Observation:
        return Toy(size=size, channels=channels).observe(
            images(2, size=size, channels=channels), some_known(2, size=size)
        )

    edges = Observation(y=torch.zeros(2, 1, 8, 8))
    marked = Observation(y=known.float(), known=known)
    too_bright = Observation(y=known.float(), known=known, pixels=images(2) * 127)
    nothing = "Toy Completer completes images with holes, but this observation has no known pixels: give an image and"
    for observation, message in (
        (plain(16, 3), "the observation is 3 x 16 x 16 (channels x height x width), but Toy Completer needs 3 x 8 x 8"),
        (plain(8, 1), "the observation is 1 x 8 x 8 (channels x height x width), but Toy Completer needs 3 x 8 x 8"),
        (edges, nothing),
        (marked, nothing),
        (too_bright, "expected [-1, 1]"),
    ):
        with pytest.raises(ValueError, match=f"{re.escape(message)}.*$"):
            model.complete(observation, 2, seed=0)
    for bad, message in ((images(2, size=16), "16"), (images(2, channels=1), "1")):
        with pytest.raises(ValueError, match=message):
            model.observe(bad, known)
    for k in (0, -1, 1.5):
        with pytest.raises(ValueError, match="the number of samples is"):
            model.complete(observed(model), k, seed=0)  # type: ignore[arg-type]
    assert not model.encoded


def test_there_must_be_one_place_for_each_observation() -> None:
    model = Toy()
    for places in ([0, 1], list(range(6)), []):
        with pytest.raises(
            ValueError, match=rf"places has length {len(places)}, expected 5: one number per observation"
        ):
            model.complete(observed(model), 2, seed=0, places=places)


def test_images_without_holes_or_without_known_pixels_are_completed() -> None:
    model, x = Toy(), images(2)
    every = torch.ones(2, 1, 8, 8, dtype=torch.bool)
    assert torch.equal(model.complete(model.observe(x, every), 2, seed=0)[:, 1], to_uint8(x))
    assert model.complete(model.observe(x, ~every), 2, seed=0).shape == (2, 2, 3, 8, 8)


def test_the_identity_covers_weights_statistics_and_configuration() -> None:
    model, other = Toy(), Toy()
    assert identity_of(model) == identity_of(other)
    found = {identity_of(model), identity_of(Toy(size=16)), identity_of(Certain())}
    model.first.weight.data[0, 0, 0, 0] += 1e-4
    found.add(identity_of(model))
    assert other.norm.running_mean is not None
    other.norm.running_mean[3] += 1e-4
    found.add(identity_of(other))
    assert len(found) == 5


def test_the_state_of_batch_norm_has_only_floats_and_loads() -> None:
    mine, plain = batch_norm(4), nn.BatchNorm2d(4)
    assert isinstance(mine, FloatBatchNorm)
    assert set(mine.state_dict()) == {"weight", "bias", "running_mean", "running_var"}
    assert all(value.is_floating_point() for value in mine.state_dict().values())
    x = images(6, channels=3).repeat(1, 2, 1, 1)[:, :4]
    for module in (mine, plain):
        randomise(module, 0)
    for _ in range(3):  # the running statistics are those of torch
        assert torch.equal(mine(x), plain(x))
        x = 0.5 * x + 0.1
    loaded = batch_norm(4).eval()
    loaded.load_state_dict(dict(mine.state_dict()), strict=True)  # without torch's metadata, as from a model file
    assert torch.equal(loaded(x), plain.eval()(x)) and torch.equal(loaded(x), mine.eval()(x))
    lacking: dict[str, Any] = {name: value for name, value in mine.state_dict().items() if name != "running_var"}
    for state, name in ((lacking, "running_var"), (plain.state_dict(), "num_batches_tracked")):
        with pytest.raises(RuntimeError, match=name):
            loaded.load_state_dict(state, strict=True)


def test_without_gradients_restores_the_flags_also_after_an_exception() -> None:
    layers = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3), nn.Linear(3, 3))
    layers[1].requires_grad_(False)
    before = [parameter.requires_grad for parameter in layers.parameters()]
    x = torch.ones(2, 3, requires_grad=True)
    with without_gradients(layers):
        layers(x).sum().backward()
        assert not any(parameter.requires_grad for parameter in layers.parameters())
    assert x.grad is not None and bool(x.grad.any())
    assert all(parameter.grad is None for parameter in layers.parameters())
    assert [parameter.requires_grad for parameter in layers.parameters()] == before
    with pytest.raises(KeyError), without_gradients(layers):
        raise KeyError
    assert [parameter.requires_grad for parameter in layers.parameters()] == before
