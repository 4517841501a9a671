"""Steps with fused kernels and CUDA graphs give the results of plain steps, and plain steps replace them if needed."""

import warnings

import pytest
import torch
from helpers.models import generator, small_vae
from helpers.tiny_baselines import TINY, WITH_CRITIC, micro_batch, tiny_step

from condvae import kernels
from condvae.conditional import ConditionalVAE, PartialConfig
from condvae.data import LevelBatch
from condvae.observe import Edges, Freeform, Halves
from condvae.runtime.ranks import World
from condvae.training.capture import Capture, why_not_fused
from condvae.training.held_out_bound import evaluate_held_out
from condvae.training.optimiser import Rule
from condvae.training.step import MicroBatch, TrainingPrecision, TrainingStep
from condvae.training.task import ConditionalTraining, Pretraining, TrainingTask
from condvae.vdvae import VDVAE, preset

CPU = torch.device("cpu")
gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


def levels(n: int, size: int = 8, seed: int = 0, *, paired: bool = False) -> LevelBatch:
    images = torch.randint(256, (n, 3, size, size), dtype=torch.uint8, generator=generator(seed))
    return LevelBatch(images, None, 255 * (images > 127).to(torch.uint8) if paired else None)


def make(
    kind: str,
    device: torch.device,
    *,
    precision: TrainingPrecision = "fp32",
    fused: bool = False,
    network: str = "tiny",
    streams: int = 3,
) -> TrainingStep:
    torch.manual_seed(0)
    # A deep network keeps its initial weights, because larger weights would amplify rounding errors.
    vae = small_vae() if network == "tiny" else VDVAE(preset(network))
    task: TrainingTask = Pretraining(vae)
    if kind != "elbo":
        processes = {"forward": Freeform(), "reverse": Halves(), "edges": Edges(), "given edges": Edges(gaps=3)}
        process = processes[kind]
        model = ConditionalVAE(vae, PartialConfig(channels=process.channels(3)))
        if kind == "reverse":
            task = ConditionalTraining(model, process, objective="reverse", anneal=5)
        else:
            task = ConditionalTraining(model, process)
            task.pictures_given = kind == "given edges"
    task.model.to(device, memory_format=torch.channels_last)  # type: ignore[call-overload]
    rule = Rule(clip=200, skip_above=1e6, ema=0.9)
    world = World(0, 1, device)
    return TrainingStep(task, rule, world, precision=precision, flip=True, fused=fused, streams=streams)


def train(
    step: TrainingStep, steps: int, *, capture: bool, batch: int = 4, size: int = 8
) -> tuple[list[float], list[str]]:
    said: list[str] = []
    call = Capture(step, said.append) if capture else step
    device = step.world.device
    draws, lr, losses = torch.Generator(device), torch.tensor(1e-3, device=device), []
    for number in range(steps):
        step.task.prepare(number)
        draws.manual_seed(number)
        paired = getattr(step.task, "pictures_given", False)
        call([MicroBatch(levels(batch, size, seed=number, paired=paired).to(device), draws)], lr, shards=1)
        losses.append(step.report().loss)
    return losses, said


def test_on_a_cpu_steps_run_directly_with_one_message() -> None:
    plain, captured = make("elbo", CPU), make("elbo", CPU)
    expected, _ = train(plain, 3, capture=False)
    losses, said = train(captured, 3, capture=True)
    assert losses == expected
    assert torch.equal(plain.flat.values, captured.flat.values)
    assert len(said) == 1
    assert "GPU" in said[0]


@pytest.mark.parametrize("kind", WITH_CRITIC)
def test_on_a_cpu_steps_with_a_critic_run_directly(kind: str) -> None:
    plain, captured = tiny_step(kind), tiny_step(kind)
    call = Capture(captured, lambda line: None)
    for seed in range(2):
        for one in (plain, call):
            one([micro_batch(seed)], torch.tensor(1e-3), shards=1)
    assert plain.report() == captured.report()
    assert torch.equal(plain.buffers.values, captured.buffers.values)


def test_why_kernels_are_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "GPU" in str(why_not_fused(CPU, "bf16"))
    assert "bf16" in str(why_not_fused(torch.device("cuda"), "fp32"))
    monkeypatch.setattr(kernels, "installed", lambda: False)
    assert "Triton" in str(why_not_fused(torch.device("cuda"), "bf16"))


