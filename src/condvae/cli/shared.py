"""Options that several verbs have, each with one name, one type and one help text."""

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias, TypeVar

import tyro

from condvae.cli.help_text import described, listed
from condvae.data.fetched_data import FETCHED_NAME
from condvae.data.layout_names import LAYOUT_MEANINGS
from condvae.design.avp_cnn.classifier_names import embedded_classifiers
from condvae.observe.process_names import PIXEL_PROCESS_MEANINGS
from condvae.training.options import TrainingOptions
from condvae.vdvae.network_names import PUBLIC_NETWORKS, SMALL_NETWORKS
from condvae.weights.model_names import embedded_names

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from condvae.images.holes import Hole
    from condvae.vdvae import VDVAE

T = TypeVar("T")

_arg = tyro.conf.arg

IMAGES_ON_SHEET = 64
"""The most images that a contact sheet of `sample` or `reconstruct` shows."""

_ANY_MODEL = f"a model file, a run folder, owner/name on the Hugging Face hub, or a name: {', '.join(embedded_names())}"
MODEL_HELP = f"The model: {_ANY_MODEL}."
ARTIFACT_HELP = (
    f"The pretrained VAE to freeze: {_ANY_MODEL}. It may have been trained on other images. Its normalisation is kept."
)
INIT_HELP = f"Start from the weights of this model instead of random weights: {_ANY_MODEL}."

_ANY_NETWORK = f"a JSON file with its configuration, or a name: {', '.join((*PUBLIC_NETWORKS, *SMALL_NETWORKS))}"
NETWORK_HELP = f"The network: {_ANY_NETWORK}."
SCRATCH_HELP = f"Instead of using an artifact, train everything from random weights in this network: {_ANY_NETWORK}."

SCORE_NUMBERS_HELP = (
    "A number may follow the name: gradient-4 is a mean over 4 random draws of the latents (the same for parts, "
    "channels and likelihood; 1 if not given), regret-8 makes 8 optimisation steps (5 if not given), and ratio-4 "
    "infers the latents up to 4 x 4 (1 x 1 if not given)."
)

LAYOUTS_HELP = (
    f"{', '.join(LAYOUT_MEANINGS.values())}; or {FETCHED_NAME}, after `condvae fetch {FETCHED_NAME}` has downloaded it"
)

Model: TypeAlias = Annotated[str, _arg(metavar="MODEL", help=MODEL_HELP)]
ModelArgument: TypeAlias = Annotated[str, tyro.conf.Positional, _arg(metavar="MODEL", help=MODEL_HELP)]
"""For verbs that work on a model, as other verbs work on images."""
ClassifierName: TypeAlias = Annotated[
    str,
    _arg(
        metavar="NAME|FILE",
        help="The classifier: a file written by `condvae design train`, or a name: "
        f"{', '.join(embedded_classifiers())}.",
    ),
]
Images: TypeAlias = Annotated[
    tuple[Path, ...],
    tyro.conf.Positional,
    _arg(
        metavar="IMAGE",
        help="Image files, or folders of image files. The middle square of each image is resized to the model's size.",
        help_behavior_hint="(required)",
    ),
]
Data: TypeAlias = Annotated[
    str | None,
    _arg(metavar="DATA", help=f"Training and test images: {LAYOUTS_HELP}.", help_behavior_hint="(required)"),
]
Out: TypeAlias = Annotated[Path, _arg(aliases=["-o"])]
OutFile: TypeAlias = Annotated[Path | None, _arg(aliases=["-o"], metavar="FILE")]
HalfPrecision: TypeAlias = Annotated[
    bool, _arg(help="Store the weights in half precision, which halves the size of the file.")
]
N: TypeAlias = Annotated[int, _arg(aliases=["-n"], metavar="N")]
Validation: TypeAlias = Annotated[
    int | None,
    _arg(
        metavar="N",
        help="How many training images to hold out. If not given, as many as in the model's training record.",
    ),
]
SplitSeed: TypeAlias = Annotated[
    int | None,
    _arg(
        metavar="N",
        help="The seed that decides which training images are held out. If not given, the one in the model's training "
        f"record, or {TrainingOptions.split_seed} if it has none.",
    ),
]
Seed: TypeAlias = Annotated[
    int,
    _arg(metavar="INT", help="The seed of everything that is drawn at random; the same seed gives the same result."),
]
Temperature: TypeAlias = Annotated[
    str,
    _arg(
        metavar="T",
        help="Factor on the standard deviation of the latents: 1 is the model as trained, images vary less below 1, "
        "and at 0 with --pixels mean they do not vary. Give one number, one number per latent group as in 1,1,0.9, or "
        "numbers by resolution as in 8:0.9,16:0.7, where all other resolutions stay at 1.",
    ),
]
PixelKind: TypeAlias = Annotated[
    Literal["mean", "sample"],
    _arg(
        help="How to set pixels: to the mean of their distribution (mean), which looks best, or to a random draw from "
        "it (sample)."
    ),
]
Device: TypeAlias = Annotated[
    str,
    _arg(
        metavar="auto|cpu|cuda|cuda:N",
        help="Where to compute: auto takes a GPU if there is one. On a CPU the same call gives the same result bit for "
        "bit.",
    ),
]


