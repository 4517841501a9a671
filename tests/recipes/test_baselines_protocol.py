"""The differences of protocol on docs/results/baselines.md are those of the presets and of the paper's table."""

import re

from condvae.completers.comodulated import ComodulatedConfig
from condvae.completers.learned_baselines import make_completer, make_loss, named_config
from condvae.completers.learned_names import LEARNED_PRESETS
from condvae.runtime.devices import without_weights
from condvae.training.presets import TRAIN_PRESETS
from recipes import baselines_results
from recipes.evaluation_results import CIFAR10

WORDS = re.sub(r"\s+", " ", baselines_results.page_at().path.read_text())
PAPER = {row.method: row for row in CIFAR10}
FIRST = ("ce", "anp", "pic", "rfr")
"""The baselines of the first call."""
KINDS = (*FIRST, "comodgan", "vqvae", "diffusion")


def test_sizes_are_those_of_the_presets() -> None:
    published = (*FIRST, "comodgan", "vqvae")
    ours, papers = ({name: LEARNED_PRESETS[name + end] for name in published} for end in ("", "-paper"))
    (pic, pic_paper), (rfr, rfr_paper) = ((ours[name], papers[name]) for name in ("pic", "rfr"))
    default = ComodulatedConfig(image_size=32)
    (gan, gan_paper), (vq, vq_paper) = ((ours[name], papers[name]) for name in ("comodgan", "vqvae"))
    for words in (
        f"a bottleneck of {ours['ce']['bottleneck']} features instead of {papers['ce']['bottleneck']:,}",
        f"a width of {ours['anp']['width']} instead of {papers['anp']['width']}",
        f"RFR has {rfr['widths'][0]} to {rfr['widths'][-1]} channels instead of {rfr_paper['widths'][0]} to "
        f"{rfr_paper['widths'][-1]}",
        "kernels of {} and {} pixels instead of {}".format(*rfr["kernels"], rfr_paper["kernels"][0]),
        f"CoModGAN has at most {gan['max_width']} channels instead of {gan_paper['max_width']}, z has "
        f"{gan['latent_features']} features instead of {gan_paper['latent_features']}, c has {gan['code_features']} "
        f"instead of {gan_paper['code_features']:,}, and {gan['mapping_layers']} layers instead of "
        f"{gan_paper['mapping_layers']} compute w from z",
        f"{vq['structure_attentions']} attention layers instead of {vq_paper['structure_attentions']}, a condition "
        f"network of {vq['condition_width']} channels and {vq['condition_blocks']} blocks instead of "
        f"{vq_paper['condition_width']} and {vq_paper['condition_blocks']}, and a texture width of "
        f"{vq['texture_width']} instead of {vq_paper['texture_width']}",
        f"VQ-VAE has {vq['codes']} codes instead of {vq_paper['codes']}, {vq['structure_blocks']} blocks of "
        f"{vq['structure_width']} channels instead of {vq_paper['structure_blocks']} of {vq_paper['structure_width']}",
        f"The weight of the R1 penalty is {gan['r1_weight']:g} instead of {default.r1_weight:g}",
    ):
        assert words in WORDS
    assert "r1_weight" not in gan_paper and default.r1_part == 1 / 16
    assert (vq["bottom_halvings"], vq_paper["bottom_halvings"]) == (1, 2)
    assert "halves the image once instead of twice before the codes of its lower level" in WORDS
    assert (rfr["strides"], rfr_paper["strides"]) == (2, 3) and "two strides instead of three" in WORDS
    halvings = [(size // one["latent_size"]).bit_length() - 1 for size, one in ((32, pic), (256, pic_paper))]
    assert halvings == [3, 5] and "halves the image three times instead of five" in WORDS
    assert (pic["width"], pic["max_width"]) == (64, 256) and "with 64, 128 and 256 channels" in WORDS
    assert (pic_paper["width"], pic_paper["max_width"]) == (32, 128) and "instead of 32 to 128" in WORDS
    assert (pic["output_scales"], pic_paper["output_scales"]) == (3, 4) and "three scales instead of four" in WORDS
    assert all(TRAIN_PRESETS[name]["ema"] < 1 for name in KINDS) and "averaged weights for all" in WORDS


def test_images_of_comodgan_are_those_of_the_paper() -> None:
    ours = baselines_results.page_at().raw()["baselines"]["training"]["comodgan"]["parts"]["network"]
    steps, batch = (TRAIN_PRESETS["comodgan-paper"][name] for name in ("steps", "batch"))
    said = f"It saw {ours['images_seen'] / 1e6:.1f} million images here, in batches of {ours['batch']}; the paper's "
    assert f"{said}{steps:,} steps of {batch} images are {steps * batch / 1e6:.1f} million" in WORDS


def test_times_of_the_paper_are_those_of_its_table() -> None:
    hours = {name: PAPER[name].hours for name in ("CE", "ANP", "PIC", "RFR", "CoModGAN")}
    assert f"The paper's baselines took {min(hours.values())} to {max(hours.values())} GPU-hours" in WORDS
    assert f"CE took {hours['CE']} hours on a 2080 Ti, and RFR {hours['RFR']} on a V100" in WORDS


def test_optimisers_are_those_of_the_presets() -> None:
    ours, papers = ({name: TRAIN_PRESETS[name + end] for name in FIRST} for end in ("", "-paper"))
    times = {name: f"{round(ours[name]['lr'] / papers[name]['lr'], 3):g}" for name in ours}
    said = (
        f"are {times['ce']} (CE), {times['anp']} (ANP), {times['pic']} (PIC) and {times['rfr']} times (RFR) the paper's"
    )
    assert said in WORDS
    assert {(one["schedule"], one["final_lr"]) for one in ours.values()} == {("cosine", 0.02)}
    assert "fall to 2 % of their peak along a cosine, as does that of VQ-VAE" in WORDS
    assert (TRAIN_PRESETS["vqvae"]["schedule"], TRAIN_PRESETS["vqvae"]["final_lr"]) == ("cosine", 0.02)
    assert TRAIN_PRESETS["comodgan"]["lr"] == TRAIN_PRESETS["comodgan-paper"]["lr"]
    assert {TRAIN_PRESETS[name]["schedule"] for name in ("comodgan", "diffusion")} == {"constant"}


def test_discriminators_are_counted_as_stated() -> None:
    """Most of the other weights of the paper's PIC are those of two discriminators; the rest is a block without use."""
    with without_weights():
        losses = make_loss(make_completer(named_config("pic-paper", image_size=256, channels=3)))
    assert losses.critic is not None
    without, critic = (sum(w.numel() for w in net.parameters()) / 1e6 for net in (losses.completer, losses.critic))
    assert f"without them it has {without:.1f} million" in WORDS
    assert 8 < without + critic < int(PAPER["PIC"].weights) == 9
    with without_weights():
        gan = make_completer(named_config("comodgan-paper", image_size=32, channels=3))
    count = sum(weight.numel() for weight in gan.parameters()) / 1e6
    said = (
        f"The paper's {PAPER['CoModGAN'].weights} million weights of CoModGAN include its discriminator; without it, it"
    )
    assert f"{said} has {count:.1f} million" in WORDS
