"""The sub-verb `condvae design train`."""

from dataclasses import dataclass
from typing import Annotated

import tyro

from condvae.cli import shared
from condvae.cli.help_text import described, explained
from condvae.data.fetched_data import FETCHED_NAME
from condvae.design.avp_cnn.classifier_options import TRUNK_MEANINGS, ClassifierOptions
from condvae.observe.process_names import PIXEL_PROCESS_MEANINGS


@explained(
    data="Labelled images: one data set, or several, which are joined. A data set can be Chest X-ray 14, CIFAR-10, a "
    "pack (images with a dataset.json) that has labels, or other labelled data that `condvae train` reads; or "
    f"{FETCHED_NAME}, after `condvae fetch {FETCHED_NAME}` has downloaded it.",
    observe=shared.observe_help(
        "The observation process: which pixels of each training image are known. By default, all pixels are known in "
        "one image of ten; in the others, 0 to 5 square patches are known, each a quarter as wide as the image.",
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
    quiet: shared.Quiet = False

    def run(self) -> None:
        from condvae.design.avp_cnn.classifier_training import train_classifier

        train_classifier(shared.settings_of(ClassifierOptions, self), shared.say)
