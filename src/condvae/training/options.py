"""The options of training: plain data, stored in the run folder, documented here once for the library and `--help`."""

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
    """What both kinds of training share."""

    verb: ClassVar[str]

    data: tuple[Path, ...]
    """Images: a folder or zip of image files, a pack with dataset.json, or a standard layout (CIFAR-10 batches, .npy,
    .npz, Chest X-ray 14, pix2pix pairs, SVHN, idx), or cifar10 once `condvae fetch cifar10` got it. Several are
    joined."""
    out: Path
    """Run folder: log, checkpoints, contact sheets and the finished model.safetensors."""
    preset: str | None = None
    """Defaults by name, such as the paper's learning rates and batch sizes; other options given override them."""
    resume: bool = False
    """Go on from the last checkpoint in the run folder; start if there is none. Give the other options again as they
    were."""

    size: int | None = None
    """Crop images to a square and resize them to N x N pixels."""
    validation: int | None = None
    """Images held out of the training set to choose the best weights. Default: a tenth, at most 5,000."""
    split_seed: int = 5
    """Which images are held out where the data does not say."""
    flip: Literal["auto", "yes", "no"] = "auto"
    """Mirror half of the images. auto: where the data set allows it, which digits and x-rays do not."""
    residency: Literal["auto", "device", "stream"] = "auto"
    """Keep all images on the device, or stream them from memory or disk. auto: on the device if they fit."""
    workers: int = 2
    """Threads that read ahead when streaming."""

    batch: int = 32
    """Images per update, over all ranks."""
    micro_batch: int | None = None
    """Images per pass through the network on one rank; gradients of several passes are added up. Default: batch /
    ranks. A run gives the same result however its micro-batches are shared out over ranks."""
    steps: int | None = None
    """Updates to make."""
    minutes: float | None = None
    """Wall-clock budget; the last evaluation and the writing of the model are inside it."""

    lr: float = 2e-4
    """Learning rate."""
    schedule: Literal["constant", "cosine", "linear"] = "constant"
    """Course of the learning rate over the steps or minutes, after the warm-up."""
    warm_up: int = 100
    """Steps over which the learning rate rises from zero."""
    final_lr: float = 0.0
    """Where a decaying schedule ends, as a share of lr."""
    optimiser: Literal["adamw", "adamax"] = "adamw"
    """adamw is the paper's."""
    beta1: float = 0.9
    """Decay of the gradient's mean."""
    beta2: float = 0.9
    """Decay of the gradient's size."""
    weight_decay: float = 0.01
    """Decoupled weight decay, times the learning rate."""
    clip: float = 200.0
    """Gradients with a larger norm are shortened to it."""
    skip_above: float = 400.0
    """Updates whose gradient norm is larger, or not finite on any rank, are left out."""
    ema: float = 0.9999
    """Decay of the average of the weights, which is what is evaluated and saved; shorter at first."""
    patience: int = 100
    """After this many skipped updates in a row, roll back to the last good checkpoint at half the learning rate; stop
    after three such roll-backs."""

    seed: int = 0
    """Decides everything that is drawn at random; the same seed gives the same result."""
    device: str = "auto"
    """Where to compute. auto: on a GPU if there is one. On a CPU a call can be repeated bit for bit."""
    precision: Literal["auto", "fp32", "bf16"] = "auto"
    """bf16: networks in bfloat16, KLs and likelihoods in float32. auto: bf16 on a GPU, fp32 on a CPU."""
    recompute: Literal["auto", "yes", "no"] = "auto"
    """Compute activations again in the backward pass instead of keeping them: slower, smaller. auto: where they would
    take more than 60 % of the GPU's memory; on a CPU, for images of 256 pixels and more."""
    engine: Literal["auto", "plain"] = "auto"
    """auto: fused kernels and CUDA graphs where the GPU and the precision allow them. plain: torch's own operations,
    one by one: slower, and the reference implementation."""

    log_every: int = 50
    """Steps between lines of the log; also how often a run looks for divergence and at the clock."""
    evaluate_every: int = 1000
    """Steps between evaluations on held-out images."""
    evaluate_on: int = 1000
    """How many of the held-out images are used."""
    checkpoint_every: int = 1000
    """Steps between checkpoints."""
    keep: int = 3
    """Checkpoints kept, besides the best."""
    sheet_every: int = 5000
    """Steps between contact sheets; 0: only at the end."""
    tensorboard: bool = False
    """Write TensorBoard event files into the run folder."""
    wandb: str | None = None
    """Name of a Weights & Biases project to log to."""

    # What may differ between a run and its continuation. Paths: data is known by what is in it, and the models that a
    # run starts from lie in its folder. Steps and minutes: it may go on for longer. The rest changes no step.
    MAY_CHANGE: ClassVar[frozenset[str]] = frozenset(
        {
            "data", "artifact", "init", "out", "preset", "resume", "residency", "workers", "steps", "minutes", "device",
            "engine", "log_every", "evaluate_every", "checkpoint_every", "keep", "sheet_every", "tensorboard", "wandb",
        }
    )  # fmt: skip

    def __post_init__(self) -> None:
        """Paths may be given as text, and one set of data alone."""
        data: Any = self.data
        if isinstance(data, str | Path | Sequence):
            several = [data] if isinstance(data, str | Path) else data
            object.__setattr__(self, "data", tuple(map(Path, several)))
        for name, made in (("out", Path), ("artifact", Path), ("init", Path), ("observe", lambda text: (text,))):
            if isinstance(value := getattr(self, name, None), str):
                object.__setattr__(self, name, made(value))

    @property
    def rule(self) -> "Rule":
        from condvae.training.optimiser import Rule  # late: it needs torch, and --help should be quick

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
        """Raise a ValueError unless the numbers make sense together; files are not looked at."""
        if not self.data:
            raise ValueError("no data was given: --data takes a folder, a zip or another set of images")
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
            raise ValueError(f"the learning rate is {self.lr}, expected a positive number such as 2e-4")
        _ = self.rule, self.learning_schedule

    def micro_batches(self, ranks: int) -> tuple[int, int]:
        """Images of a micro-batch, and how many of them each rank takes."""
        micro = self.micro_batch if self.micro_batch is not None else max(self.batch // ranks, 1)
        if micro < 1 or self.batch % (micro * ranks):
            raise ValueError(
                f"a batch of {self.batch} images cannot be shared out over {ranks} ranks in micro-batches of {micro}: "
                f"choose a batch that {micro} x {ranks} divides"
            )
        return micro, self.batch // (micro * ranks)

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        plain = dataclasses.asdict(self)
        return {"verb": self.verb, **{key: _plain(value) for key, value in plain.items()}}

    def for_record(self) -> dict[str, Any]:
        """What a model file tells others: options that were set, with the names of files but not where they lie."""
        plain = dataclasses.asdict(self)
        told = {key: value for key, value in plain.items() if value is not None and key not in ("out", "resume")}
        return {key: _plain(_name_only(value)) for key, value in told.items()}

    def differences(self, stored: dict[str, Any]) -> list[str]:
        """What a stored run did differently in a way that matters: "lr is 0.1, was 0.2"."""
        mine = self.to_dict()
        keys = sorted((mine.keys() | stored.keys()) - self.MAY_CHANGE - {"data_summary"})
        return [f"{key} is {mine.get(key)}, was {stored.get(key)}" for key in keys if mine.get(key) != stored.get(key)]


@dataclass(frozen=True, kw_only=True)
class PretrainOptions(TrainingOptions):
    """Train an unconditional VAE on images: the artifact that `condvae train` builds on."""

    verb: ClassVar[str] = "pretrain"

    network: str = "small32"
    """A network by name, as in `condvae.vdvae.PRESETS`, or a JSON file of one."""
    bits: Literal[5, 8] | None = None
    """Bits per channel that the likelihood accounts for; those of a network by name if not given."""
    normalise: Literal["auto", "data", "network"] = "auto"
    """Mean and spread of the network's inputs: measured on the training images, or the network's own. auto: the public
    networks keep theirs, ours are measured."""
    init: Path | None = None
    """Start from the weights of this model instead of random ones: a file, a run folder, or a name such as faces64. Its
    network and normalisation are used."""


@dataclass(frozen=True, kw_only=True)
class TrainOptions(TrainingOptions):
    """Train a partial encoder for a pretrained artifact (IPA), or a whole conditional VAE from scratch."""

    verb: ClassVar[str] = "train"

    artifact: Path | None = None
    """The pretrained VAE, frozen: a file or run folder of `condvae pretrain` or `condvae import`, or a name such as
    faces64; of these or of other images. Its normalisation is kept."""
    scratch: str | None = None
    """Instead of an artifact: train everything from random weights in this network (a name, or a JSON file)."""
    init: Path | None = None
    """Go on from the weights of this conditional model: a file, a run folder, or a name such as faces64. Its artifact,
    form and, unless others are given, observations are used."""
    observe: tuple[str, ...] = ()
    """What is observed of an image; freeform if nothing is said. One of freeform, patches, boxes, halves, pixels,
    nothing, edges, grey, low-resolution, label, paired; with parameters as in freeform,low=0.2,high=0.8. Several
    completion processes are mixed, as in freeform,weight=2 boxes halves."""
    objective: Literal["forward", "reverse"] = "forward"
    """forward: mass-covering (IPA). reverse: mode-seeking (IPA-R), which starts the partial encoder at the encoder."""
    form: Literal["direct", "relative"] = "direct"
    """direct: the partial encoder predicts means and scales (the paper). relative: differences from the prior's."""
    start: Literal["auto", "encoder", "random"] = "auto"
    """Where the partial encoder starts. auto: at the encoder for the reverse objective and the relative form."""
    anneal: int = 0
    """Reverse objective: steps over which the likelihood's weight rises to one."""


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
