"""What is drawn when an image is completed."""
# No torch here: the command line inherits these options.

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from numbers import Integral
from typing import TYPE_CHECKING, Literal

from condvae.runtime.checks import check_choice, check_seed, check_whole

if TYPE_CHECKING:
    from condvae.vdvae.config import VDVAEConfig

MOST_COMPLETIONS = 10_000


@dataclass(frozen=True, kw_only=True)
class CompletionSettings:
    """What is drawn."""

    n: int = 8
    """Completions of each image."""
    temperature: float | Sequence[float] | Mapping[int, float] | str = 1.0
    seed: int = 0
    """Decides everything that is drawn at random; the same seed gives the same result."""
    pixels: Literal["mean", "sample"] = "mean"
    """Pixels as the mean of their distribution, which looks best, or drawn from it."""
    share: int | None = None
    """Vary only the details: latents up to this resolution are those of the first completion in all of them."""
    keep_size: bool = False
    """Paste what was completed back into the whole image at its own size; all other pixels stay exactly as they are."""

    def __post_init__(self) -> None:
        for name in ("n", "seed", "share"):
            if not isinstance(value := getattr(self, name), bool) and isinstance(value, Integral):
                object.__setattr__(self, name, int(value))  # NumPy has whole numbers of its own
        check_whole(self.n, "the number of completions", least=1)
        if self.n > MOST_COMPLETIONS:
            raise ValueError(f"the number of completions is {self.n}, expected at most {MOST_COMPLETIONS}")
        check_seed(self.seed)
        check_choice(self.pixels, "pixels", ("mean", "sample"))
        check_choice(self.keep_size, "keep_size", (True, False))

    def checked(self, config: "VDVAEConfig") -> "CompletionSettings":
        """With the temperature as plain numbers; a ValueError if the model has no such groups of latents."""
        from condvae.sampling.unconditional import groups_down_to
        from condvae.vdvae.temperature import per_group

        if self.share is not None:
            check_whole(self.share, "the resolution up to which latents are shared", least=1)
            groups_down_to(config, self.share)
        each = per_group(self.temperature, config)
        return replace(self, temperature=each[0] if len(set(each)) == 1 else each)
