"""The training options, which are stored in the run folder. Their docstrings are the texts of `--help`."""

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from condvae.runtime.checks import check_seed, check_whole, option_name
from condvae.training.schedule import Schedule

if TYPE_CHECKING:
    from condvae.training.optimiser import Rule


@dataclass(frozen=True, kw_only=True)
class TrainingOptions:
    """The options that `pretrain` and `train` share."""

    verb: ClassVar[str]

    data: tuple[Path, ...]
    """Training images: the path of a data set in any layout that `condvae.data.open_data` reads, or cifar10 after
    `condvae fetch cifar10`. Several data sets are joined."""
    out: Path
    """The run folder, for the log, checkpoints, contact sheets and the finished model.safetensors."""
    preset: str | None = None
    """Use the default options of this preset, such as the paper's learning rates and batch sizes. Options that are
    given override them."""
    resume: bool = False
    """Continue from the last checkpoint in the run folder; if there is none, start a new run. Give the same options as
    in the first call."""

    size: int | None = None
    """Crop the middle square of each image, and resize it to N x N pixels."""
    validation: int | None = None
    """How many training images to hold out. The best weights are chosen by their loss on these images. If not given, a
    tenth, but at most 5,000."""
    split_seed: int = 5
    """The seed that decides which images are held out, if the data set has no validation images of its own."""
    flip: Literal["auto", "yes", "no"] = "auto"
    """Mirror half of the training images, chosen at random. auto: yes, except for data such as digits and x-rays."""
    residency: Literal["auto", "device", "stream"] = "auto"
    """Where the training images are kept: in the memory of the device (device); or in main memory or on disk, from
    where threads load each batch ahead of time (stream). auto: device if the images take less than a third of the
    device's free memory, else stream."""
    workers: int = 2
    """How many threads load images ahead of time, if images are not kept in the memory of the device."""

    batch: int = 32
    """How many images each update uses, all ranks together."""
    micro_batch: int | None = None
    """How many images one rank passes through the network at a time. Gradients are added up until --batch images are
    done. Smaller values need less memory. If not given, --batch divided by the number of ranks. For the same
    micro-batch, the result does not depend on the number of ranks."""
    steps: int | None = None
    """How many updates to make. Give --steps, --minutes or both; training stops at whichever comes first."""
    minutes: float | None = None
    """How many minutes training may take, including the last evaluation and writing the model. This is checked after
    each step: the first evaluation and one step are always made, however long they take. Give --steps, --minutes or
    both; training stops at whichever comes first."""

    lr: float = 2e-4
    """The learning rate after the warm-up. --schedule can lower it later."""
    schedule: Literal["constant", "cosine", "linear"] = "constant"
    """How the learning rate changes after the warm-up. constant: not at all. cosine, linear: it falls along half a
    cosine or a straight line until --steps or --minutes are used up."""
    warm_up: int = 100
    """The number of steps, at the start of training, over which the learning rate rises from zero."""
    final_lr: float = 0.0
    """The learning rate at the end of a cosine or linear schedule, as a fraction of --lr."""
    optimiser: Literal["adamw", "adamax", "muon"] = "adamw"
    """The optimiser: AdamW, as in the paper; Adamax; or Muon for the weights of convolutions and AdamW for all
    others."""
    beta1: float = 0.9
    """Decay of the optimiser's moving average of gradients."""
    beta2: float = 0.9
    """Decay of the optimiser's moving average of squared gradients (adamw), or of its moving maximum of gradient
    magnitudes (adamax)."""
    weight_decay: float = 0.01
    """Decoupled weight decay: each update shrinks the weights by this factor times the learning rate."""
    clip: float = 200.0
    """Gradient clipping: a gradient with a norm above this is scaled down to this norm."""
    skip_above: float = 400.0
    """Skip an update if the norm of its gradient is above this. An update is always skipped if its loss or its gradient
    is not finite."""
    ema: float = 0.9999
    """Decay of the moving average of the weights, per update. The averaged weights are evaluated and saved. The decay
    is smaller during the first updates."""
    patience: int = 100
    """After this many skipped updates in a row, return to the last good checkpoint and halve the learning rate. An
    update is skipped if its gradient is not finite or larger than --skip-above. Training fails if this is needed a
    fourth time."""

    seed: int = 0
    """The seed of everything that is drawn at random; the same seed gives the same result."""
    device: str = "auto"
    """Where to compute. auto uses a GPU if there is one. On a CPU, repeating a call gives the same result bit for
    bit."""
    precision: Literal["auto", "fp32", "bf16"] = "auto"
    """Precision in which the networks compute: float32 (fp32); or bfloat16 (bf16), with KLs and likelihoods in float32.
    auto: bf16 on a GPU, fp32 on a CPU."""
    recompute: Literal["auto", "yes", "no"] = "auto"
    """Save memory by computing activations a second time in the backward pass instead of storing them, which is slower.
    auto: yes if the activations would take more than 60 % of the GPU's memory, or, on a CPU, if images are 256 x 256
    pixels or larger."""
    engine: Literal["auto", "plain"] = "auto"
    """Implementation of the training step. auto: fused kernels and CUDA graphs, if the GPU and the precision allow
    them. plain: standard torch operations, which are slower and serve as the reference implementation."""

    log_every: int = 50
    """How many steps lie between two lines of the log file, log.jsonl. Divergence and the time limit (--minutes) are
    checked at the same steps."""
    evaluate_every: int = 1000
    """How many steps lie between two evaluations on held-out images."""
    evaluate_on: int = 1000
    """How many of the held-out images each evaluation uses."""
    checkpoint_every: int = 1000
    """How many steps lie between two checkpoints."""
    keep: int = 3
    """How many of the newest checkpoints to keep. The best checkpoint is always kept too."""
    sheet_every: int = 5000
    """How many steps lie between two contact sheets. A sheet is also drawn before the first step and at the end; with
    0, only these two are drawn."""
    snapshot_at: tuple[int, ...] = ()
    """Also write the model, with averaged weights, after each of these numbers of steps: snapshots/step-N.safetensors
    in the run folder. With a constant --schedule, a snapshot is the result of a shorter run."""
    snapshot_minutes: tuple[float, ...] = ()
    """Also write a snapshot at the step after which a run of each of these numbers of minutes would end."""
    tensorboard: bool = False
    """Write TensorBoard event files into the run folder."""
    wandb: str | None = None
    """Log to the Weights & Biases project of this name."""

    # Options that may differ when a run is resumed. Paths may differ because data is recognised by its content, and
    # the run folder has copies of the models that the run started from. Steps and minutes may differ because a run may
    # be prolonged. The others do not change any training step.
    MAY_CHANGE: ClassVar[frozenset[str]] = frozenset(
        {
            "data", "artifact", "init", "out", "preset", "resume", "residency", "workers", "steps", "minutes", "device",
            "engine", "log_every", "evaluate_every", "checkpoint_every", "keep", "sheet_every", "snapshot_at",
            "snapshot_minutes", "tensorboard", "wandb",
        }
    )  # fmt: skip

    def __post_init__(self) -> None:
        """Convert fields that were given in a simpler type: text to a path, and one data set or process to a tuple."""
        data: Any = self.data
        if isinstance(data, str | Path | Sequence):
            several = [data] if isinstance(data, str | Path) else data
            object.__setattr__(self, "data", tuple(map(Path, several)))
        for name in ("snapshot_at", "snapshot_minutes"):
            if isinstance(one := getattr(self, name), int | float):
                object.__setattr__(self, name, (one,))
        for name, made in (("out", Path), ("artifact", Path), ("init", Path), ("observe", lambda text: (text,))):
            if isinstance(value := getattr(self, name, None), str):
                object.__setattr__(self, name, made(value))

    @property
    def rule(self) -> "Rule":
        from condvae.training.optimiser import Rule  # imported late: it needs torch, and --help must be quick

        return Rule(
            kind=self.optimiser,
            beta1=self.beta1,
            beta2=self.beta2,
            weight_decay=self.weight_decay,
            clip=self.clip,
            skip_above=self.skip_above,
            ema=self.ema,
        )

    @property
    def learning_schedule(self) -> Schedule:
        return Schedule(decay=self.schedule, warm_up=self.warm_up, final=self.final_lr)

    def check(self) -> None:
        """Raise a ValueError if an option has an invalid value. Files are not checked."""
        if not self.data:
            raise ValueError("no data was given: give --data with a folder or zip of images, or another data set")
        counts = (
            "batch",
            "log_every",
            "evaluate_every",
            "evaluate_on",
            "checkpoint_every",
            "keep",
            "patience",
            "workers",
        )
        for name in counts:
            check_whole(getattr(self, name), option_name(name), least=1)
        for name in ("seed", "split_seed"):
            check_seed(getattr(self, name), option_name(name))
        check_whole(self.sheet_every, "--sheet-every")
        for name in ("micro_batch", "steps", "size"):
            if getattr(self, name) is not None:
                check_whole(getattr(self, name), option_name(name), least=1)
        for step in self.snapshot_at:
            check_whole(step, "--snapshot-at", least=1)
            if self.steps is not None and step > self.steps:
                raise ValueError(f"--snapshot-at is {step}, but --steps is {self.steps}: give a smaller number")
        for minutes in self.snapshot_minutes:
            if not 0 < minutes <= (self.minutes or math.inf):
                most = "" if self.minutes is None else f", at most --minutes {self.minutes:g}"
                raise ValueError(f"--snapshot-minutes is {minutes:g}, expected a positive number{most}")
        if not 0 < self.lr < 1e3:
            raise ValueError(f"the learning rate is {self.lr}, expected a positive number, such as 2e-4")
        _ = self.rule, self.learning_schedule

    def micro_batches(self, ranks: int) -> tuple[int, int]:
        """Return the size of a micro-batch in images, and how many micro-batches each rank computes per update."""
        micro = self.micro_batch if self.micro_batch is not None else max(self.batch // ranks, 1)
        if micro < 1 or self.batch % (micro * ranks):
            raise ValueError(
                f"a batch of {self.batch} images cannot be split over {ranks} {'rank' if ranks == 1 else 'ranks'} in "
                f"micro-batches of {micro}: choose a batch that is a multiple of {micro} x {ranks}"
            )
        return micro, self.batch // (micro * ranks)

    def to_dict(self) -> dict[str, Any]:
        """Return all options as plain data for JSON."""
        plain = dataclasses.asdict(self)
        return {"verb": self.verb, **{key: _plain(value) for key, value in plain.items()}}

    def for_record(self) -> dict[str, Any]:
        """Return the options that are not None, with paths shortened to their last part, for the record of a model."""
        plain = dataclasses.asdict(self)
        kept = {key: value for key, value in plain.items() if value is not None and key not in ("out", "resume")}
        return {key: _plain(_name_only(value)) for key, value in kept.items()}

    def differences(self, stored: dict[str, Any]) -> list[str]:
        """List the options that affect training and differ from those of a stored run, as in "lr is 0.1, was 0.2"."""
        mine = self.to_dict()
        keys = sorted((mine.keys() | stored.keys()) - self.MAY_CHANGE - {"data_summary", "configurations"})
        return [f"{key} is {mine.get(key)}, was {stored.get(key)}" for key in keys if mine.get(key) != stored.get(key)]


@dataclass(frozen=True, kw_only=True)
class PretrainOptions(TrainingOptions):
    """The options of `pretrain`, which trains an unconditional VAE."""

    verb: ClassVar[str] = "pretrain"

    network: str = "small32"
    """The network: a name from `condvae.vdvae.PRESETS`, or a JSON file with its configuration."""
    bits: Literal[5, 8] | None = None
    """Bit depth of the likelihood: 8 bits per colour channel, or 5, for which images are rounded down to 32 grey
    levels. If not given, as in the configuration of the network."""
    normalise: Literal["auto", "data", "network"] = "auto"
    """Which shift and scale normalise the network's inputs: those measured on the training images (data), or those in
    the configuration of the network (network). auto means network for `condvae.vdvae.PUBLIC_PRESETS`, which come from
    the public code, and data for all other networks."""
    init: Path | None = None
    """Start from the weights of this model instead of random weights: a model file, a run folder, or a name. The
    network and the normalisation of that model are used."""


@dataclass(frozen=True, kw_only=True)
class TrainOptions(TrainingOptions):
    """The options of `train`, which trains a partial encoder, a whole conditional VAE from scratch, or a baseline."""

    verb: ClassVar[str] = "train"

    artifact: Path | None = None
    """The pretrained VAE to freeze: a model file, a run folder, or a name. It may have been trained on other images.
    Its normalisation is kept."""
    scratch: str | None = None
    """Train a whole conditional VAE from random weights, without an artifact, with this network: a name from
    `condvae.vdvae.PRESETS`, or a JSON file with its configuration."""
    baseline: str | None = None
    """Train another method instead of a VAE, for comparisons: a name from `condvae.completers.LEARNED_PRESETS`, or a
    JSON file with its configuration. A name also sets the training options, like a preset of this name."""
    init: Path | None = None
    """Continue from the weights of this conditional model: a model file, a run folder, or a name. Its artifact and its
    form (direct or relative) are used, and also its observation process, unless `observe` is given."""
    observe: tuple[str, ...] = ()
    """The observation process: names from `condvae.observe.PROCESSES`, with parameters as in freeform,low=0.2,high=0.8.
    Several processes are mixed, as in freeform,weight=2 boxes halves. If none is given, freeform is used."""
    objective: Literal["forward", "reverse"] = "forward"
    """The training objective. forward: the forward KL (IPA), with which the partial encoder covers every plausible
    completion. reverse: the reverse KL (IPA-R), with which it may miss some."""
    form: Literal["direct", "relative"] = "direct"
    """What the partial encoder predicts. direct: the means and standard deviations of the latents, as in the paper.
    relative: how they differ from the means and standard deviations of the prior."""
    start: Literal["auto", "encoder", "random"] = "auto"
    """Initial weights of the partial encoder: copied from the artifact's encoder (encoder), or random (random). auto:
    encoder if there is an artifact, the observation contains an image, and the objective is reverse or the form
    relative; otherwise random."""
    anneal: int = 0
    """For the reverse objective: over how many steps the weight of the likelihood in the bound rises from 0 to 1."""


VAE_OPTIONS = ("objective", "form", "start", "anneal", "recompute")
"""The options of `train` that apply to VAEs only."""


def _name_only(value: Any) -> Any:
    if isinstance(value, Path):
        return value.name
    return tuple(_name_only(item) for item in value) if isinstance(value, tuple) else value


def _plain(value: Any) -> Any:
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return value