@gpu
@pytest.mark.parametrize("kind", ["elbo", "forward", "reverse", "given edges"])
def test_recorded_steps_equal_direct_steps(kind: str) -> None:
    """Both use the same kernels, so weights, moments and averages agree bit for bit."""
    device = torch.device("cuda", 0)
    steps = [make(kind, device, precision="bf16", fused=True) for _ in range(2)]
    for step, capture in zip(steps, (False, True), strict=True):
        losses, said = train(step, 12, capture=capture)
        assert not said
        assert all(loss == loss for loss in losses)
    one, other = (step.optimiser.vectors() for step in steps)
    assert all(torch.equal(one[name], other[name]) for name in one)


@gpu
@pytest.mark.parametrize("kind", ["elbo", "forward", "reverse"])
def test_fast_and_plain_steps_agree_over_a_hundred_steps(kind: str) -> None:
    """Compare fused bf16 kernels in a graph with plain torch in bf16 and float32, on the same data and noise."""
    device = torch.device("cuda", 0)
    runs: dict[str, torch.Tensor] = {}
    variants: list[tuple[str, TrainingPrecision, bool]] = [
        ("fp32", "fp32", False),
        ("bf16", "bf16", False),
        ("fast", "bf16", True),
    ]
    for name, precision, fast in variants:
        step = make(kind, device, precision=precision, fused=fast, network="small32")
        runs[name] = torch.tensor(train(step, 100, capture=fast, batch=16, size=32)[0])
    assert all(torch.isfinite(losses).all() for losses in runs.values())
    scale = runs["fp32"].abs().mean()
    by_precision, by_engine = (float((runs[name] - runs["fp32"]).abs().mean() / scale) for name in ("bf16", "fast"))
    # The fast path is about as close to float32 as torch's own bf16, whose rounding is 2^-8.
    assert by_engine < max(3 * by_precision, 0.01)


def gradients_of(step: TrainingStep, steps: int, *, capture: bool, batch: int) -> list[torch.Tensor]:
    """Return the gradients of each step at constant weights; images and random numbers repeat every four steps."""
    call = Capture(step, lambda line: pytest.fail(line)) if capture else step
    device = step.world.device
    size = step.task.image_size
    draws, still, gradients = torch.Generator(device), torch.zeros((), device=device), []
    for number in range(steps):
        draws.manual_seed(number % 4)
        call([MicroBatch(levels(batch, size, seed=number % 4).to(device), draws)], still, shards=1)
        gradients.append(step.flat.gradients.clone())
    return gradients


@gpu
@pytest.mark.parametrize("kind", ["forward", "elbo", "reverse"])
def test_kernels_that_run_beside_each_other_disturb_none(kind: str) -> None:
    """Gradients with graph, streams and look-ahead equal those without, bit for bit, at a size that fills the GPU.

    A race only shows now and then, hence many steps; the losses would hardly show it.
    """
    device = torch.device("cuda", 0)
    alone = make(kind, device, precision="bf16", fused=True, network="cifar10", streams=0)
    assert alone.fused is not None
    alone.fused.ahead.streams = []
    expected = gradients_of(alone, 4, capture=False, batch=30)
    together = make(kind, device, precision="bf16", fused=True, network="cifar10")
    got = gradients_of(together, 40, capture=True, batch=30)
    assert [number for number, one in enumerate(got) if not torch.equal(one, expected[number % 4])] == []


@gpu
def test_a_step_that_cannot_be_recorded_runs_directly_with_one_message() -> None:
    device = torch.device("cuda", 0)
    step = make("edges", device, precision="bf16", fused=True)  # the edge detector waits for the device
    losses, said = train(step, 4, capture=True)
    assert len(said) == 1
    assert "could not be recorded" in said[0]
    assert all(loss == loss for loss in losses)


@gpu
def test_several_micro_batches_and_another_shape() -> None:
    device = torch.device("cuda", 0)
    steps = [make("forward", device, precision="bf16", fused=True) for _ in range(2)]
    said: list[str] = []
    for step, capture in zip(steps, (False, True), strict=True):
        call = Capture(step, said.append) if capture else step
        draws, lr = [torch.Generator(device) for _ in range(2)], torch.tensor(1e-3, device=device)
        for number in range(6):
            n = 3 if number == 4 else 4  # the graphs were recorded for batches of 4
            batches = []
            for i, draw in enumerate(draws):
                draw.manual_seed(2 * number + i)
                batches.append(MicroBatch(levels(n, seed=number + 10 * i).to(device), draw))
            call(batches, lr, shards=2)
    assert torch.equal(steps[0].flat.values, steps[1].flat.values)
    assert len(said) == 1
    assert "another shape" in said[0]


