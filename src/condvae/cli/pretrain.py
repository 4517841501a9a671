"""condvae pretrain."""

from dataclasses import dataclass

from condvae.cli import shared
from condvae.cli.help_text import explained
from condvae.training.options import PretrainOptions
from condvae.training.presets import PRETRAIN_PRESETS


@explained(
    data=f"Training images, one or several data sets, which are joined: {shared.LAYOUTS_HELP}.",
    preset=shared.preset_help(PRETRAIN_PRESETS),
    network=shared.NETWORK_HELP,
    init=f"{shared.INIT_HELP} The model's network and normalisation are used.",
)
@dataclass(frozen=True, kw_only=True)
class Pretrain(PretrainOptions):
    """Train an unconditional VAE on images: the artifact that `condvae train` builds on."""

    out: shared.Out
    device: shared.Device = "auto"

    def run(self) -> None:
        from condvae.training import pretrain

        pretrain(self)
