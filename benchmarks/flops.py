"""Floating-point operations of one image: 2 x multiply-adds of the convolutions that the result needs, nothing else.

A backward pass through trained layers costs twice the forward pass, through frozen ones once: only the gradient of
their input is wanted. GELUs, distributions and optimisers are left out: they are bytes rather than arithmetic.
"""

from condvae.vdvae import Stage, VDVAEConfig


def elbo_step(config: VDVAEConfig) -> int:
    """A step of unconditional training."""
    whole = pyramid(config, config.channels) + heads(config) + decoder(config, statistics=True) + likelihood(config)
    return 3 * whole


def ipa_step(config: VDVAEConfig) -> int:
    """Forward objective: the artifact forward only, without the prior's statistics and without the likelihood."""
    artifact = pyramid(config, config.channels) + heads(config) + decoder(config, statistics=False)
    return artifact + 3 * partial_encoder(config)


def ipa_r_step(config: VDVAEConfig) -> int:
    """Reverse objective: z from c, so the gradient passes through the frozen decoder; q is not needed."""
    return 3 * partial_encoder(config) + 2 * (decoder(config, statistics=True) + likelihood(config))


def completion(config: VDVAEConfig) -> int:
    """One sample, given the encoding of y: heads of c, the decoder without the prior's statistics, the pixels."""
    return heads(config) + decoder(config, statistics=False) + likelihood(config)


def encoding(config: VDVAEConfig) -> int:
    """The encoding of y."""
    return pyramid(config, config.channels + 1)


def partial_encoder(config: VDVAEConfig) -> int:
    return encoding(config) + heads(config)


def pyramid(config: VDVAEConfig, channels: int) -> int:
    """From the image down to the coarsest resolution."""
    first = convolution(channels, config.stages[0].width, config.image_size, kernel=3)
    return first + sum(stage.encoder_blocks * block(stage, stage.width, stage.width) for stage in config.stages)


def heads(config: VDVAEConfig) -> int:
    """Posterior blocks on state and activation."""
    return sum(block(stage, 2 * stage.width, 2 * config.latent_channels) for stage in config.group_stages)


def decoder(config: VDVAEConfig, *, statistics: bool) -> int:
    """Prior blocks, with or without their means and scales, projections, residual blocks."""
    total = sum(stage.decoder_blocks * block(stage, stage.width, stage.width) for stage in config.decoder_stages)
    for stage in config.group_stages:
        outputs = stage.width + (2 * config.latent_channels if statistics else 0)
        total += block(stage, stage.width, outputs)
        total += convolution(config.latent_channels, stage.width, stage.resolution)
    return total


def likelihood(config: VDVAEConfig) -> int:
    """The layer that gives the pixels' parameters."""
    return convolution(config.decoder_stages[-1].width, config.likelihood.parameters_per_pixel, config.image_size)


def block(stage: Stage, inputs: int, outputs: int) -> int:
    """Four convolutions."""
    r, inner, kernel = stage.resolution, stage.inner, 3 if stage.resolution > 2 else 1
    narrow = convolution(inputs, inner, r) + convolution(inner, outputs, r)
    return narrow + 2 * convolution(inner, inner, r, kernel=kernel)


def convolution(inputs: int, outputs: int, resolution: int, *, kernel: int = 1) -> int:
    return 2 * inputs * outputs * kernel**2 * resolution**2
