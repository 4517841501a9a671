"""Bayesian experimental design: where to look next, to tell most about a variable."""

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
    from condvae.design.avp_cnn.network import AVPCNN, ClassifierConfig
    from condvae.design.avp_cnn.options import ClassifierOptions
    from condvae.design.avp_cnn.training import train_classifier
    from condvae.design.candidates import Candidates
    from condvae.design.classifier import Classifier, variable_of
    from condvae.design.information import (
        entropy,
        expected_information_gain,
        expected_posterior_entropy,
        information_gains,
    )
    from condvae.design.location import Location, next_location
    from condvae.design.lookahead import foresee
    from condvae.design.policies import Choice, Greedy, NonGreedy, Policy, Random
    from condvae.design.scanning import Scans, full_image, scan
    from condvae.design.sources import Completions, Source, TrainingImages

_HOMES = {
    "AVPCNN": "condvae.design.avp_cnn.network",
    "Candidates": "condvae.design.candidates",
    "Choice": "condvae.design.policies",
    "Classifier": "condvae.design.classifier",
    "ClassifierConfig": "condvae.design.avp_cnn.network",
    "ClassifierHeader": "condvae.design.avp_cnn.classifier_file",
    "ClassifierOptions": "condvae.design.avp_cnn.options",
    "Completions": "condvae.design.sources",
    "Greedy": "condvae.design.policies",
    "Location": "condvae.design.location",
    "NonGreedy": "condvae.design.policies",
    "Policy": "condvae.design.policies",
    "Random": "condvae.design.policies",
    "Scans": "condvae.design.scanning",
    "Source": "condvae.design.sources",
    "TrainingImages": "condvae.design.sources",
    "describe_classifier": "condvae.design.avp_cnn.classifier_file",
    "entropy": "condvae.design.information",
    "expected_calibration_error": "condvae.design.avp_cnn.calibration",
    "expected_information_gain": "condvae.design.information",
    "expected_posterior_entropy": "condvae.design.information",
    "foresee": "condvae.design.lookahead",
    "full_image": "condvae.design.scanning",
    "information_gains": "condvae.design.information",
    "load_classifier": "condvae.design.avp_cnn.classifier_file",
    "next_location": "condvae.design.location",
    "save_classifier": "condvae.design.avp_cnn.classifier_file",
    "scan": "condvae.design.scanning",
    "train_classifier": "condvae.design.avp_cnn.training",
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
    "Location",
    "NonGreedy",
    "Policy",
    "Random",
    "Scans",
    "Source",
    "TrainingImages",
    "describe_classifier",
    "entropy",
    "expected_calibration_error",
    "expected_information_gain",
    "expected_posterior_entropy",
    "foresee",
    "full_image",
    "information_gains",
    "load_classifier",
    "next_location",
    "save_classifier",
    "scan",
    "train_classifier",
    "variable_of",
]

__getattr__ = finder(__name__, _HOMES)
