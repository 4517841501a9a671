"""condvae design train."""

from dataclasses import dataclass
from typing import Annotated

import tyro

from condvae.cli import shared
from condvae.cli.help_text import described, explained
from condvae.data.fetched_data import FETCHED_NAME
from condvae.design.avp_cnn.classifier_options import TRUNK_MEANINGS, ClassifierOptions
from condvae.observe.process_names import PIXEL_PROCESS_MEANINGS


@explained(
    data="Labelled images, one or several data sets, which are joined: Chest X-ray 14, CIFAR-10, a pack whose "
    "dataset.json has labels, or other data with labels that `condvae train` reads; or "
    f"{FETCHED_NAME}, after `condvae fetch {FETCHED_NAME}` has downloaded it.",
    observe=shared.observe_help(
        "The observation process: which pixels of each training image are known. By default, 0 to 5 patches with a "
        "quarter of the image's width, but the whole image for one image in ten.",
        PIXEL_PROCESS_MEANINGS,
    ),
    trunk=f"The convolutional network: {described(TRUNK_MEANINGS)}.",
)
@dataclass(frozen=True, kw_only=True)
class DesignTrain(ClassifierOptions):
    """Train and calibrate a classifier that predicts variables from the known pixels of an image."""

    out: shared.Out
    device: shared.Device = "auto"
    observe: Annotated[tuple[str, ...], tyro.conf.arg(metavar="PROCESS")] = ClassifierOptions.observe

    def run(self) -> None:
        from condvae.design.avp_cnn.classifier_training import train_classifier

        train_classifier(self, shared.say)
