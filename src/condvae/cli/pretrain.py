"""The verb `condvae pretrain`."""

from dataclasses import dataclass

from condvae.cli import shared
from condvae.cli.help_text import explained
from condvae.runtime.messages import listed
from condvae.training.options import PretrainOptions
from condvae.training.presets import PRETRAIN_PRESETS
from condvae.vdvae.network_names import PUBLIC_NETWORKS


@explained(
    data=f"Training images: one data set, or several, which are joined. A data set can be {shared.LAYOUTS_HELP}.",
    preset=shared.preset_help(PRETRAIN_PRESETS),
    network=shared.NETWORK_HELP,
    normalise="Which shift and scale normalise the network's inputs: those measured on the training images (data), or "
    "those in the configuration of the network (network). auto means network for "
    f"{listed(PUBLIC_NETWORKS)}, which come from the public code, and data for all other networks.",
    init=f"{shared.INIT_HELP} The network and the normalisation of that model are used.",
)
@dataclass(frozen=True, kw_only=True)
class Pretrain(PretrainOptions):
    """Train an unconditional VAE on images; `condvae train` can then use it as its artifact."""

    out: shared.Out
    device: shared.Device = "auto"
    quiet: shared.Quiet = False

    def run(self) -> None:
        from condvae.training import pretrain

        pretrain(shared.settings_of(PretrainOptions, self))
