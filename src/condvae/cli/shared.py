"""Options that several verbs share. Each has the same name, type and help text in all of them."""

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias, TypeVar

import tyro

from condvae.cli.help_text import described
from condvae.data.fetched_data import FETCHED_NAME
from condvae.data.layout_names import LAYOUT_MEANINGS
from condvae.design.avp_cnn.classifier_names import embedded_classifiers
from condvae.images.picture_formats import PictureFormat
from condvae.observe.process_names import PIXEL_PROCESS_MEANINGS
from condvae.runtime.messages import listed
from condvae.runtime.progress import result as result
from condvae.runtime.progress import say as say
from condvae.runtime.progress import warn as warn
from condvae.training.options import TrainingOptions
from condvae.vdvae.network_names import PUBLIC_NETWORKS, SMALL_NETWORKS
from condvae.weights.model_names import embedded_names

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from condvae.images.holes import Hole
    from condvae.vdvae import VDVAE
    from condvae.weights.cached_models import ModelId

T = TypeVar("T")

_arg = tyro.conf.arg

IMAGES_ON_SHEET = 64
"""The maximum number of images on a contact sheet of `sample` or `reconstruct`."""

_ANY_MODEL = f"a model file, a run folder, owner/name on the Hugging Face hub, or a name: {', '.join(embedded_names())}"
MODEL_HELP = f"The model: {_ANY_MODEL}."
ARTIFACT_HELP = (
    f"The pretrained VAE to freeze: {_ANY_MODEL}. It may have been trained on other images. Its normalisation is kept."
)
INIT_HELP = f"Start from the weights of this model instead of random weights: {_ANY_MODEL}."

_ANY_NETWORK = f"a JSON file with its configuration, or a name: {', '.join((*PUBLIC_NETWORKS, *SMALL_NETWORKS))}"
NETWORK_HELP = f"The network: {_ANY_NETWORK}."
SCRATCH_HELP = (
    f"Train a whole conditional VAE from random weights, without an artifact, with this network: {_ANY_NETWORK}."
)

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
"""The model as a positional argument, for verbs whose input is a model."""
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
    tuple[str, ...],
    _arg(
        metavar="DATA",
        help=f"The data set with training and test images: {LAYOUTS_HELP}. Several data sets are joined.",
        help_behavior_hint="(required)",
    ),
]
Out: TypeAlias = Annotated[Path, _arg(aliases=["-o"])]
OutFolder: TypeAlias = Annotated[Path | None, _arg(aliases=["-o"], metavar="FOLDER")]
OutFile: TypeAlias = Annotated[Path | None, _arg(aliases=["-o"], metavar="FILE")]
Format: TypeAlias = Annotated[
    PictureFormat,
    _arg(
        help="The file format of the pictures. png and webp keep every pixel value; jpg (quality 95) makes smaller "
        "files and changes pixels a little, known ones too. Contact sheets are always png."
    ),
]
BitsPerWeight: TypeAlias = Annotated[
    Literal[32, 16, 8],
    _arg(
        help="How many bits of the file each weight takes: 32 (single precision), 16 (half precision), or 8 (int8 with "
        "a scale for each output channel of a convolution). Fewer bits make a smaller file and change the weights a "
        "little."
    ),
]
N: TypeAlias = Annotated[int, _arg(aliases=["-n"], metavar="N")]
Validation: TypeAlias = Annotated[
    int | None,
    _arg(
        metavar="N",
        help="How many training images to hold out. If not given, as many as the model's training record states.",
    ),
]
SplitSeed: TypeAlias = Annotated[
    int | None,
    _arg(
        metavar="N",
        help="The seed that decides which training images are held out. If not given, the seed in the model's "
        f"training record, or {TrainingOptions.split_seed} if the record has none.",
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
        help="Factor on the standard deviation of the latents. 1 is the model as trained; below 1, images vary less; "
        "at 0 they do not vary at all, unless pixels are drawn at random (--pixels sample). Give one number, one "
        "number per latent group as in 1,1,0.9, or one number per resolution as in 8:0.9,16:0.7, where resolutions "
        "that are not listed keep 1.",
    ),
]
White: TypeAlias = Annotated[
    int | None,
    _arg(
        metavar="LEVEL",
        help="The grey level that is white in an image with 16-bit pixels: 65535 if it uses all 16 bits. If not given, "
        "the bit depth is the smallest of 8, 10, 12, 14 and 16 bits that holds the image's largest level.",
    ),
]
PixelKind: TypeAlias = Annotated[
    Literal["mean", "sample"],
    _arg(
        help="The value of each pixel: the mean of its distribution (mean), which looks best, or a random draw from "
        "its distribution (sample)."
    ),
]
Device: TypeAlias = Annotated[
    str,
    _arg(
        metavar="auto|cpu|cuda|cuda:N",
        help="Where to compute. auto uses a GPU if there is one. On a CPU, repeating a call gives the same result bit "
        "for bit.",
    ),
]
FitMask: TypeAlias = Annotated[
    bool,
    tyro.conf.FlagCreatePairsOff,
    _arg(
        help="If a picture of known or hidden pixels has another size than its image, resize it to the image's size. A "
        "note says from which size."
    ),
]

