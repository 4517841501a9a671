"""The verb `condvae train`."""

from dataclasses import dataclass
from typing import Annotated

import tyro

from condvae.cli import shared
from condvae.cli.help_text import described, explained
from condvae.completers.learned_names import LEARNED_MEANINGS
from condvae.observe.process_names import PROCESS_MEANINGS
from condvae.training.options import TrainOptions
from condvae.training.presets import TRAIN_PRESETS


@explained(
    data=f"Training images: one data set, or several, which are joined. A data set can be {shared.LAYOUTS_HELP}.",
    preset=shared.preset_help(TRAIN_PRESETS),
    artifact=shared.ARTIFACT_HELP,
    scratch=shared.SCRATCH_HELP,
    baseline="Train another method instead of a VAE, for comparisons: "
    f"{described(LEARNED_MEANINGS)}. NAME-paper is the larger network of the paper, and a JSON file configures others. "
    "A name also sets the other options, like a preset.",
    init=f"{shared.INIT_HELP} It must be a conditional model. Its artifact and its form (direct or relative) are used, "
    "and also its observation process, unless --observe is given.",
    observe=shared.observe_help(
        "The observation process: what is known of each training image. freeform if not given.", PROCESS_MEANINGS
    ),
)
@dataclass(frozen=True, kw_only=True)
class Train(TrainOptions):
    """Train a partial encoder for a pretrained VAE, a whole conditional VAE from scratch, or a baseline."""

    out: shared.Out
    device: shared.Device = "auto"
    observe: Annotated[tuple[str, ...], tyro.conf.arg(metavar="PROCESS")] = ()
    quiet: shared.Quiet = False

    def run(self) -> None:
        from condvae.training import train

        train(shared.settings_of(TrainOptions, self))
