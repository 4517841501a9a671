import pytest
import torch
from helpers.models import images, small_conditional, some_known
from torch import Tensor

from condvae.completers.by_place import complete_at
from condvae.completers.model_completer import ModelCompleter
from condvae.observe import Observation
from condvae.observe.observation import observe_levels
from condvae.runtime.pixels import from_uint8, to_uint8
from condvae.sampling.sampler import Sampler


def test_completers_see_only_known_pixels() -> None:
    x, known = to_uint8(images(2)), some_known(2)
    seen = observe_levels(x, known)
    other = observe_levels(torch.where(known, x, 7), known)
    assert torch.equal(seen.y, other.y)
    assert seen.pixels is not None and other.pixels is not None
    assert torch.equal(seen.pixels, other.pixels)
    assert torch.equal(torch.where(known, seen.pixels, 0), torch.where(known, from_uint8(x), 0))


class Noise:
    """A completer without a `places` argument that uses only the seed."""

    name, varies = "noise", True

    def complete(self, observation: Observation, k: int, seed: int) -> Tensor:
        assert observation.pixels is not None
        shape = (len(observation), k, *observation.pixels.shape[1:])
        return torch.randint(256, shape, generator=torch.Generator().manual_seed(seed), dtype=torch.uint8)


class Wrong(Noise):
    def __init__(self, made: object) -> None:
        self.made = made

    def complete(self, observation: Observation, k: int, seed: int) -> Tensor:
        return self.made  # type: ignore[return-value]


def test_a_completer_without_places_still_depends_on_them() -> None:
    seen = observe_levels(to_uint8(images(4)), some_known(4))
    all_of_them = complete_at(Noise(), seen, 3, seed=5, places=[3, 9, 4, 11])
    assert torch.equal(complete_at(Noise(), seen[1:3], 3, seed=5, places=[9, 4]), all_of_them[1:3])
    assert not torch.equal(complete_at(Noise(), seen[1:3], 3, seed=6, places=[9, 4]), all_of_them[1:3])
    assert len({image.numpy().tobytes() for image in all_of_them.flatten(0, 1)}) == 12


@pytest.mark.parametrize("made", [None, torch.zeros(1, 2, 3, 8, 8), torch.zeros(2, 2, 3, 8, 8, dtype=torch.uint8)])
def test_invalid_completions_are_rejected(made: object) -> None:
    seen = observe_levels(to_uint8(images(1)), some_known(1))
    with pytest.raises(ValueError, match=r"noise returned .*, expected"):
        complete_at(Wrong(made), seen, 2, seed=0, places=[0])


def test_a_model_completes_by_place() -> None:
    sampler = Sampler(small_conditional(), precision="fp32")
    groups = len(sampler.model.artifact.config.group_stages)
    completer = ModelCompleter(name="small", sampler=sampler, temperature=[1.0] * groups, pixels="mean")
    assert completer.varies
    assert not ModelCompleter(name="small", sampler=sampler, temperature=[0.0] * groups, pixels="mean").varies
    x, known = to_uint8(images(3)), some_known(3)
    made = complete_at(completer, observe_levels(x, known), 2, seed=1, places=[5, 6, 7])
    assert torch.equal(torch.where(known[:, None], made, 0), torch.where(known[:, None], x[:, None], 0).expand_as(made))
    alone = complete_at(completer, observe_levels(x, known)[1:2], 2, seed=1, places=[6])
    assert (alone.int() - made[1:2].int()).abs().max() <= 1  # rounding
    elsewhere = complete_at(completer, observe_levels(x, known)[1:2], 2, seed=1, places=[1])
    assert (elsewhere != alone).float().mean() > 0.1


def test_a_model_completer_draws_the_same_every_time() -> None:
    model = small_conditional()
    groups = len(model.artifact.config.group_stages)
    completer = ModelCompleter.of(model, name="small", temperature="0.5", chunk=7)
    assert (completer.name, completer.pixels, completer.temperature) == ("small", "mean", [0.5] * groups)
    assert completer.sampler.precision == "fp32"  # so that runs on a CPU agree
    sampler = Sampler(model, precision="bf16")
    assert ModelCompleter.of(sampler, name="small").sampler is sampler
    with pytest.raises(ValueError, match="temperatures was given"):
        ModelCompleter.of(model, name="small", temperature=[1.0] * (groups + 1))
