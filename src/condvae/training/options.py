"""The options of training: plain data that is stored in the run folder. Their docstrings are the help of `--help`."""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from condvae.runtime.checks import check_seed, check_whole
from condvae.training.schedule import Schedule

if TYPE_CHECKING:
    from condvae.training.optimiser import Rule


@dataclass(frozen=True, kw_only=True)
class TrainingOptions:
    """The options that `pretrain` and `train` share."""

    verb: ClassVar[str]

    data: tuple[Path, ...]
    """Training images: a path to any layout that `condvae.data.open_data` reads, or cifar10 after `condvae fetch
    cifar10`. Several data sets are joined."""
    out: Path
    """The run folder, for the log, checkpoints, contact sheets and the finished model.safetensors."""
    preset: str | None = None
    """Use the default options of this preset, such as the paper's learning rates and batch sizes; options that are
    given override them."""
    resume: bool = False
    """Continue from the last checkpoint in the run folder, or start if it has none. Repeat the other options of the
    first call."""

    size: int | None = None
    """Crop images to a square and resize them to N x N pixels."""
    validation: int | None = None
    """How many training images to hold out, to choose the best weights. If not given, a tenth, but at most 5,000."""
    split_seed: int = 5
    """The seed that decides which images are held out, if the data set has no validation images of its own."""
    flip: Literal["auto", "yes", "no"] = "auto"
    """Mirror half of the training images, chosen at random. auto: yes, except for data such as digits and x-rays."""
    residency: Literal["auto", "device", "stream"] = "auto"
    """Where images are kept during training: on the device (device), or in memory or on disk, from which they are
    streamed (stream). auto: on the device if they fit."""
    workers: int = 2
    """How many threads load images ahead of training when images are streamed."""

    batch: int = 32
    """How many images each update uses, over all ranks."""
    micro_batch: int | None = None
    """How many images one rank passes through the network at a time; the gradients of several such passes are added up.
    Smaller values need less memory. If not given, batch / ranks. The result does not depend on how many ranks share the
    micro-batches."""
    steps: int | None = None
    """How many updates to make. Give --steps, --minutes or both; training stops at whichever comes first."""
    minutes: float | None = None
    """How many minutes training may take, including the last evaluation and writing the model. Give --steps, --minutes
    or both; training stops at whichever comes first."""

    lr: float = 2e-4
    """The learning rate."""
    schedule: Literal["constant", "cosine", "linear"] = "constant"
    """How the learning rate changes after the warm-up, over the steps or minutes: not at all (constant), or falling as
    a cosine or a straight line."""
    warm_up: int = 100
    """Steps over which the learning rate rises from zero."""
    final_lr: float = 0.0
    """The learning rate at the end of a cosine or linear schedule, as a fraction of --lr."""
    optimiser: Literal["adamw", "adamax"] = "adamw"
    """The optimiser: AdamW, as in the paper, or Adamax."""
    beta1: float = 0.9
    """Decay of the optimiser's moving average of gradients."""
    beta2: float = 0.9
    """Decay of the optimiser's moving average of gradient magnitudes."""
    weight_decay: float = 0.01
    """Decoupled weight decay: each update shrinks the weights by this factor times the learning rate."""
    clip: float = 200.0
    """Gradients with a larger norm are scaled down to this norm."""
    skip_above: float = 400.0
    """Skip an update if its gradient has a larger norm, or is not finite on any rank."""
    ema: float = 0.9999
    """Decay of the moving average of the weights, per update. The averaged weights are evaluated and saved. The decay
    is smaller during the first updates."""
    patience: int = 100
    """After this many skipped updates in a row, roll back to the last good checkpoint and halve the learning rate.
    Training fails if three roll-backs do not help."""

    seed: int = 0
    """The seed of everything that is drawn at random; the same seed gives the same result."""
    device: str = "auto"
    """Where to compute: auto takes a GPU if there is one. On a CPU the same call gives the same result bit for bit."""
    precision: Literal["auto", "fp32", "bf16"] = "auto"
    """Precision of the networks: float32 (fp32), or bfloat16 (bf16) with KLs and likelihoods in float32. auto: bf16 on
    a GPU, fp32 on a CPU."""
    recompute: Literal["auto", "yes", "no"] = "auto"
    """Save memory by computing activations a second time in the backward pass instead of storing them, which is slower.
    auto: yes if they would take more than 60 % of the GPU's memory; on a CPU, for images of 256 pixels or more."""
    engine: Literal["auto", "plain"] = "auto"
    """Implementation of the training step. auto: fused kernels and CUDA graphs, where the GPU and the precision allow
    them. plain: standard torch operations, which are slower; the reference implementation."""

    log_every: int = 50
    """Steps between lines of the log. Divergence and the time budget are checked at the same steps."""
    evaluate_every: int = 1000
    """Steps between evaluations on held-out images."""
    evaluate_on: int = 1000
    """How many of the held-out images each evaluation uses."""
    checkpoint_every: int = 1000
    """Steps between checkpoints."""
    keep: int = 3
    """How many of the latest checkpoints to keep. The best one is always kept."""
    sheet_every: int = 5000
    """Steps between contact sheets. 0: only one, at the end."""
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
            "engine", "log_every", "evaluate_every", "checkpoint_every", "keep", "sheet_every", "tensorboard", "wandb",
        }
    )  # fmt: skip

    def __post_init__(self) -> None:
        """Convert paths that are given as text, and a single data set or observation process, to the fields' types."""
        data: Any = self.data
        if isinstance(data, str | Path | Sequence):
            several = [data] if isinstance(data, str | Path) else data
            object.__setattr__(self, "data", tuple(map(Path, several)))
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
            raise ValueError("no data was given: give --data with a folder, a zip or another set of images")
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
            check_whole(getattr(self, name), _option(name), least=1)
        for name in ("seed", "split_seed"):
            check_seed(getattr(self, name), _option(name))
        check_whole(self.sheet_every, "--sheet-every")
        for name in ("micro_batch", "steps", "size"):
            if getattr(self, name) is not None:
                check_whole(getattr(self, name), _option(name), least=1)
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
        """Return the options for a model's record: those that have a value, with file names but no folders."""
        plain = dataclasses.asdict(self)
        kept = {key: value for key, value in plain.items() if value is not None and key not in ("out", "resume")}
        return {key: _plain(_name_only(value)) for key, value in kept.items()}

    def differences(self, stored: dict[str, Any]) -> list[str]:
        """List the differences from a stored run that change training, such as "lr is 0.1, was 0.2"."""
        mine = self.to_dict()
        keys = sorted((mine.keys() | stored.keys()) - self.MAY_CHANGE - {"data_summary"})
        return [f"{key} is {mine.get(key)}, was {stored.get(key)}" for key in keys if mine.get(key) != stored.get(key)]


