"""Counted operations agree with the networks themselves and with the figures in docs/results/performance.md."""

import pytest
import torch
from helpers.models import generator, images, small_conditional, some_known
from torch.utils.flop_counter import FlopCounterMode

from benchmarks import flops
from condvae import objectives
from condvae.sampling.plain import sample_conditional
from condvae.vdvae import preset


def test_counts_for_the_public_networks() -> None:
    """These counts were used to set the targets. They include the prior's means and scales, 0.4 % of a completion."""
    config = preset("cifar10")
    assert flops.ipa_step(config) == pytest.approx(103e9, rel=0.02)
    assert flops.completion(config) == pytest.approx(37.8e9, rel=0.02)
    assert flops.ipa_step(preset("ffhq256")) == pytest.approx(3.1e12, rel=0.02)
    assert flops.ipa_step(preset("imagenet64")) == pytest.approx(721e9, rel=0.02)


@pytest.mark.parametrize("network", ["tiny", "demo32"])
def test_counts_are_those_of_the_networks(network: str) -> None:
    config = preset(network)
    model, batch, size = small_conditional(config), 2, config.image_size
    model.artifact.decoder.output.weight.data.mul_(1e-6)  # otherwise pixels of these random weights are saturated
    x = images(batch, size=size)
    observation = model.observe(x, some_known(batch, size=size))
    with FlopCounterMode(display=False) as counted:
        sample_conditional(model, observation, 3, noise=generator(), pixels="mean")
    expected = 3 * flops.completion(config) + flops.encoding(config)
    assert counted.get_total_flops() == batch * expected
    with FlopCounterMode(display=False) as counted, torch.no_grad():
        objectives.forward(model, x, observation, noise=generator(), likelihood=False)
    step = flops.ipa_step(config) - 2 * flops.partial_encoder(config)
    assert counted.get_total_flops() == batch * step


def test_a_training_step_counts_three_forward_passes() -> None:
    """Trained layers count three times; autograd skips the gradient of the image, which is a small part."""
    config = preset("tiny")
    vae = small_conditional(config, train_artifact=True).artifact
    with FlopCounterMode(display=False) as counted:
        objectives.elbo(vae, images(2), noise=generator()).loss.backward()
    assert counted.get_total_flops() == pytest.approx(2 * flops.elbo_step(config), rel=0.02)


def test_the_reverse_step() -> None:
    config = preset("tiny")
    model = small_conditional(config)
    observation = model.observe(images(2), some_known(2))
    with FlopCounterMode(display=False) as counted:
        objectives.reverse(model, observation, noise=generator()).loss.backward()
    assert counted.get_total_flops() == pytest.approx(2 * flops.ipa_r_step(config), rel=0.03)
