"""Presets: named configurations of the public checkpoints' networks, and of small networks that train in minutes."""

import dataclasses
from collections.abc import Iterable, Sequence
from typing import Any

from condvae.likelihood import GaussianPixels, LogisticMixture
from condvae.vdvae.config import Normalisation, Stage, VDVAEConfig

# Columns: resolution, width, inner width, encoder blocks, decoder blocks, latent blocks (omitted: all decoder blocks).
_TABLES: dict[str, list[tuple[int, ...]]] = {
    "cifar10": [
        (32, 384, 96, 12, 22),
        (16, 384, 96, 7, 11),
        (8, 384, 96, 7, 6),
        (4, 384, 96, 4, 3),
        (1, 384, 96, 3, 1),
    ],
    "imagenet32": [
        (32, 512, 128, 16, 41),
        (16, 512, 128, 10, 20),
        (8, 512, 128, 9, 10),
        (4, 512, 128, 7, 5),
        (1, 512, 128, 6, 2),
    ],
    "imagenet64": [
        (64, 512, 128, 12, 13),
        (32, 512, 128, 21, 32),
        (16, 512, 128, 10, 16),
        (8, 512, 128, 9, 8),
        (4, 512, 128, 8, 4),
        (1, 512, 128, 5, 2),
    ],
    "ffhq256": [
        (256, 512, 128, 4, 1),
        (128, 512, 128, 9, 8),
        (64, 512, 128, 13, 14),
        (32, 512, 128, 18, 22),
        (16, 512, 128, 8, 10),
        (8, 512, 128, 6, 5),
        (4, 512, 128, 6, 4),
        (1, 512, 128, 4, 2),
    ],
    "ffhq1024": [
        (1024, 16, 4, 2, 1),
        (512, 32, 8, 4, 1),
        (256, 64, 16, 6, 3),
        (128, 512, 128, 8, 8),
        (64, 512, 128, 11, 15),
        (32, 512, 128, 15, 21),
        (16, 512, 128, 8, 10),
        (8, 512, 128, 6, 5),
        (4, 512, 128, 6, 4),
        (1, 512, 128, 4, 2),
    ],
    # Our own presets. They have no latents at the finest resolution, where small models do not use them, and few
    # channels at high resolutions.
    "tiny": [
        (8, 16, 8, 2, 2, 1),
        (4, 16, 8, 2, 2),
        (1, 16, 8, 1, 1),
    ],
    "demo32": [
        (32, 16, 16, 1, 1, 0),
        (16, 32, 16, 1, 1, 0),
        (8, 64, 32, 1, 1),
        (4, 128, 48, 2, 4),
        (1, 128, 48, 1, 2),
    ],
    "small32": [
        (32, 64, 32, 2, 2, 0),
        (16, 96, 32, 4, 8),
        (8, 128, 36, 4, 7),
        (4, 128, 32, 3, 4),
        (1, 128, 32, 2, 2),
    ],
    "small64": [
        (64, 48, 32, 2, 2, 0),
        (32, 96, 32, 3, 4),
        (16, 144, 48, 5, 10),
        (8, 192, 48, 5, 8),
        (4, 192, 48, 3, 4),
        (1, 192, 48, 2, 2),
    ],
    # The embedded model faces64: most latent groups are where details are decided, and few at the resolutions 1 and 4,
    # where a few nats suffice.
    "faces64": [
        (64, 64, 32, 2, 2, 0),
        (32, 128, 64, 3, 8),
        (16, 192, 64, 4, 10),
        (8, 256, 64, 4, 7),
        (4, 256, 64, 2, 3),
        (1, 256, 64, 1, 1),
    ],
    # The embedded model cifar10, at most 5 MiB: latents at 32 x 32 improved nothing and cost a third of the speed.
    "cifar10-small": [
        (32, 48, 32, 2, 2, 0),
        (16, 96, 32, 3, 9),
        (8, 112, 32, 3, 5),
        (4, 112, 32, 2, 3),
        (1, 112, 32, 1, 1),
    ],
    # The embedded model xray, for grey images: small, because it has only a few thousand training images and its file
    # must leave room for a classifier.
    "xray64": [
        (64, 32, 16, 2, 2, 0),
        (32, 48, 16, 2, 5),
        (16, 80, 32, 2, 5),
        (8, 80, 32, 2, 3),
        (4, 80, 32, 1, 2),
        (1, 80, 32, 1, 1),
    ],
    # A VAE of photos of everything, which serves as artifact for other data sets.
    "tiny64": [
        (64, 48, 32, 2, 2, 0),
        (32, 96, 32, 3, 7),
        (16, 192, 48, 4, 9),
        (8, 224, 64, 4, 6),
        (4, 224, 64, 2, 3),
        (1, 224, 64, 1, 1),
    ],
    # The embedded model shoes64, at most 6 MiB.
    "shoes64": [
        (64, 48, 32, 2, 2, 0),
        (32, 80, 32, 2, 5),
        (16, 112, 32, 3, 6),
        (8, 128, 48, 2, 4),
        (4, 128, 48, 1, 2),
        (1, 128, 48, 1, 1),
    ],
    "small128": [
        (128, 32, 32, 2, 2, 0),
        (64, 64, 32, 2, 2),
        (32, 96, 32, 3, 6),
        (16, 144, 48, 4, 10),
        (8, 192, 48, 4, 7),
        (4, 192, 48, 3, 4),
        (1, 192, 48, 2, 2),
    ],
}
_TABLES["xray256"] = _TABLES["ffhq256"]


