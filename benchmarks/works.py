"""The works that `speed.py` times, such as training steps and completions, by condvae and by the reference."""

from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias

import numpy as np
import torch
from torch import Tensor, nn

from benchmarks import flops
from benchmarks.reference import Objective, PlainTraining, plain_copy, plain_known
from condvae.conditional import ConditionalVAE, PartialConfig
from condvae.data import LevelBatch
from condvae.likelihood import LogisticMixture
from condvae.observe import Freeform, Observation
from condvae.observe.batch import Batch
from condvae.runtime.pixels import from_uint8
from condvae.runtime.ranks import World
from condvae.sampling.sampler import Sampler
from condvae.training.capture import Capture, why_not_fused
from condvae.training.memory import recomputes
from condvae.training.optimiser import Rule
from condvae.training.step import MicroBatch, TrainingPrecision, TrainingStep
from condvae.training.task import ConditionalTraining, Pretraining, TrainingTask
from condvae.vdvae import VDVAE, VDVAEConfig, preset
from condvae.vdvae.blocks import Block, recompute_activations
from condvae.vdvae.decoder import LatentBlock

Kind: TypeAlias = Literal["elbo", "ipa", "ipa-r", "complete", "masks", "start"]
LR, NEVER = 1e-5, 1e9  # weights hardly change, and neither implementation can save time by skipping an update


@dataclass(frozen=True, kw_only=True)
class Target:
    """A speed target: the value `must` is required, and the value `reach` is a goal beyond it."""

    unit: Literal["/s", "ms", "x", "s"]
    must: float
    reach: float
    memory_gb: float | None = None

    def __str__(self) -> str:
        memory = f", {self.memory_gb:g} GB" if self.memory_gb else ""
        return f"{self.must:,g} ({self.reach:,g}) {self.unit}{memory}"

    def judge(self, value: float | None, memory_gb: float | None) -> str:
        """Return which target the value meets: "reach", "must", or "no" for neither; "?" if there is no value."""
        if value is None:
            return "?"
        if self.memory_gb is not None and (memory_gb is None or memory_gb > self.memory_gb):
            return "no"
        if self.unit in ("ms", "s"):  # lower is better
            return "reach" if value <= self.reach else "must" if value <= self.must else "no"
        return "reach" if value >= self.reach else "must" if value >= self.must else "no"


@dataclass(frozen=True, kw_only=True)
class Work:
    """Work to time, such as a training step. It becomes one row of the table."""

    name: str
    kind: Kind
    batch: int
    """Number of images in a training step, number of completions of one image, or number of holes."""
    network: str = "cifar10"
    target: Target | None = None

    @property
    def config(self) -> VDVAEConfig:
        if self.network == "demo32":  # our own network, with the scales and likelihood that the reference supports
            return preset("demo32", scales="log_std", likelihood=LogisticMixture())
        return preset(self.network)

    @property
    def flop(self) -> float:
        """Floating-point operations per image; 0 if they are not counted."""
        config = self.config
        if self.kind == "elbo":
            return flops.elbo_step(config)
        if self.kind == "ipa":
            return flops.ipa_step(config)
        if self.kind == "ipa-r":
            return flops.ipa_r_step(config)
        return flops.completion(config) + flops.encoding(config) / self.batch if self.kind == "complete" else 0


ON_GPU = (
    Work(name="ipa-128", kind="ipa", batch=128, target=Target(unit="/s", must=1500, reach=3000, memory_gb=20)),
    Work(name="ipa-30", kind="ipa", batch=30, target=Target(unit="/s", must=900, reach=1400)),
    Work(name="elbo-128", kind="elbo", batch=128, target=Target(unit="x", must=3, reach=5)),
    Work(name="ipa-r-128", kind="ipa-r", batch=128),
    Work(name="complete-100", kind="complete", batch=100, target=Target(unit="/s", must=3600, reach=9000)),
    Work(name="complete-1", kind="complete", batch=1, target=Target(unit="ms", must=5.5, reach=3)),
    Work(
        name="ffhq-ipa-3",
        kind="ipa",
        batch=3,
        network="ffhq256",
        target=Target(unit="/s", must=25, reach=60, memory_gb=30),
    ),
    Work(name="masks-32", kind="masks", batch=4096, target=Target(unit="/s", must=50_000, reach=500_000)),
    Work(name="masks-32", kind="masks", batch=128, target=Target(unit="/s", must=50_000, reach=500_000)),
    Work(name="start", kind="start", batch=30, target=Target(unit="s", must=90, reach=30)),
)
_SMALL = {"complete-1": 1, "ipa-30": 4, "start": 4, "ffhq-ipa-3": 3}
ON_CPU = tuple(
    Work(name=w.name, kind=w.kind, batch=w.batch if w.kind == "masks" else _SMALL.get(w.name, 8), network="demo32")
    for w in ON_GPU
    if w.batch != 4096
)


