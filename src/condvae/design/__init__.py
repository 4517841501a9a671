"""Bayesian experimental design: choose which window of an image to scan next, to learn most about a variable."""

from typing import TYPE_CHECKING

from condvae.runtime.lazy import finder

if TYPE_CHECKING:
    from condvae.design.avp_cnn.calibration import expected_calibration_error
    from condvae.design.avp_cnn.classifier_file import (
        ClassifierHeader,
        describe_classifier,
        load_classifier,
        save_classifier,
    )
    from condvae.design.avp_cnn.classifier_options import ClassifierOptions
    from condvae.design.avp_cnn.classifier_training import train_classifier
    from condvae.design.avp_cnn.network import AVPCNN, ClassifierConfig
    from condvae.design.candidates import Candidates
    from condvae.design.choose_location import Location, next_location
    from condvae.design.classifier import Classifier, variable_of
    from condvae.design.information import (
        entropy,
        expected_information_gain,
        expected_posterior_entropy,
        information_gains,
    )
    from condvae.design.lookahead import look_ahead
    from condvae.design.policies import Choice, Greedy, NonGreedy, Policy, Random
    from condvae.design.scanning import Scans, full_image, scan
    from condvae.design.sources import Completions, ImageSource, TrainingImages

_HOMES = {
    "AVPCNN": "condvae.design.avp_cnn.network",
    "Candidates": "condvae.design.candidates",
    "Choice": "condvae.design.policies",
    "Classifier": "condvae.design.classifier",
    "ClassifierConfig": "condvae.design.avp_cnn.network",
    "ClassifierHeader": "condvae.design.avp_cnn.classifier_file",
    "ClassifierOptions": "condvae.design.avp_cnn.classifier_options",
    "Completions": "condvae.design.sources",
    "Greedy": "condvae.design.policies",
    "Location": "condvae.design.choose_location",
    "NonGreedy": "condvae.design.policies",
    "Policy": "condvae.design.policies",
    "Random": "condvae.design.policies",
    "Scans": "condvae.design.scanning",
    "ImageSource": "condvae.design.sources",
    "TrainingImages": "condvae.design.sources",
    "describe_classifier": "condvae.design.avp_cnn.classifier_file",
    "entropy": "condvae.design.information",
    "expected_calibration_error": "condvae.design.avp_cnn.calibration",
    "expected_information_gain": "condvae.design.information",
    "expected_posterior_entropy": "condvae.design.information",
    "look_ahead": "condvae.design.lookahead",
    "full_image": "condvae.design.scanning",
    "information_gains": "condvae.design.information",
    "load_classifier": "condvae.design.avp_cnn.classifier_file",
    "next_location": "condvae.design.choose_location",
    "save_classifier": "condvae.design.avp_cnn.classifier_file",
    "scan": "condvae.design.scanning",
    "train_classifier": "condvae.design.avp_cnn.classifier_training",
    "variable_of": "condvae.design.classifier",
}

__all__ = [
    "AVPCNN",
    "Candidates",
    "Choice",
    "Classifier",
    "ClassifierConfig",
    "ClassifierHeader",
    "ClassifierOptions",
    "Completions",
    "Greedy",
    "ImageSource",
    "Location",
    "NonGreedy",
    "Policy",
    "Random",
    "Scans",
    "TrainingImages",
    "describe_classifier",
    "entropy",
    "expected_calibration_error",
    "expected_information_gain",
    "expected_posterior_entropy",
    "full_image",
    "information_gains",
    "load_classifier",
    "look_ahead",
    "next_location",
    "save_classifier",
    "scan",
    "train_classifier",
    "variable_of",
]

__getattr__ = finder(__name__, _HOMES)