@dataclass(frozen=True, kw_only=True)
class PretrainOptions(TrainingOptions):
    """Train an unconditional VAE on images: the artifact that `condvae train` builds on."""

    verb: ClassVar[str] = "pretrain"

    network: str = "small32"
    """The network: a name from `condvae.vdvae.PRESETS`, or a JSON file with its configuration."""
    bits: Literal[5, 8] | None = None
    """Bits per colour channel of the images that the likelihood models. If not given, the network's own value."""
    normalise: Literal["auto", "data", "network"] = "auto"
    """Where the mean and the scale of the network's inputs come from: measured on the training images (data), or the
    network's own (network). auto: network for the public networks, data for ours."""
    init: Path | None = None
    """Start from the weights of this model instead of random weights: a model file, a run folder, or a name. The
    model's network and normalisation are used."""


@dataclass(frozen=True, kw_only=True)
class TrainOptions(TrainingOptions):
    """Train a partial encoder for a pretrained artifact (IPA), or a whole conditional VAE from scratch."""

    verb: ClassVar[str] = "train"

    artifact: Path | None = None
    """The pretrained VAE to freeze: a model file, a run folder, or a name. It may have been trained on other images.
    Its normalisation is kept."""
    scratch: str | None = None
    """Instead of using an artifact, train everything from random weights in this network: a name from
    `condvae.vdvae.PRESETS`, or a JSON file with its configuration."""
    init: Path | None = None
    """Continue from the weights of this conditional model: a model file, a run folder, or a name. Its artifact and form
    are used, and its observation process unless --observe is given."""
    observe: tuple[str, ...] = ()
    """The observation process: names from `condvae.observe.PROCESSES`, with parameters as in freeform,low=0.2,high=0.8;
    freeform if empty. Several processes are mixed, as in freeform,weight=2 boxes halves."""
    objective: Literal["forward", "reverse"] = "forward"
    """The training objective. forward: the forward KL (IPA), which covers every plausible completion. reverse: the
    reverse KL (IPA-R), which may drop some."""
    form: Literal["direct", "relative"] = "direct"
    """What the partial encoder predicts. direct: the means and standard deviations of the latents, as in the paper.
    relative: their differences from those of the prior."""
    start: Literal["auto", "encoder", "random"] = "auto"
    """The partial encoder's initial weights: copied from the artifact's encoder, or random. auto: encoder for the
    reverse objective and the relative form, if there is an artifact and the observation contains an image; else
    random."""
    anneal: int = 0
    """Steps over which the weight of the likelihood rises from 0 to 1, for the reverse objective."""


def _option(name: str) -> str:
    return "--" + name.replace("_", "-")


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
