"""Options that several verbs have: one name, one type, one help text each."""

import dataclasses
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias, TypeVar

import tyro

from condvae.training.presets import PRETRAIN_PRESETS
from condvae.weights.model_names import embedded_names

if TYPE_CHECKING:
    from condvae.images.holes import Hole
    from condvae.vdvae import VDVAE

T = TypeVar("T")

_arg = tyro.conf.arg

ON_A_SHEET = 64
"""Images on the contact sheet of many."""

MODEL_HELP = f"A model by name ({', '.join(embedded_names())}), file, run folder, or owner/name on the hub."

NETWORK_HELP = (
    "A network by name, such as "
    f"{', '.join(dict.fromkeys(preset['network'] for preset in PRETRAIN_PRESETS.values()))}, or a JSON file of one."
)

Model: TypeAlias = Annotated[str, _arg(metavar="MODEL", help=MODEL_HELP)]
ModelArgument: TypeAlias = Annotated[str, tyro.conf.Positional, _arg(metavar="MODEL", help=MODEL_HELP)]
"""Where a model is what the verb is about, as images are elsewhere."""
ClassifierName: TypeAlias = Annotated[
    str, _arg(metavar="NAME|FILE", help="A classifier by name or file, of `condvae design train`.")
]
Images: TypeAlias = Annotated[
    tuple[Path, ...],
    tyro.conf.Positional,
    _arg(
        metavar="IMAGE",
        help="Image files, or folders of them; their middle square is resized to the model's size.",
        help_behavior_hint="(required)",
    ),
]
Data: TypeAlias = Annotated[
    str | None,
    _arg(
        metavar="DATA",
        help="Training and test images: a folder, a zip, a standard layout, or cifar10 once fetched.",
        help_behavior_hint="(required)",
    ),
]
Out: TypeAlias = Annotated[Path, _arg(aliases=["-o"])]
OutFile: TypeAlias = Annotated[Path | None, _arg(aliases=["-o"], metavar="FILE")]
HalfPrecision: TypeAlias = Annotated[bool, _arg(help="Store weights in half precision: half the size.")]
N: TypeAlias = Annotated[int, _arg(aliases=["-n"], metavar="N")]
Validation: TypeAlias = Annotated[
    int | None,
    _arg(metavar="N", help="Training images to hold out; as many as in the model's training if not given."),
]
SplitSeed: TypeAlias = Annotated[
    int | None,
    _arg(metavar="N", help="Decides which are held out; that of the model's training if not given."),
]
Seed: TypeAlias = Annotated[
    int,
    _arg(metavar="INT", help="Decides everything that is drawn at random; the same seed gives the same result."),
]
Temperature: TypeAlias = Annotated[
    str,
    _arg(
        metavar="T",
        help="Factor on the spread of the latents: less than 1 is calmer, 0 with mean pixels gives one answer. One "
        "number, one for each group of latents as in 1,1,0.9, or by resolution as in 8:0.9,16:0.7, where the others "
        "stay at 1.",
    ),
]
PixelKind: TypeAlias = Annotated[
    Literal["mean", "sample"],
    _arg(help="Pixels as the mean of their distribution, which looks best, or drawn from it."),
]
Device: TypeAlias = Annotated[
    str,
    _arg(
        metavar="auto|cpu|cuda|cuda:N",
        help="Where to compute. auto: on a GPU if there is one. On a CPU a call can be repeated bit for bit.",
    ),
]


def preset_option(presets: Iterable[str]) -> Any:
    """--preset, with the names that there are."""
    text = f"Defaults by name; other options given override them. One of {', '.join(presets)}."
    return _arg(metavar="NAME", help=text)


class Parsed:
    """Settings as they were typed: they are checked in `settings_of`, where a bad one is one sentence."""

    def __post_init__(self) -> None: ...


@dataclass(frozen=True, kw_only=True)
class HoleOptions:
    """What is hidden of an image, in one way."""

    known: Annotated[Path | None, _arg(metavar="PICTURE")] = None
    """A picture of the image's size, or a folder of them with the images' names: white (128 and lighter) is known."""
    hole: Annotated[Path | None, _arg(metavar="PICTURE")] = None
    """Likewise, but white is hidden."""
    box: Annotated[str | None, _arg(metavar="X,Y,W,H")] = None
    """Hide this box, in pixels of the upright image."""
    half: Literal["left", "right", "top", "bottom"] | None = None
    """Hide this half of the middle square."""
    random: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False
    """Hide at random what the model was trained on, by the seed."""

    def said(self) -> "Hole":
        """The way in which it was said."""
        box = None if self.box is None else _box(self.box)
        from condvae.images.holes import Hole

        return Hole(known=self.known, hole=self.hole, box=box, half=self.half, random=self.random)


@dataclass(frozen=True, kw_only=True)
class ExperimentOptions:
    """How long measurements are shared out and shown."""

    data: Data = None
    device: Device = "auto"
    shard: Annotated[str | None, _arg(metavar="I/N")] = None
    """Do only the I-th of N shares, for job arrays; a call without it, after all of them, writes the report."""
    redraw: Annotated[Path | None, _arg(metavar="DIR")] = None
    """Draw the figures of an earlier --out again from its numbers, and stop."""


def settings_of(kind: type[T], options: T) -> T:
    """The settings inside a verb's options, checked."""
    values = {field.name: getattr(options, field.name) for field in dataclasses.fields(kind)}  # type: ignore[arg-type]
    return kind(**values)


def vae_of(name: str) -> "VDVAE":
    """A model by name, or the VAE inside a conditional one."""
    from condvae import weights
    from condvae.conditional import ConditionalVAE

    model = weights.load(name)
    return model.artifact if isinstance(model, ConditionalVAE) else model


def wrote(n: int, out: Path) -> str:
    """What to say when a folder of n images and their sheet was written."""
    of_first = f" of the first {ON_A_SHEET}" if n > ON_A_SHEET else ""
    return f"wrote {'1 image' if n == 1 else f'{n:,} images'} and {out / 'sheet.png'}{of_first}"


def say(line: str) -> None:
    """Print at once: a line may be minutes before the next."""
    print(line, flush=True)


def _box(text: str) -> tuple[int, int, int, int]:
    """x, y, width, height."""
    try:
        x, y, width, height = (int(number) for number in text.split(","))
    except ValueError:
        raise ValueError(f"--box {text} was given, expected four whole numbers x,y,width,height") from None
    return x, y, width, height
