"""condvae design train."""

from dataclasses import dataclass

from condvae.cli import shared
from condvae.design.avp_cnn.classifier_options import ClassifierOptions


@dataclass(frozen=True, kw_only=True)
class DesignTrain(ClassifierOptions):
    """Train a classifier of partly seen images on labelled ones, and calibrate it: what says how much a scan tells."""

    out: shared.Out

    def run(self) -> None:
        from condvae.design.avp_cnn.classifier_training import train_classifier

        train_classifier(self, shared.say)
