"""Verbs that train: pretrain, train."""

from dataclasses import dataclass

from condvae.training.options import PretrainOptions, TrainOptions


@dataclass(frozen=True, kw_only=True)
class Pretrain(PretrainOptions):
    """Train an unconditional VAE on images: the artifact that `condvae train` builds on."""

    def run(self) -> None:
        from condvae.training import pretrain

        pretrain(self)


@dataclass(frozen=True, kw_only=True)
class Train(TrainOptions):
    """Train a partial encoder for a pretrained VAE, or a whole conditional VAE from scratch."""

    def run(self) -> None:
        from condvae.training import train

        train(self)