Quiet: TypeAlias = Annotated[
    bool,
    tyro.conf.FlagCreatePairsOff,
    _arg(
        aliases=["-q"],
        help="Print nothing but the result of the command, warnings and errors. Warnings then go to stderr.",
    ),
]


def preset_help(presets: "Iterable[str]") -> str:
    """Return the help text of --preset, which lists the names of the presets."""
    return f"Use the default options of this preset; options that you give override them. One of {', '.join(presets)}."


def observe_help(first: str, processes: "Mapping[str, str]") -> str:
    """Return the help text of --observe: the sentence `first`, each process with its meaning, and the notation."""
    return (
        f"{first} These are the processes, each with what is known of an image: {described(processes)}. Parameters "
        "follow the name, as in freeform,low=0.2,high=0.8, where the hidden share is between 0.2 and 0.8. "
        f"{listed(PIXEL_PROCESS_MEANINGS)} can be mixed, as in freeform,weight=2 boxes halves, where freeform is used "
        "for twice as many images as boxes, and as halves."
    )


class Parsed:
    """Base class of verbs that inherit their options from a settings class.

    It skips the checks that the settings class makes in `__post_init__` while tyro parses the options. `settings_of`
    makes these checks later, so that a bad value becomes a one-line error.
    """

    def __post_init__(self) -> None:
        """Do nothing; this replaces the checks of the settings class."""


@dataclass(frozen=True, kw_only=True)
class HoleOptions:
    """Options that say which pixels of an image are hidden. At most one of them may be given."""

    known: Annotated[Path | None, _arg(metavar="PICTURE")] = None
    """A picture of the image's size in which white (grey level 128 or more) marks the known pixels. For several images,
    give a folder of such pictures, each with the file name of its image; only the extension may differ."""
    hole: Annotated[Path | None, _arg(metavar="PICTURE")] = None
    """A picture of the image's size in which white (grey level 128 or more) marks the hidden pixels. For several
    images, give a folder of such pictures, each with the file name of its image; only the extension may differ."""
    box: Annotated[str | None, _arg(metavar="X,Y,W,H")] = None
    """Hide a rectangle. Give the x and y of its upper left corner, its width and its height, in pixels. They refer to
    the image as viewers show it, turned upright by its EXIF data."""
    half: Literal["left", "right", "top", "bottom"] | None = None
    """Hide this half of the middle square of the image."""
    random: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False
    """Hide random pixels, drawn as in the model's training. --seed decides which."""
    mask: Annotated[Path | None, _arg(metavar="PICTURE")] = None
    """Another way to give the picture of --known or --hole: --mask-is says which of the two it is."""
    mask_is: Literal["hole", "known"] | None = None
    """What white means in the picture of --mask: hidden pixels (hole) or known pixels (known)."""
    fit_mask: FitMask = False

    def as_hole(self) -> "Hole":
        """Return the hole that these options describe."""
        box = None if self.box is None else _box(self.box)
        from condvae.images.holes import Hole
        from condvae.runtime.messages import printable

        if self.mask is not None and self.mask_is is None:
            name = printable(self.mask)
            raise ValueError(
                f"--mask can mean two things: if white marks the hidden pixels in {name}, give --hole {name} or add "
                f"--mask-is hole; if white marks the known pixels, give --known {name} or add --mask-is known"
            )

        return Hole(
            known=self.known,
            hole=self.hole,
            box=box,
            half=self.half,
            random=self.random,
            mask=self.mask,
            mask_is=self.mask_is,
            fit_mask=self.fit_mask,
        )


