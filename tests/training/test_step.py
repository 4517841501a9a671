"""A step makes one AdamW update on the mean over all micro-batches, or skips it, and never waits for the device."""

import math
import warnings
from typing import Any

import numpy as np
import pytest
import torch
from helpers.models import generator, small_conditional, small_vae

from condvae import objectives
from condvae.data import ImageSet, LevelBatch
from condvae.observe import Freeform, Halves, Process, parse
from condvae.runtime.ranks import World
from condvae.training.optimiser import Rule
from condvae.training.step import MicroBatch, TrainingStep
from condvae.training.task import BoundTask, ConditionalTraining, Pretraining

CPU = torch.device("cpu")


def levels(n: int, seed: int = 0) -> LevelBatch:
    return LevelBatch(torch.randint(256, (n, 3, 8, 8), dtype=torch.uint8, generator=generator(seed)), None, None)


def make_step(device: torch.device = CPU, *, flip: bool = False, rule: Rule | None = None) -> TrainingStep:
    vae = small_vae().to(device)
    rule = rule or Rule(clip=1e9, skip_above=1e9, ema=0.5)
    return TrainingStep(Pretraining(vae), rule, World(0, 1, device), precision="fp32", flip=flip)


def test_micro_batches_add_up_to_the_mean_over_all_of_them() -> None:
    step = make_step()
    batches = [MicroBatch(levels(4, seed=s), generator(s)) for s in (1, 2)]
    reference = small_vae()
    losses = [
        objectives.elbo(reference, batch.levels.batch().x, noise=generator(s)).loss
        for s, batch in zip((1, 2), batches, strict=True)
    ]
    mean = (losses[0] + losses[1]) / 2
    mean.backward()
    optimiser = torch.optim.AdamW(reference.parameters(), lr=1e-3, betas=(0.9, 0.9), weight_decay=0.01)
    optimiser.step()
    step(batches, torch.tensor(1e-3), shards=2)
    for (name, mine), theirs in zip(step.task.model.named_parameters(), reference.parameters(), strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-4, atol=1e-5, msg=name)
    progress = step.report()
    assert progress.loss == pytest.approx(mean.item(), rel=1e-5)
    log_likelihood, *kl = progress.figures.values()
    assert progress.loss == pytest.approx((sum(kl) - log_likelihood) / (3 * 8 * 8), rel=1e-5)


def test_a_step_with_a_non_finite_loss_only_changes_the_counts() -> None:
    step = make_step()
    step([MicroBatch(levels(4), generator())], torch.tensor(1e-3), shards=1)
    before = {name: vector.clone() for name, vector in step.optimiser.vectors().items()}
    task = step.task
    assert isinstance(task, BoundTask)
    whole = task.bound

    def broken(*arguments: object, **options: object) -> objectives.Bound:
        bound = whole(*arguments, **options)  # type: ignore[arg-type]
        bound.kl_nats.data[0, 0] = math.nan
        return bound

    task.bound = broken  # type: ignore[method-assign]
    for _ in range(3):
        step([MicroBatch(levels(4), generator())], torch.tensor(1e-3), shards=1)
    assert all(torch.equal(vector, before[name]) for name, vector in step.optimiser.vectors().items())
    progress = step.report()
    assert (progress.steps, progress.skipped, progress.streak, progress.longest_streak) == (4, 3, 3, 3)
    assert math.isfinite(progress.loss)
    task.bound = whole  # type: ignore[method-assign]
    step([MicroBatch(levels(4), generator())], torch.tensor(1e-3), shards=1)
    progress = step.report()
    assert (progress.steps, progress.skipped, progress.streak, progress.longest_streak) == (1, 0, 0, 0)


def test_without_an_accepted_update_the_reported_loss_is_nan() -> None:
    step = make_step(rule=Rule(skip_above=1e-6))
    step([MicroBatch(levels(2), generator())], torch.tensor(1e-3), shards=1)
    progress = step.report()
    assert progress.skipped == 1
    assert math.isnan(progress.loss)


def test_flips_mirror_half_of_the_images_and_their_partners() -> None:
    from condvae.observe.batch import Batch

    seen: list[Batch] = []
    step = make_step(flip=True)
    task = step.task
    assert isinstance(task, BoundTask)
    whole = task.bound

    def look(batch: Batch, *arguments: object, **options: object) -> objectives.Bound:
        seen.append(batch)
        return whole(batch, *arguments, **options)  # type: ignore[arg-type]

    task.bound = look  # type: ignore[method-assign]
    given = levels(64)
    pair = LevelBatch(given.images, torch.arange(64), given.images)
    step([MicroBatch(pair, generator(5))], torch.tensor(1e-3), shards=1)
    plain = pair.batch()
    kept = (seen[0].x == plain.x).flatten(1).all(1)
    mirrored = (seen[0].x == plain.x.flip(3)).flatten(1).all(1)
    assert bool((kept ^ mirrored).all())
    assert 15 < int(mirrored.sum()) < 49
    assert seen[0].paired is not None
    assert torch.equal(seen[0].paired, seen[0].x)