def preset_help(presets: "Iterable[str]") -> str:
    """Return the help of --preset with the names of the presets."""
    return f"Use the default options of this preset; options that you give override them. One of {', '.join(presets)}."


def observe_help(first: str, processes: "Mapping[str, str]") -> str:
    """Return the help of --observe: a first sentence, the processes with their meanings, and how to write them."""
    return (
        f"{first} The processes, and what is known of an image under each: {described(processes)}. Parameters follow "
        "the name, as in freeform,low=0.2,high=0.8, where the hidden share is between 0.2 and 0.8. "
        f"{listed(PIXEL_PROCESS_MEANINGS)} can be mixed, as in freeform,weight=2 boxes halves, where freeform is used "
        "twice as often as each of the others."
    )


class Parsed:
    """Base of verbs that inherit from a settings class: it skips the checks of `__post_init__` while tyro parses.

    `settings_of` makes the checks later, so that a bad value becomes a one-line error.
    """

    def __post_init__(self) -> None: ...


@dataclass(frozen=True, kw_only=True)
class HoleOptions:
    """Options that say which pixels of an image are hidden; one of them may be given."""

    known: Annotated[Path | None, _arg(metavar="PICTURE")] = None
    """A picture that shows which pixels are known: white ones (grey level 128 or more). It must have the image's size.
    For several images, give a folder of pictures with the names of the images."""
    hole: Annotated[Path | None, _arg(metavar="PICTURE")] = None
    """A picture that shows which pixels are hidden: white ones (grey level 128 or more). It must have the image's size.
    For several images, give a folder of pictures with the names of the images."""
    box: Annotated[str | None, _arg(metavar="X,Y,W,H")] = None
    """Hide a rectangle: the x and y of its upper left corner, its width and its height, in pixels of the upright
    image."""
    half: Literal["left", "right", "top", "bottom"] | None = None
    """Hide this half of the image's middle square."""
    random: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False
    """Hide pixels at random, as in the model's training; --seed decides which."""

    def as_hole(self) -> "Hole":
        """Return the hole that these options describe."""
        box = None if self.box is None else _box(self.box)
        from condvae.images.holes import Hole

        return Hole(known=self.known, hole=self.hole, box=box, half=self.half, random=self.random)


@dataclass(frozen=True, kw_only=True)
class ExperimentOptions:
    """Options that all experiments share."""

    data: Data = None
    device: Device = "auto"
    shard: Annotated[str | None, _arg(metavar="I/N")] = None
    """Compute only part I of N, such as 2/8, so that the jobs of a job array share the work. When all parts are done,
    run the same command without --shard to write the report."""
    redraw: Annotated[Path | None, _arg(metavar="FOLDER")] = None
    """Draw the figures in the --out folder of an earlier call again, from its results.json, and stop."""


def settings_of(kind: type[T], options: T) -> T:
    """Return the settings that a verb's options contain; raise a ValueError if one of them is invalid."""
    values = {field.name: getattr(options, field.name) for field in dataclasses.fields(kind)}  # type: ignore[arg-type]
    return kind(**values)


def load_vae(name: str) -> "VDVAE":
    """Load a VAE by name or path; of a conditional model, its artifact."""
    from condvae import weights
    from condvae.conditional import ConditionalVAE

    model = weights.load(name)
    return model.artifact if isinstance(model, ConditionalVAE) else model


def images_written(n: int, out: Path) -> str:
    """Return the summary line after n images and their contact sheet were written to a folder."""
    of_first = f" of the first {IMAGES_ON_SHEET}" if n > IMAGES_ON_SHEET else ""
    return f"wrote {'1 image' if n == 1 else f'{n:,} images'} and {out / 'sheet.png'}{of_first}"


def say(line: str) -> None:
    """Print a line and flush, since minutes may pass before the next one."""
    print(line, flush=True)


def figures_written(files: "Iterable[Any]") -> str:
    """Return the summary line after the figures of a report were drawn again."""
    return f"wrote {listed(map(str, files))}"


def _box(text: str) -> tuple[int, int, int, int]:
    """Parse x,y,width,height."""
    try:
        x, y, width, height = (int(number) for number in text.split(","))
    except ValueError:
        raise ValueError(f"--box is {text}, expected four whole numbers x,y,width,height") from None
    return x, y, width, height
