"""Floating-point operations per image: 2 x the multiply-adds of the convolutions that the result needs.

A backward pass costs twice the forward pass for trained layers, and once for frozen layers, where only the gradient of
the input is needed. GELUs, distributions and optimisers are not counted: memory traffic limits them, not arithmetic.
"""

from condvae.vdvae import Stage, VDVAEConfig


def elbo_step(config: VDVAEConfig) -> int:
    """Return the operations of a step of unconditional training."""
    whole = pyramid(config, config.channels) + heads(config) + decoder(config, statistics=True) + likelihood(config)
    return 3 * whole


def ipa_step(config: VDVAEConfig) -> int:
    """Return the operations of an IPA step: the artifact runs forward only, without prior statistics or likelihood."""
    artifact = pyramid(config, config.channels) + heads(config) + decoder(config, statistics=False)
    return artifact + 3 * partial_encoder(config)


def ipa_r_step(config: VDVAEConfig) -> int:
    """Return the operations of an IPA-R step: z is from c, so the gradient passes through the frozen decoder; no q."""
    return 3 * partial_encoder(config) + 2 * (decoder(config, statistics=True) + likelihood(config))


def completion(config: VDVAEConfig) -> int:
    """Return the operations of one completion of an encoded y: heads of c, decoder without statistics, and pixels."""
    return heads(config) + decoder(config, statistics=False) + likelihood(config)


def encoding(config: VDVAEConfig) -> int:
    """Return the operations of encoding y."""
    return pyramid(config, config.channels + 1)


def partial_encoder(config: VDVAEConfig) -> int:
    return encoding(config) + heads(config)


def pyramid(config: VDVAEConfig, channels: int) -> int:
    """Return the operations of an encoder from the image down to the coarsest resolution."""
    first = convolution(channels, config.stages[0].width, config.image_size, kernel=3)
    return first + sum(stage.encoder_blocks * block(stage, stage.width, stage.width) for stage in config.stages)


def heads(config: VDVAEConfig) -> int:
    """Return the operations of the posterior blocks, whose input is state and activation."""
    return sum(block(stage, 2 * stage.width, 2 * config.latent_channels) for stage in config.group_stages)


def decoder(config: VDVAEConfig, *, statistics: bool) -> int:
    """Return the operations of prior blocks, projections and residual blocks. statistics: with the prior Gaussians."""
    total = sum(stage.decoder_blocks * block(stage, stage.width, stage.width) for stage in config.decoder_stages)
    for stage in config.group_stages:
        outputs = stage.width + (2 * config.latent_channels if statistics else 0)
        total += block(stage, stage.width, outputs)
        total += convolution(config.latent_channels, stage.width, stage.resolution)
    return total


def likelihood(config: VDVAEConfig) -> int:
    """Return the operations of the last layer, which computes the parameters of the pixels."""
    return convolution(config.decoder_stages[-1].width, config.likelihood.parameters_per_pixel, config.image_size)


def block(stage: Stage, inputs: int, outputs: int) -> int:
    """Return the operations of one block, which has four convolutions."""
    r, inner, kernel = stage.resolution, stage.inner, 3 if stage.resolution > 2 else 1
    narrow = convolution(inputs, inner, r) + convolution(inner, outputs, r)
    return narrow + 2 * convolution(inner, inner, r, kernel=kernel)


def convolution(inputs: int, outputs: int, resolution: int, *, kernel: int = 1) -> int:
    return 2 * inputs * outputs * kernel**2 * resolution**2
