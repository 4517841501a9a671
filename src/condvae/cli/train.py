"""condvae train."""

from dataclasses import dataclass
from typing import Annotated

from condvae.cli import shared
from condvae.training.options import TrainOptions
from condvae.training.presets import TRAIN_PRESETS


@dataclass(frozen=True, kw_only=True)
class Train(TrainOptions):
    """Train a partial encoder for a pretrained VAE, or a whole conditional VAE from scratch."""

    out: shared.Out
    preset: Annotated[str | None, shared.preset_option(TRAIN_PRESETS)] = None

    def run(self) -> None:
        from condvae.training import train

        train(self)