@gpu
def test_evaluation_uses_the_current_weights() -> None:
    from condvae.data import ImageSet

    device = torch.device("cuda", 0)
    step = make("elbo", device, precision="bf16", fused=True)
    plain = make("elbo", device, precision="bf16")
    array = levels(20).images.permute(0, 2, 3, 1).contiguous().numpy()
    held_out = ImageSet(images=array, rows=torch.arange(20).numpy())
    first = evaluate_held_out(step, held_out, seed=0).nats_per_dim
    assert first == pytest.approx(evaluate_held_out(plain, held_out, seed=0).nats_per_dim, rel=0.02)
    with step.flat.replaced_by(torch.zeros_like(step.flat.values)):
        assert evaluate_held_out(step, held_out, seed=0).nats_per_dim != first
    assert evaluate_held_out(step, held_out, seed=0).nats_per_dim == first


@gpu
@pytest.mark.parametrize("kind", TINY)
def test_recorded_steps_of_baselines_equal_direct_steps(kind: str) -> None:
    """Some of torch's backward passes add numbers in any order, so both agree within rounding errors only."""
    world = World(0, 1, torch.device("cuda", 0))
    direct, recorded = (tiny_step(kind, world=world, process=Freeform(), precision="bf16") for _ in range(2))
    before = {name: learner.flat.values.clone() for name, learner in direct.learners.items()}
    said: list[str] = []
    capture, lr = Capture(recorded, said.append), torch.tensor(1e-3, device=world.device)
    for seed in range(6):
        for call in (direct, capture):
            call([micro_batch(seed, device=world.device)], lr, shards=1)
        one, other = direct.report(), recorded.report()
        assert other.skipped == 0 and other.loss == pytest.approx(one.loss, rel=0.02)
        assert other.critic == pytest.approx(one.critic, rel=0.1, abs=0.02)
    assert not said and capture.recorded is not None
    for name, learner in direct.learners.items():
        change = learner.flat.values - before[name]
        difference = learner.flat.values - recorded.learners[name].flat.values
        assert difference.norm() < 0.1 * change.norm(), name
    torch.testing.assert_close(recorded.buffers.values, direct.buffers.values, rtol=0.05, atol=0.01)


@gpu
@pytest.mark.parametrize("kind", WITH_CRITIC)
def test_recorded_micro_batches_of_baselines_and_a_nan(kind: str) -> None:
    """Each replayed graph has the random numbers of its own micro-batch, and a NaN sets the buffers back."""
    world = World(0, 1, torch.device("cuda", 0))
    direct, recorded = (tiny_step(kind, world=world, precision="bf16") for _ in range(2))
    capture = Capture(recorded, lambda line: pytest.fail(line))
    still = torch.zeros((), device=world.device)
    for seed in range(4):
        for call in (direct, capture):
            call([micro_batch(2 * seed + part, device=world.device) for part in range(2)], still, shards=2)
        one, other = direct.report(), recorded.report()
        assert (other.loss, other.critic["loss"]) == pytest.approx((one.loss, one.critic["loss"]), rel=0.02)
    kept = recorded.buffers.values.clone()
    recorded.flat.values.fill_(torch.nan)
    capture([micro_batch(part, device=world.device) for part in range(2)], still, shards=2)
    assert torch.equal(recorded.buffers.values, kept)
    assert (recorded.report().skipped, recorded.streak.item()) == (1, 1)


@gpu
@pytest.mark.parametrize("kind", TINY)
def test_a_step_of_a_baseline_never_waits_for_the_device(kind: str) -> None:
    device = torch.device("cuda", 0)
    step = tiny_step(kind, world=World(0, 1, device), precision="bf16")
    batches, lr = [micro_batch(seed, device=device) for seed in range(2)], torch.tensor(1e-3, device=device)
    step(batches[:1], lr, shards=1)
    torch.cuda.synchronize()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch warns that this mode is a prototype
            torch.cuda.set_sync_debug_mode("error")
        step(batches[1:], lr, shards=1)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert step.report().steps == 2