def _from_unit(shift: float, std: float) -> Normalisation:
    """Convert a normalisation for pixels in [0, 1] to one for grey levels from 0 to 255."""
    return Normalisation(shift=shift * 255, scale=1 / (std * 255))


_PUBLIC: dict[str, dict[str, Any]] = {
    "cifar10": {"normalisation": Normalisation(shift=-120.63838, scale=1 / 64.16736)},
    "imagenet32": {"normalisation": Normalisation(shift=-116.2373, scale=1 / 69.37404)},
    "imagenet64": {"normalisation": Normalisation(shift=-115.92961967, scale=1 / 69.37404)},
    "ffhq256": {
        "normalisation": Normalisation(shift=-112.8666757481, scale=1 / 69.84780273),
        "likelihood": LogisticMixture(bits=5),
    },
    "xray256": {"normalisation": _from_unit(-0.5, 0.25)},
    "ffhq1024": {"normalisation": _from_unit(-0.4387, 0.2743), "likelihood": LogisticMixture(components=2)},
}
_OURS: dict[str, Any] = {"scales": "softplus", "likelihood": LogisticMixture(components=5, bins="exact")}
# A minute of training is too short to learn details: use latents only for structure, and a high noise floor.
_OURS_BY_NAME: dict[str, dict[str, Any]] = {
    "demo32": {"scales": "softplus", "likelihood": GaussianPixels(noise_floor=0.1), "latent_channels": 8},
    # A quarter of an hour is too short to learn the grain of photos, and bits spent on it would be missing for faces.
    "faces64": {"scales": "softplus", "likelihood": GaussianPixels(noise_floor=0.08)},
    "cifar10-small": {"scales": "softplus", "likelihood": GaussianPixels(noise_floor=0.07)},
    "tiny64": {"scales": "softplus", "likelihood": GaussianPixels(noise_floor=0.05)},
    # Photos of products are sharp, and their background is one colour.
    "shoes64": {"scales": "softplus", "likelihood": GaussianPixels(noise_floor=0.05)},
    # Ribs and vessels are faint, and downsized scans have little grain, so the noise floor is lower.
    "xray64": {"scales": "softplus", "likelihood": GaussianPixels(noise_floor=0.05, channels=1), "largest_bias": 16},
}


def stages_of_rows(rows: Iterable[Sequence[int]]) -> tuple[Stage, ...]:
    """Return the stages of a network from a table with the columns of the tables above."""
    fields = ("resolution", "width", "inner", "encoder_blocks", "decoder_blocks", "latent_blocks")
    return tuple(Stage(**dict(zip(fields, row, strict=False))) for row in rows)


PRESETS = tuple(sorted(_TABLES))
PUBLIC_PRESETS = tuple(sorted(_PUBLIC))


def preset(name: str, *, channels: int | None = None, **changes: Any) -> VDVAEConfig:
    """Return the configuration of a preset. changes: new values of its fields. channels: new number of image channels.

    Public networks have three channels, even for x-rays, where the three are equal. channels=1 is for grey images.
    """
    if name not in _TABLES:
        raise ValueError(f"unknown preset {name!r}, expected one of {', '.join(PRESETS)}")
    config = VDVAEConfig(stages=stages_of_rows(_TABLES[name]), **_PUBLIC.get(name, _OURS_BY_NAME.get(name, _OURS)))
    field_names = {f.name for f in dataclasses.fields(config)}
    if unknown := sorted(set(changes) - field_names):
        raise ValueError(
            f"unknown key for preset {name}: {', '.join(unknown)}; "
            f"expected keys are channels, {', '.join(sorted(field_names))}"
        )
    config = dataclasses.replace(config, **changes)
    if channels is not None:
        config = dataclasses.replace(config, likelihood=dataclasses.replace(config.likelihood, channels=channels))
    return config
