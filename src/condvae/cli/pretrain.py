"""condvae pretrain."""

from dataclasses import dataclass
from typing import Annotated

import tyro

from condvae.cli import shared
from condvae.training.options import PretrainOptions
from condvae.training.presets import PRETRAIN_PRESETS


@dataclass(frozen=True, kw_only=True)
class Pretrain(PretrainOptions):
    """Train an unconditional VAE on images: the artifact that `condvae train` builds on."""

    out: shared.Out
    preset: Annotated[str | None, shared.preset_option(PRETRAIN_PRESETS)] = None
    network: Annotated[str, tyro.conf.arg(help=shared.NETWORK_HELP)] = PretrainOptions.network

    def run(self) -> None:
        from condvae.training import pretrain

        pretrain(self)
