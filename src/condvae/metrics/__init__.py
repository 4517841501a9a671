"""Metrics of completions: distances between images and between sets of images, calibration, and likelihood bounds."""

from typing import TYPE_CHECKING

from condvae.runtime.lazy import finder

if TYPE_CHECKING:
    from condvae.metrics.bounds import (
        ByLikelihood,
        ConditionalNats,
        conditional_nats,
        elbo_bits_per_dim,
        forward_kl_nats_per_dim,
        hidden_bits_per_dim,
    )
    from condvae.metrics.compare_folders import compare
    from condvae.metrics.conditional_frechet import ConditionalMoments, cfid
    from condvae.metrics.conditional_information import (
        ObservedInformation,
        calibrated_nats,
        label_entropy_nats,
        observed_information,
    )
    from condvae.metrics.coverage import Calibration, calibration, projection_ranks, reference_ranks
    from condvae.metrics.discrimination import InceptionDiscrimination, ids
    from condvae.metrics.estimate import Estimate
    from condvae.metrics.frechet import Moments, fid, frechet_distance
    from condvae.metrics.inception import Inception
    from condvae.metrics.kernel_distance import kid
    from condvae.metrics.lpips import LPIPS
    from condvae.metrics.pixel_errors import pixel_mean, psnr, sample_mse, ssim
    from condvae.metrics.ranked_probability import crps, feature_crps, pixel_crps
    from condvae.metrics.samples import FWV_SIGMAS, SampleDistances, faithfulness_weighted_variance, sample_distances
    from condvae.observe.hole_bins import HOLE_BINS, HoleBin, known_in_bin

_HOMES = {
    "kid": "condvae.metrics.kernel_distance",
    "ids": "condvae.metrics.discrimination",
    "fid": "condvae.metrics.frechet",
    "compare": "condvae.metrics.compare_folders",
    "FWV_SIGMAS": "condvae.metrics.samples",
    "HOLE_BINS": "condvae.observe.hole_bins",
    "LPIPS": "condvae.metrics.lpips",
    "ByLikelihood": "condvae.metrics.bounds",
    "ConditionalMoments": "condvae.metrics.conditional_frechet",
    "ConditionalNats": "condvae.metrics.bounds",
    "Calibration": "condvae.metrics.coverage",
    "Estimate": "condvae.metrics.estimate",
    "HoleBin": "condvae.observe.hole_bins",
    "Inception": "condvae.metrics.inception",
    "InceptionDiscrimination": "condvae.metrics.discrimination",
    "Moments": "condvae.metrics.frechet",
    "ObservedInformation": "condvae.metrics.conditional_information",
    "SampleDistances": "condvae.metrics.samples",
    "sample_mse": "condvae.metrics.pixel_errors",
    "calibrated_nats": "condvae.metrics.conditional_information",
    "calibration": "condvae.metrics.coverage",
    "cfid": "condvae.metrics.conditional_frechet",
    "conditional_nats": "condvae.metrics.bounds",
    "crps": "condvae.metrics.ranked_probability",
    "elbo_bits_per_dim": "condvae.metrics.bounds",
    "faithfulness_weighted_variance": "condvae.metrics.samples",
    "feature_crps": "condvae.metrics.ranked_probability",
    "forward_kl_nats_per_dim": "condvae.metrics.bounds",
    "frechet_distance": "condvae.metrics.frechet",
    "hidden_bits_per_dim": "condvae.metrics.bounds",
    "known_in_bin": "condvae.observe.hole_bins",
    "label_entropy_nats": "condvae.metrics.conditional_information",
    "observed_information": "condvae.metrics.conditional_information",
    "pixel_crps": "condvae.metrics.ranked_probability",
    "pixel_mean": "condvae.metrics.pixel_errors",
    "projection_ranks": "condvae.metrics.coverage",
    "psnr": "condvae.metrics.pixel_errors",
    "reference_ranks": "condvae.metrics.coverage",
    "sample_distances": "condvae.metrics.samples",
    "ssim": "condvae.metrics.pixel_errors",
}

__all__ = [
    "FWV_SIGMAS",
    "HOLE_BINS",
    "LPIPS",
    "ByLikelihood",
    "Calibration",
    "ConditionalMoments",
    "ConditionalNats",
    "Estimate",
    "HoleBin",
    "Inception",
    "InceptionDiscrimination",
    "Moments",
    "ObservedInformation",
    "SampleDistances",
    "calibrated_nats",
    "calibration",
    "cfid",
    "compare",
    "conditional_nats",
    "crps",
    "elbo_bits_per_dim",
    "faithfulness_weighted_variance",
    "feature_crps",
    "fid",
    "forward_kl_nats_per_dim",
    "frechet_distance",
    "hidden_bits_per_dim",
    "ids",
    "kid",
    "known_in_bin",
    "label_entropy_nats",
    "observed_information",
    "pixel_crps",
    "pixel_mean",
    "projection_ranks",
    "psnr",
    "reference_ranks",
    "sample_distances",
    "sample_mse",
    "ssim",
]

__getattr__ = finder(__name__, _HOMES)
