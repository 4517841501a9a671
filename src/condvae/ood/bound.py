"""A lower bound on log p(y) for the known pixels y of an image. Several scores are differences of such bounds."""

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
    """Return a lower bound on log p(y) in nats, [B], where y is the known pixels and z is drawn from `source`.

    If `pixel_score` returns M scores per pixel, return one bound for each of them, [M, B].
    """
    pixels, known = known_pixels(observation)
    return objectives.evidence(inference.vae, source, pixels, known[:, 0], noise=noise, pixel_score=pixel_score).nats


def known_pixels(observation: Observation) -> tuple[Tensor, Tensor]:
    """Return the pixels, [B, C, H, W] in [-1, 1], and where they are known, [B, 1, H, W].

    Raise ValueError if the observation does not consist of pixels.
    """
    if observation.pixels is None or observation.known is None:
        raise ValueError(
            "this score measures how likely the known pixels are, but the observation contains no pixels (it may be "
            "edges or a label): use the score gradient or parts"
        )
    return observation.pixels, observation.known