@dataclass(frozen=True, kw_only=True)
class Variant:
    """The optimisations that condvae uses. By default, it uses all that the device supports."""

    precision: TrainingPrecision | None = None
    fused: bool | None = None
    graph: bool = True
    compiled: bool = False
    streams: int | None = None
    recompute: bool | None = None


class Runner(Protocol):
    """A function to time."""

    items: int
    """Number of images, completions or holes per call."""

    def __call__(self) -> object: ...

    def remarks(self) -> list[str]:
        """Return remarks on the calls so far, for the table."""


def make_model(config: VDVAEConfig, *, conditional: bool) -> VDVAE | ConditionalVAE:
    """Make a model with random weights, also for layers whose weights are zero at the start of training."""
    torch.manual_seed(0)
    vae = VDVAE(config)
    for module in vae.modules():
        if isinstance(module, LatentBlock):
            nn.init.normal_(module.prior.c4.weight, std=0.01)
    for start in vae.decoder.starts.values():
        nn.init.normal_(start, std=0.1)
    return ConditionalVAE(vae, PartialConfig(channels=config.channels + 1)) if conditional else vae


def random_levels(work: Work, device: torch.device, batch: int) -> Tensor:
    config, generator = work.config, torch.Generator().manual_seed(1)
    shape = (batch, config.channels, config.image_size, config.image_size)
    return torch.randint(256, shape, dtype=torch.uint8, generator=generator).to(device)


