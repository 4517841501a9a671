"""Settings: how many completions to draw of an image, and how to draw them."""
# This module does not import torch, because the command line inherits these settings and --help must be quick.

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from numbers import Integral
from typing import TYPE_CHECKING, Literal, get_args

from condvae.images.image_meanings import ImageIs
from condvae.runtime.checks import check_choice, check_seed, check_white, check_whole
from condvae.runtime.messages import shown

if TYPE_CHECKING:
    from condvae.vdvae.config import VDVAEConfig

MOST_COMPLETIONS = 10_000


@dataclass(frozen=True, kw_only=True)
class CompletionSettings:
    """How many completions are drawn of an image, and how they are drawn."""

    n: int = 8
    """How many completions to draw of each image."""
    temperature: float | Sequence[float] | Mapping[int, float] | str = 1.0
    seed: int = 0
    """The seed of everything that is drawn at random; the same seed gives the same result."""
    pixels: Literal["mean", "sample"] = "mean"
    """The value of each pixel: the mean of its distribution (mean), which looks best, or a random draw from its
    distribution (sample)."""
    share: int | None = None
    """Vary only the details: all completions of an image use the first completion's latents up to the resolution N x N,
    and differ only in the finer latents."""
    keep_size: bool = False
    """Paste the completed square back into the whole image at its original size. All pixels outside the hole stay
    exactly as they are."""
    face: int | Literal["all"] | None = None
    hard_edges: bool = False
    """With --keep-size or --face: paste the completion as it is. If not given, it is blended with the image at the edge
    of the hole, inside the hole."""
    same_noise: bool = False
    """Use the same random numbers for all images, so that completion k looks alike in all of them. If not given, the
    random numbers also depend on the known pixels of each image."""
    white: int | None = None
    image_is: ImageIs = "auto"
    """For models that observe edges, what the given image is: a photo, whose edges are found, or a drawing, whose lines
    are used as they are. With auto, its pixels decide."""

    def __post_init__(self) -> None:
        for name in ("n", "seed", "share", "white"):
            if not isinstance(value := getattr(self, name), bool) and isinstance(value, Integral):
                object.__setattr__(self, name, int(value))  # NumPy integers are not instances of int
        object.__setattr__(self, "face", _face(self.face))
        if self.face is not None:  # the rest of the photo would be lost otherwise
            object.__setattr__(self, "keep_size", True)
        check_whole(self.n, "the number of completions", least=1)
        if self.n > MOST_COMPLETIONS:
            raise ValueError(f"the number of completions is {self.n}, expected at most {MOST_COMPLETIONS}")
        check_seed(self.seed)
        check_choice(self.pixels, "pixels", ("mean", "sample"))
        check_choice(self.image_is, "image_is", get_args(ImageIs))
        for name in ("keep_size", "hard_edges", "same_noise"):
            check_choice(getattr(self, name), name, (True, False))
        check_white(self.white)

    def checked(self, config: "VDVAEConfig") -> "CompletionSettings":
        """Return the settings with the temperature as one number, or as one number per latent group.

        Raise ValueError if the temperature or `share` does not fit the model's latent groups.
        """
        from condvae.sampling.unconditional import groups_down_to
        from condvae.vdvae.temperature import per_group

        if self.share is not None:
            check_whole(self.share, "the resolution up to which latents are shared", least=1)
            groups_down_to(config, self.share)
        each = per_group(self.temperature, config)
        return replace(self, temperature=each[0] if len(set(each)) == 1 else each)


def _face(given: object) -> int | Literal["all"] | None:
    """Return which face is meant: its number by size, from 1, "all", or None for the middle square.

    True is the largest face. The command line gives numbers as text.
    """
    if given is None or given is False:
        return None
    if given is True or given == "all":
        return "all" if given == "all" else 1
    number = int(given) if isinstance(given, str) and given.isascii() and given.isdigit() else given
    if isinstance(number, Integral) and 1 <= int(number) < 2**31:
        return int(number)
    raise ValueError(
        f"face is {shown(given)}, expected no value (in Python, True) for the largest face, 2 for the second largest, "
        "and so on, or all"
    )
