import json
from dataclasses import replace
from typing import Any

import pytest

from condvae.likelihood import GaussianPixels, LogisticMixture
from condvae.vdvae import PRESETS, Stage, VDVAEConfig, preset


def stage(resolution: int, *, encoder: int = 1, decoder: int = 1, latent: int | None = None, width: int = 4) -> Stage:
    return Stage(
        resolution=resolution,
        width=width,
        inner=2,
        encoder_blocks=encoder,
        decoder_blocks=decoder,
        latent_blocks=latent,
    )


@pytest.mark.parametrize("name", PRESETS)
def test_configs_survive_json(name: str) -> None:
    config = preset(name)
    assert VDVAEConfig.from_dict(json.loads(json.dumps(config.to_dict()))) == config


def test_a_gaussian_config_survives_json() -> None:
    config = preset("tiny", likelihood=GaussianPixels(channels=1, noise_floor=0.05))
    assert VDVAEConfig.from_dict(json.loads(json.dumps(config.to_dict()))) == config


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ((), "unknown key in network config: widht"),
        (("likelihood",), "unknown key in likelihood: widht"),
        (("normalisation",), "unknown key in normalisation: widht"),
        (("stages", 0), "unknown key in stage: widht"),
    ],
)
def test_a_typo_is_named(path: tuple[str | int, ...], message: str) -> None:
    plain = json.loads(json.dumps(preset("tiny").to_dict()))
    place = plain
    for key in path:
        place = place[key]
    place["widht"] = 3
    with pytest.raises(ValueError, match=message):
        VDVAEConfig.from_dict(plain)


def test_a_missing_key_is_named() -> None:
    plain = preset("tiny").to_dict()
    del plain["stages"][0]["width"]
    with pytest.raises(ValueError, match="missing key in stage: width"):
        VDVAEConfig.from_dict(plain)
    with pytest.raises(ValueError, match="missing key in network config: stages"):
        VDVAEConfig.from_dict({})
    with pytest.raises(ValueError, match="unknown likelihood 'poisson'"):
        VDVAEConfig.from_dict({**preset("tiny").to_dict(), "likelihood": {"kind": "poisson"}})


@pytest.mark.parametrize(
    ("stages", "message"),
    [
        ((), "at least one stage"),
        ((stage(12),), "resolution 12, expected a power of two"),
        ((stage(0),), "expected a power of two"),
        ((stage(8), stage(8)), "expected resolutions in decreasing order"),
        ((stage(4), stage(8)), "expected resolutions in decreasing order"),
        ((stage(8, encoder=0), stage(4)), "stage 8 has no encoder block, but one must pool to stage 4"),
        ((stage(8, decoder=0), stage(4)), "must reach the image"),
        ((stage(8, latent=2), stage(4)), "stage 8 has 1 decoder block, but latent_blocks is 2"),
        ((stage(8, latent=0), stage(4, latent=0)), "no stage has latents"),
        ((stage(8, width=0),), "width of stage 8 is 0, expected a whole number, at least 1"),
        ((stage(8, width=2.5),), "width of stage 8 is 2.5"),  # type: ignore[arg-type]
        ((stage(8, decoder=-1),), "decoder blocks of stage 8 is -1, expected a whole number, at least 0"),
    ],
)
def test_impossible_networks_are_refused(stages: tuple[Stage, ...], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        VDVAEConfig(stages=stages)


def test_other_impossible_values_are_refused() -> None:
    with pytest.raises(ValueError, match="expected 'log_std' or 'softplus'"):
        preset("tiny", scales="exp")
    with pytest.raises(ValueError, match="latent_channels is 0"):
        preset("tiny", latent_channels=0)
    wrong: list[Any] = [0.0, float("inf"), float("nan"), "1"]
    for scale in wrong:
        with pytest.raises(ValueError, match="expected finite numbers, with scale > 0"):
            replace(preset("tiny").normalisation, scale=scale)
    with pytest.raises(ValueError, match="largest_bias is nan"):
        preset("tiny", largest_bias=float("nan"))


def test_derived_sizes() -> None:
    config = VDVAEConfig(
        stages=(
            stage(16, decoder=2, latent=0),
            stage(8, decoder=3, latent=2),
            stage(4, decoder=0),
            stage(1, encoder=0),
        ),
        likelihood=LogisticMixture(channels=1),
    )
    assert (config.image_size, config.channels, config.image_dims) == (16, 1, 256)
    assert [s.resolution for s in config.decoder_stages] == [1, 8, 16]
    assert [s.resolution for s in config.group_stages] == [1, 8, 8]
