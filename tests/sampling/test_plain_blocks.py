"""Completion k is the same bit for bit, for any number of completions, chunk size and number of threads."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from helpers.models import images, small_conditional, some_known

from condvae import load
from condvae.conditional import ConditionalVAE
from condvae.observe import Observation
from condvae.runtime.pixels import to_uint8
from condvae.sampling.plain import PixelChoice, sample_conditional, seeds_from
from condvae.sampling.plain_blocks import PlainBlocks
from condvae.sampling.sampler import Sampler
from condvae.sampling.unconditional import groups_down_to
from condvae.vdvae.temperature import per_group


@pytest.fixture
def threads() -> Iterator[None]:
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def observed(model: ConditionalVAE, batch: int = 1) -> Observation:
    size = model.artifact.config.image_size
    return model.observe(images(batch, size=size), some_known(batch, size=size))


@pytest.fixture(scope="module")
def faces64() -> ConditionalVAE:
    """The embedded model: its convolutions are wide enough for torch to split them up in several ways."""
    model = load("faces64")
    assert isinstance(model, ConditionalVAE)
    return model


def completions(
    model: ConditionalVAE,
    observation: Observation,
    n: int,
    *,
    seed: int = 0,
    temperature: float = 1.0,
    pixels: PixelChoice = "mean",
    share: int | None = None,
    chunk: int | None = None,
) -> torch.Tensor:
    """Return completions [B, n, C, H, W] in [-1, 1], before rounding to 8 bits could hide a difference."""
    config = model.artifact.config
    seeds = seeds_from(seed, n, observations=range(len(observation))).on(torch.device("cpu")).view(-1, n)
    made = torch.full((len(observation), n, config.channels, config.image_size, config.image_size), torch.nan)
    blocks = PlainBlocks(model, dtype=torch.float32, chunk=chunk)
    shared = 0 if share is None else groups_down_to(config, share)
    for pairs, drawn, _ in blocks.pieces(observation, seeds, per_group(temperature, config), pixels, shared):
        for (b, k), image in zip(pairs, drawn, strict=True):
            made[b, k] = image
    return made


def test_known_pixels_stay_and_the_rest_equals_sample_conditional() -> None:
    model = small_conditional()
    observation = observed(model, 2)
    made = completions(model, observation, 5, seed=1)
    assert made.shape == (2, 5, 3, 8, 8)
    noise = seeds_from(1, 5, observations=range(2))
    plain = observation.paste(sample_conditional(model, observation, 5, noise=noise, pixels="mean").images, n=5)
    torch.testing.assert_close(made.flatten(0, 1), plain, rtol=1e-4, atol=1e-5)
    assert observation.known is not None and observation.pixels is not None
    known = observation.known.expand(-1, 3, -1, -1)
    for k in range(5):
        assert torch.equal(made[:, k][known], observation.pixels[known])
    assert not torch.equal(made[:, 0], made[:, 1])


@pytest.mark.parametrize("pixels", ["mean", "sample"])
def test_a_sample_has_the_same_bits_for_any_number_chunk_and_threads(
    pixels: PixelChoice, faces64: ConditionalVAE, threads: None
) -> None:
    observation = observed(faces64)
    torch.set_num_threads(1)
    reference = completions(faces64, observation, 9, seed=3, pixels=pixels)
    assert not torch.equal(reference[0, 0], reference[0, 1])
    # Pixels are drawn from states that do not depend on this choice, so two of the calls are enough for it.
    calls = ((1, None), (2, 1), (8, 3), (6, 100)) if pixels == "mean" else ((1, None), (6, 4))
    for count in (1, 2):
        torch.set_num_threads(count)
        for n, chunk in calls:
            again = completions(faces64, observation, n, seed=3, pixels=pixels, chunk=chunk)
            assert torch.equal(again, reference[:, :n]), (count, n, chunk)
        assert torch.get_num_threads() == count


def test_the_first_of_sixty_four_equal_those_of_a_smaller_call() -> None:
    model = load("cifar10")
    assert isinstance(model, ConditionalVAE)
    observation = observed(model)
    many = completions(model, observation, 64)
    for n in (1, 8):
        assert torch.equal(completions(model, observation, n), many[:, :n])
    assert torch.equal(completions(model, observation, 9, chunk=5), many[:, :9])


def test_a_sampler_of_the_same_model_changes_no_bit(faces64: ConditionalVAE) -> None:
    observation = observed(faces64)
    before = completions(faces64, observation, 2)
    Sampler(faces64, precision="fp32")(observation, 1)
    assert torch.equal(completions(faces64, observation, 2), before)


def test_calls_at_the_same_time_leave_the_number_of_threads_as_it_was(threads: None) -> None:
    torch.set_num_threads(2)
    model = small_conditional()
    observation = observed(model)
    alone = completions(model, observation, 9)
    with ThreadPoolExecutor(3) as callers:
        together = list(callers.map(lambda _: completions(model, observation, 9), range(12)))
    assert all(torch.equal(made, alone) for made in together)
    assert torch.get_num_threads() == 2
    with ThreadPoolExecutor(1) as fresh:
        assert fresh.submit(torch.get_num_threads).result() == 2


def test_an_observation_is_completed_equally_alone_and_in_a_batch(faces64: ConditionalVAE) -> None:
    observation = observed(faces64, 5)
    sampler, seeds = Sampler(faces64), [11, 3, 40, 8, 2]
    together = sampler(observation, 3, seed=4, places=seeds)
    for n, rows in ((1, slice(3, 4)), (2, slice(1, 4)), (3, slice(4, 5))):
        alone = sampler(observation[rows], n, seed=4, places=seeds[rows])
        assert torch.equal(alone, together[rows, :n])


def test_temperature_zero_gives_one_completion_for_any_seed() -> None:
    model = small_conditional()
    observation, sampler = observed(model), Sampler(model)
    made = sampler(observation, 6, seed=1, temperature=0.0)
    assert (made == made[:, :1]).all()
    assert torch.equal(made, sampler(observation, 6, seed=2, temperature=0.0))
    drawn = completions(model, observation, 6, seed=1, temperature=0.0, pixels="sample")
    assert not torch.equal(drawn[0, 0], drawn[0, 1])


def test_everything_known_and_nothing_known() -> None:
    model, x = small_conditional(), images(1)
    every = torch.ones(1, 1, 8, 8, dtype=torch.bool)
    made = completions(model, model.observe(x, every), 3)
    assert torch.equal(made, x[:, None].expand(-1, 3, -1, -1, -1))
    made = completions(model, model.observe(x, ~every), 3)
    assert made.isfinite().all() and not torch.equal(made[0, 0], made[0, 1])
    other = completions(model, model.observe(-x, ~every), 3)
    assert torch.equal(made, other)  # hidden pixels have no influence


def test_shared_latents_keep_the_first_completion_and_make_the_others_similar() -> None:
    model = small_conditional()
    observation = observed(model)
    free = completions(model, observation, 6)
    spread = [free.std(dim=1).mean()]
    for resolution in (1, 4):
        made = completions(model, observation, 6, share=resolution)
        assert torch.equal(made[:, 0], free[:, 0])
        assert torch.equal(made[:, :3], completions(model, observation, 3, share=resolution))
        spread.append(made.std(dim=1).mean())
    assert spread[0] > spread[1] > spread[2] > 0
    finest = completions(model, observation, 6, share=8)
    assert (finest == finest[:, :1]).all()
    with pytest.raises(ValueError, match="no latents at resolution 5, only at 1, 4, 8"):
        completions(model, observation, 2, share=5)


def test_shared_latents_do_not_depend_on_chunks(faces64: ConditionalVAE, threads: None) -> None:
    observation = observed(faces64)
    reference = completions(faces64, observation, 6, share=8)
    torch.set_num_threads(2)
    assert torch.equal(completions(faces64, observation, 2, share=8, chunk=1), reference[:, :2])
    torch.testing.assert_close(completions(faces64, observation, 1), reference[:, :1], rtol=0, atol=0)


def test_the_sampler_rounds_them_to_grey_levels() -> None:
    model = small_conditional()
    observation = observed(model, 2)
    for share in (None, 4):
        levels = Sampler(model)(observation, 5, seed=2, temperature=0.8, share=share)
        floats = completions(model, observation, 5, seed=2, temperature=0.8, share=share)
        assert torch.equal(levels, to_uint8(floats))


def test_bad_numbers_are_refused() -> None:
    model = small_conditional()
    observation = observed(model)
    for options, message in (
        ({"n": 0}, "number of samples"),
        ({"n": 2, "chunk": 0}, "the chunk is 0"),
        ({"n": 2, "seed": -1}, "the seed is -1"),
        ({"n": 2, "temperature": float("nan")}, "temperature nan"),
        ({"n": 2, "pixels": "median"}, "pixels is 'median'"),
    ):
        chunk = options.pop("chunk", None)
        with pytest.raises(ValueError, match=message):
            Sampler(model, chunk=chunk)(observation, **options)  # type: ignore[arg-type]
