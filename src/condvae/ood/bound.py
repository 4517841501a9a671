"""What is known of an image, bounded from below under any source of z: what several scores compare with itself."""

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
    """[B] in nats: at most log p(y), y being the known pixels, with z from the source; [M, B] by M pixel scores."""
    pixels, known = known_pixels(observation)
    return objectives.evidence(inference.vae, source, pixels, known[:, 0], noise=noise, pixel_score=pixel_score).nats


def known_pixels(observation: Observation) -> tuple[Tensor, Tensor]:
    """[B, C, H, W] in [-1, 1] and where they are known, [B, 1, H, W]; a ValueError where y is something else."""
    if observation.pixels is None or observation.known is None:
        raise ValueError(
            "this score asks how likely the known pixels are, but the observation holds none (as with edges or "
            "labels): take gradient or parts"
        )
    return observation.pixels, observation.known