class OurTraining:
    """Condvae's training step; conditional steps also draw freeform holes."""

    def __init__(self, work: Work, device: torch.device, variant: Variant) -> None:
        model = make_model(work.config, conditional=work.kind != "elbo")
        model.to(device, memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.task: TrainingTask
        if isinstance(model, VDVAE):
            self.task = Pretraining(model)
        else:
            objective: Literal["forward", "reverse"] = "reverse" if work.kind == "ipa-r" else "forward"
            self.task = ConditionalTraining(model, Freeform(), objective=objective)
        choice: Literal["auto", "yes", "no"] = "auto"
        if variant.recompute is not None:
            choice = "yes" if variant.recompute else "no"
        if recomputes(choice, self.task, work.batch, device):
            recompute_activations(model if self.task.needs_whole_network else model.partial)  # type: ignore[arg-type]
        if variant.compiled:
            compile_blocks(model)
        precision: TrainingPrecision = variant.precision or ("bf16" if device.type == "cuda" else "fp32")
        fused = why_not_fused(device, precision) is None if variant.fused is None else variant.fused
        more = {} if variant.streams is None else {"streams": variant.streams}
        self.step = TrainingStep(
            self.task,
            Rule(skip_above=NEVER),
            World(0, 1, device),
            precision=precision,
            flip=False,
            fused=fused,
            **more,
        )
        self.messages: list[str] = []
        graph = variant.graph and device.type == "cuda"
        self.call = Capture(self.step, self.messages.append) if graph else self.step
        self.items, self.levels = work.batch, LevelBatch(random_levels(work, device, work.batch), None, None)
        self.generator, self.lr, self.done = torch.Generator(device), torch.full((), LR, device=device), 0

    def __call__(self) -> None:
        self.task.prepare(self.done)
        self.generator.manual_seed(self.done)
        self.call([MicroBatch(self.levels, self.generator)], self.lr, shards=1)
        self.done += 1

    def remarks(self) -> list[str]:
        progress = self.step.report()
        skipped = [f"{progress.skipped} of {progress.steps} updates were skipped"] if progress.skipped else []
        return [*self.messages, *skipped]


def compile_blocks(model: nn.Module) -> None:
    """Apply torch.compile to every block; dynamo compiles once for all blocks of the same shape."""
    torch._dynamo.config.recompile_limit = 1024
    torch._dynamo.config.accumulated_recompile_limit = 4096
    for module in model.modules():
        if isinstance(module, LatentBlock):  # it calls only `hidden` of its prior block
            module.prior.hidden = torch.compile(module.prior.hidden, dynamic=False)  # type: ignore[method-assign]
        if isinstance(module, Block):
            module.compile(dynamic=False)


class TheirTraining:
    """The reference's training step."""

    def __init__(self, work: Work, device: torch.device) -> None:
        objective: Objective = work.kind  # type: ignore[assignment]
        plain = plain_copy(make_model(work.config, conditional=objective != "elbo")).to(device)
        self.step = PlainTraining(plain, objective, lr=LR, skip_above=NEVER)
        self.items, self.levels, self.loss = work.batch, random_levels(work, device, work.batch), 0.0

    def __call__(self) -> None:
        self.loss = self.step(self.levels)

    def remarks(self) -> list[str]:
        return [] if np.isfinite(self.loss) else ["the reference's loss is not finite"]


def one_observation(work: Work, device: torch.device, model: ConditionalVAE) -> Observation:
    batch = Batch(x=from_uint8(random_levels(work, device, 1)))
    generator = torch.Generator(device).manual_seed(2)
    return Freeform().observe(batch, normalise=model.artifact.normalise, generator=generator)


class OurCompletion:
    """Condvae's completions, from an observation on the device to 8-bit images on the device."""

    def __init__(self, work: Work, device: torch.device) -> None:
        model = make_model(work.config, conditional=True).to(device).eval()
        assert isinstance(model, ConditionalVAE)
        self.items, self.seed, self.messages = work.batch, 0, list[str]()
        self.observation = one_observation(work, device, model)
        self.sampler = Sampler(model, say=self.messages.append)

    def __call__(self) -> Tensor:
        self.seed += 1
        return self.sampler(self.observation, self.items, seed=self.seed, pixels="sample")

    def remarks(self) -> list[str]:
        return [f"sampler precision: {self.sampler.precision}", *self.messages]


class TheirCompletion:
    """The reference's completions."""

    def __init__(self, work: Work, device: torch.device) -> None:
        model = make_model(work.config, conditional=True).to(device)
        assert isinstance(model, ConditionalVAE)
        self.items, self.y = work.batch, one_observation(work, device, model).y
        self.model = plain_copy(model).eval()

    def __call__(self) -> Tensor:
        return self.model.complete(self.y, self.items)

    def remarks(self) -> list[str]:
        return []


class OurMasks:
    """Condvae's freeform holes, all drawn in one call."""

    def __init__(self, work: Work, device: torch.device) -> None:
        self.items, self.size = work.batch, work.config.image_size
        self.generator = torch.Generator(device).manual_seed(0)

    def __call__(self) -> Tensor:
        return Freeform().draw(self.items, self.size, self.generator)

    def remarks(self) -> list[str]:
        return []


class TheirMasks:
    """The reference's freeform holes, drawn one by one on the CPU."""

    def __init__(self, work: Work) -> None:
        self.items, self.size, self.rng = min(work.batch, 64), work.config.image_size, np.random.default_rng(0)

    def __call__(self) -> Tensor:
        return plain_known(self.rng, self.items, self.size)

    def remarks(self) -> list[str]:
        return []


def ours(work: Work, device: torch.device, variant: Variant) -> Runner:
    if work.kind == "complete":
        return OurCompletion(work, device)
    return OurMasks(work, device) if work.kind == "masks" else OurTraining(work, device, variant)


def theirs(work: Work, device: torch.device) -> Runner:
    if work.kind == "complete":
        return TheirCompletion(work, device)
    return TheirMasks(work) if work.kind == "masks" else TheirTraining(work, device)
