import pytest
import torch
from torch import nn

from condvae.conditional import ConditionalVAE, PartialConfig
from condvae.likelihood import LogisticMixture
from condvae.vdvae import PRESETS, VDVAE, preset
from condvae.weights.public import _parse_decoder, _parse_encoder

# The layer strings of the public code.
LAYERS = {
    "cifar10": ("32x11,32d2,16x6,16d2,8x6,8d2,4x3,4d4,1x3", "1x1,4m1,4x2,8m4,8x5,16m8,16x10,32m16,32x21"),
    "imagenet32": ("32x15,32d2,16x9,16d2,8x8,8d2,4x6,4d4,1x6", "1x2,4m1,4x4,8m4,8x9,16m8,16x19,32m16,32x40"),
    "imagenet64": (
        "64x11,64d2,32x20,32d2,16x9,16d2,8x8,8d2,4x7,4d4,1x5",
        "1x2,4m1,4x3,8m4,8x7,16m8,16x15,32m16,32x31,64m32,64x12",
    ),
    "ffhq256": (
        "256x3,256d2,128x8,128d2,64x12,64d2,32x17,32d2,16x7,16d2,8x5,8d2,4x5,4d4,1x4",
        "1x2,4m1,4x3,8m4,8x4,16m8,16x9,32m16,32x21,64m32,64x13,128m64,128x7,256m128",
    ),
    "ffhq1024": (
        "1024x1,1024d2,512x3,512d2,256x5,256d2,128x7,128d2,64x10,64d2,32x14,32d2,16x7,16d2,8x5,8d2,4x5,4d4,1x4",
        "1x2,4m1,4x3,8m4,8x4,16m8,16x9,32m16,32x20,64m32,64x14,128m64,128x7,256m128,256x2,512m256,1024m512",
    ),
}


def count(module: nn.Module) -> float:
    return sum(parameter.numel() for parameter in module.parameters()) / 1e6


@pytest.mark.parametrize(
    ("name", "vae", "partial"), [("cifar10", 39, (18, 18)), ("imagenet64", 125, (58, 58)), ("ffhq256", 115, (56, 65))]
)
def test_parameter_counts_match_the_paper(name: str, vae: int, partial: tuple[int, int]) -> None:
    with torch.device("meta"):
        artifact = VDVAE(preset(name))
        model = ConditionalVAE(artifact, PartialConfig(channels=4))
    assert round(count(artifact)) == vae
    assert partial[0] <= round(count(model.partial)) <= partial[1]


@pytest.mark.parametrize(("name", "groups"), [("cifar10", 43), ("imagenet64", 75), ("ffhq256", 66), ("ffhq1024", 70)])
def test_latent_groups_are_those_of_the_public_layers(name: str, groups: int) -> None:
    """The paper states 45, 75 and 62 groups for the first three."""
    assert len(preset(name).group_stages) == groups


@pytest.mark.parametrize("name", LAYERS)
def test_public_presets_have_the_public_layers(name: str) -> None:
    encoder, decoder = LAYERS[name]
    stages = preset(name).stages
    assert {s.resolution: s.encoder_blocks for s in stages} == _parse_encoder(encoder)
    assert {s.resolution: s.decoder_blocks for s in reversed(stages)} == _parse_decoder(decoder)
    assert all(s.groups == s.decoder_blocks and s.inner == s.width // 4 for s in stages)


@pytest.mark.parametrize("name", ["small32", "small64", "small128"])
def test_small_presets_have_2_to_6_million_weights_and_no_latents_at_full_size(name: str) -> None:
    config = preset(name)
    with torch.device("meta"):
        assert 2 <= count(VDVAE(config)) <= 6
    assert config.image_size == int(name.removeprefix("small"))
    assert config.stages[0].groups == 0


def test_x_rays_use_the_network_of_ffhq256_at_8_bits() -> None:
    assert preset("xray256").stages == preset("ffhq256").stages
    assert preset("xray256").likelihood == LogisticMixture(bits=8)
    assert preset("ffhq256").likelihood == LogisticMixture(bits=5)


def test_normalisations_for_pixels_in_the_unit_interval_are_converted_to_grey_levels() -> None:
    for name, shift, std in (("xray256", -0.5, 0.25), ("ffhq1024", -0.4387, 0.2743)):
        normalisation = preset(name).normalisation
        for level in (0, 100, 255):
            assert (level + normalisation.shift) * normalisation.scale == pytest.approx((level / 255 + shift) / std)


def test_presets_accept_changes_and_report_typos() -> None:
    assert preset("small32", channels=1, latent_channels=4).channels == 1
    assert preset("small32", latent_channels=4).latent_channels == 4
    with pytest.raises(ValueError, match=f"unknown preset 'cifar', expected one of {', '.join(PRESETS)}"):
        preset("cifar")
    with pytest.raises(ValueError, match="unknown key for preset tiny: widht"):
        preset("tiny", widht=3)