def test_observations_differ_between_images_and_steps() -> None:
    task = ConditionalTraining(small_conditional(), Freeform())
    batch = levels(16).batch()
    observations = [
        task.process.observe(batch, normalise=task.vae.normalise, generator=generator(seed)) for seed in (0, 1)
    ]
    known = torch.cat([observation.known for observation in observations if observation.known is not None])
    assert len(torch.unique(known.flatten(1), dim=0)) > 24


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("conditional", [False, True])
def test_the_step_never_waits_for_the_device(conditional: bool) -> None:
    device = torch.device("cuda")
    if conditional:
        model = small_conditional().to(device)
        # Halves, because drawing freeform holes waits for the device.
        task: Pretraining | ConditionalTraining = ConditionalTraining(model, Halves())
    else:
        task = Pretraining(small_vae().to(device))
    step = TrainingStep(task, Rule(), World(0, 1, device), precision="bf16", flip=True)
    batch = MicroBatch(levels(4).to(device), torch.Generator(device))
    lr = torch.tensor(1e-3, device=device)
    step([batch], lr, shards=1)
    torch.cuda.synchronize()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch warns that this mode is a prototype
            torch.cuda.set_sync_debug_mode("error")
        step([batch], lr, shards=1)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert step.report().steps == 2


def test_evaluation_is_the_mean_over_images_and_repeats_exactly() -> None:
    from condvae.training.held_out_bound import CHUNK, by_resolution, evaluate_held_out

    step = make_step()
    rows = np.arange(CHUNK + 7)
    images = ImageSet(images=levels(len(rows)).images.permute(0, 2, 3, 1).numpy().copy(), rows=rows)
    first, second = evaluate_held_out(step, images, seed=1), evaluate_held_out(step, images, seed=1)
    assert first == second
    assert first.images == CHUNK + 7
    assert evaluate_held_out(step, images, seed=2).nats_per_dim != first.nats_per_dim
    dims = 3 * 8 * 8
    assert first.nats_per_dim == pytest.approx((sum(first.kl_nats) - first.log_likelihood_nats) / dims)
    assert sum(by_resolution(first.config, first.kl_nats).values()) == pytest.approx(sum(first.kl_nats))
    assert list(by_resolution(first.config, first.kl_nats)) == [1, 4, 8]


def held_out(n: int) -> ImageSet:
    return ImageSet(images=levels(n).images.permute(0, 2, 3, 1).numpy().copy(), rows=np.arange(n))


def conditional_step(process: Process, **options: Any) -> TrainingStep:
    task = ConditionalTraining(small_conditional(), process, **options)
    return TrainingStep(task, Rule(), World(0, 1, CPU), precision="fp32", flip=False)


def test_runs_with_different_targets_report_the_same_numbers() -> None:
    """The loss of IPA scores hidden pixels, that from scratch whole images; the reported bounds are the same."""
    from condvae.training.held_out_bound import CHUNK, evaluate_held_out

    images = held_out(CHUNK + 7)
    ipa, scratch = (
        evaluate_held_out(conditional_step(Freeform(), target=t), images, seed=1) for t in ("hidden", "whole")
    )
    assert ipa.by_pixels == scratch.by_pixels
    assert ipa.kl_nats == scratch.kl_nats
    dims = 3 * 8 * 8
    for own, pixels in ((ipa, "hidden"), (scratch, "whole")):  # the loss of each is among the reported bounds
        assert own.nats_per_dim * dims == pytest.approx(own.by_pixels[f"{pixels}_nats"], rel=1e-12)
    assert scratch.bits_per_dim == pytest.approx(scratch.by_pixels["whole_bits_per_dim"], rel=1e-12)
    error = scratch.by_pixels["whole_bits_per_dim_standard_error"]
    assert error * math.log(2) == pytest.approx(scratch.standard_error, rel=1e-6)
    assert error * math.log(2) * dims == pytest.approx(scratch.by_pixels["whole_nats_standard_error"], rel=1e-12)


@pytest.mark.parametrize("target", ["hidden", "whole"])
def test_reports_of_one_pass_equal_those_of_one_pass_per_target(target: objectives.Target) -> None:
    """They agree bit for bit, so reporting both targets does not change which checkpoint is the best."""
    step, batch = conditional_step(Freeform(), target=target), levels(20).batch()
    task = step.task
    assert isinstance(task, ConditionalTraining)
    dice = generator(5)
    observation = task.process.observe(batch, normalise=task.vae.normalise, generator=dice)
    with torch.no_grad():
        expected = objectives.forward(task.model, batch.x, observation, noise=dice, target=target)
        found = step.reports(batch, generator(5))[task.scores]
    assert torch.equal(found.nats, expected.nats) and torch.equal(found.kl_nats, expected.kl_nats)
    assert torch.equal(found.scored_dims, expected.scored_dims)


def test_reports_without_known_pixels_and_for_the_reverse_objective() -> None:
    from condvae.training.held_out_bound import evaluate_held_out

    images = held_out(8)
    nothing_known = evaluate_held_out(conditional_step(parse("nothing")), images, seed=1).by_pixels
    for name in ("bits_per_dim", "nats", "bits_per_dim_standard_error", "nats_standard_error"):
        assert nothing_known[f"hidden_{name}"] == nothing_known[f"whole_{name}"]
    reverse = evaluate_held_out(conditional_step(Halves(), objective="reverse"), images, seed=1)
    assert {name.partition("_")[0] for name in reverse.by_pixels} == {"known"}
    # Half of the dimensions are known.
    assert reverse.by_pixels["known_bits_per_dim"] == pytest.approx(2 * reverse.bits_per_dim)
    alone = evaluate_held_out(make_step(), images, seed=1)
    assert alone.summary == f"whole {alone.bits_per_dim:.4f} bits/dim, {alone.nats_per_dim * 192:,.1f} nats"
