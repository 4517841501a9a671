"""Compute a lower bound on log p(y), where y is the known pixels of an image. Several scores use such bounds."""

from torch import Tensor

from condvae import objectives
from condvae.noise import NoiseSource
from condvae.objectives import PixelScore
from condvae.observe import Observation
from condvae.ood.inference import Inference
from condvae.vdvae.encoder import Source


def log_evidence(
    inference: Inference,
    observation: Observation,
    source: Source,
    *,
    noise: NoiseSource,
    pixel_score: PixelScore | None = None,
) -> Tensor:
    """Return a lower bound on log p(y) in nats for each observation, [B]; y is its known pixels, z comes from `source`.

    By default, p(y | z) is the model's likelihood of the pixels. `pixel_score` replaces it; if it returns M scores per
    pixel, return one bound for each of them, [M, B].
    """
    pixels, known = known_pixels(observation)
    return objectives.evidence(inference.vae, source, pixels, known[:, 0], noise=noise, pixel_score=pixel_score).nats


def known_pixels(observation: Observation) -> tuple[Tensor, Tensor]:
    """Return the pixels of an observation, [B, C, H, W] in [-1, 1], and which of them are known, bool [B, 1, H, W].

    Raise ValueError if the observation does not consist of pixels.
    """
    if observation.pixels is None or observation.known is None:
        raise ValueError(
            "this score measures how likely the known pixels are, but the observation contains no pixels (it may be "
            "edges or a label): use one of the scores gradient and parts, which need no pixels"
        )
    return observation.pixels, observation.known