@dataclass(frozen=True, kw_only=True)
class ExperimentOptions:
    """Options that all experiments share."""

    data: Data = ()
    device: Device = "auto"
    shard: Annotated[str | None, _arg(metavar="I/N")] = None
    """Compute only part I of N, such as 2/8, so that the jobs of a job array share the work. When all parts are done,
    run the same command without --shard to write the report."""
    redraw: Annotated[Path | None, _arg(metavar="FOLDER")] = None
    """Redraw the figures of an earlier call from its results.json, and stop. Give the --out folder of that call."""
    quiet: Quiet = False


def settings_of(kind: type[T], options: T) -> T:
    """Return a verb's options as settings of this class, which checks them; raise a ValueError if one is invalid."""
    values = {field.name: getattr(options, field.name) for field in dataclasses.fields(kind)}  # type: ignore[arg-type]
    return kind(**values)


def out_folder_help(contents: str, default: str) -> str:
    """Return the help text of --out for a verb that writes pictures: `contents`, to a new folder unless it is given."""
    return (
        f"The folder for {contents}. If not given, a new folder: {default}, or if that exists, {default}-2, "
        f"{default}-3 and so on. In a folder that you give, the files of an earlier call, which its record lists, are "
        "replaced; all other files stay."
    )


def open_vae(name: str, device: str) -> "tuple[ModelId, VDVAE]":
    """Open a model by name or path; return its identity and its VAE. For a conditional model this is the artifact."""
    from condvae.weights.artifact_file import as_vae, unconditional_part
    from condvae.weights.cached_models import open_model

    identity, model = open_model(name, device)
    return identity, unconditional_part(as_vae(model, name))


def images_written(n: int, out: Path) -> str:
    """Return the line to print after n images and their contact sheet were written to the folder `out`."""
    of_first = f" of the first {IMAGES_ON_SHEET}" if n > IMAGES_ON_SHEET else ""
    return f"wrote {'1 image' if n == 1 else f'{n:,} images'} and {out / 'sheet.png'}{of_first}"


def tell_written(line: str, folder: Path, verb: Any) -> None:
    """Say what was written. With --quiet and without --out, print the folder, which the call has chosen itself."""
    say(line)
    if verb.quiet and verb.out is None:
        result(str(folder))


def sheets_written(sheets: "Sequence[Path]") -> str:
    """Return the line to print after completions and these contact sheets were written."""
    return f"wrote {listed(map(str, sheets))}" if len(sheets) < 4 else f"wrote {sheets[0]} to {sheets[-1]}"


def opening(verb: object) -> str:
    """Return the first line of a command, which is printed before anything slow is imported: what it opens."""
    if earlier := getattr(verb, "redraw", None) or getattr(verb, "repeat", None):
        return f"opening {earlier}"
    if what := getattr(verb, "what", None):
        return f"looking for {what}"
    kinds = {"checkpoint": "", "real": "", "fake": "", "model": "the model ", "artifact": "the artifact "}
    kinds |= {"classifier": "the classifier ", "data": "the data "}
    names = []
    for option, kind in kinds.items():
        if (value := getattr(verb, option, None)) and value != "none":
            names.append(kind + (listed(map(str, value)) if isinstance(value, tuple) else str(value)))
    return f"opening {listed(names)}" if names else "starting"


def figures_written(files: "Iterable[Any]") -> str:
    """Return the line to print after the figures of a report were redrawn."""
    return f"wrote {listed(map(str, files))}"


def _box(text: str) -> tuple[int, int, int, int]:
    """Parse the value of --box, which is x,y,width,height."""
    try:
        x, y, width, height = (int(number) for number in text.replace(",", " ").split())
    except ValueError:
        raise ValueError(f"--box is {text}, expected four whole numbers x,y,width,height") from None
    return x, y, width, height
