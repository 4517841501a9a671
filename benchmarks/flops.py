"""Count floating-point operations per image: two for each multiply-add of the convolutions that the result needs.

The backward pass of a trained layer counts as two forward passes. That of a frozen layer counts as one, because only
the gradient of its input is needed. GELUs, distributions and optimisers are not counted, because their speed is limited
by memory traffic and not by arithmetic.
"""

from condvae.vdvae import Stage, VDVAEConfig


def elbo_step(config: VDVAEConfig) -> int:
    """Return the number of operations of an unconditional training step."""
    whole = pyramid(config, config.channels) + heads(config) + decoder(config, statistics=True) + likelihood(config)
    return 3 * whole


def ipa_step(config: VDVAEConfig) -> int:
    """Count an IPA step. The artifact runs forward only, and computes no Gaussians of the prior and no likelihood."""
    artifact = pyramid(config, config.channels) + heads(config) + decoder(config, statistics=False)
    return artifact + 3 * partial_encoder(config)


def ipa_r_step(config: VDVAEConfig) -> int:
    """Count an IPA-R step. z is drawn from c, not from q, so the gradient passes through the frozen decoder."""
    return 3 * partial_encoder(config) + 2 * (decoder(config, statistics=True) + likelihood(config))


def completion(config: VDVAEConfig) -> int:
    """Count one completion after y is encoded: heads of c, decoder without the prior's means and scales, and pixels."""
    return heads(config) + decoder(config, statistics=False) + likelihood(config)


def encoding(config: VDVAEConfig) -> int:
    """Return the number of operations that encode y."""
    return pyramid(config, config.channels + 1)


def partial_encoder(config: VDVAEConfig) -> int:
    return encoding(config) + heads(config)


def pyramid(config: VDVAEConfig, channels: int) -> int:
    """Count the layers of an encoder before its heads, from the image to the coarsest resolution."""
    first = convolution(channels, config.stages[0].width, config.image_size, kernel=3)
    return first + sum(stage.encoder_blocks * block(stage, stage.width, stage.width) for stage in config.stages)


def heads(config: VDVAEConfig) -> int:
    """Count the heads of an encoder: the blocks that predict latents from the decoder's state and an activation."""
    return sum(block(stage, 2 * stage.width, 2 * config.latent_channels) for stage in config.group_stages)


def decoder(config: VDVAEConfig, *, statistics: bool) -> int:
    """Count prior blocks, projections and residual blocks. statistics: also count the prior's means and scales."""
    total = sum(stage.decoder_blocks * block(stage, stage.width, stage.width) for stage in config.decoder_stages)
    for stage in config.group_stages:
        outputs = stage.width + (2 * config.latent_channels if statistics else 0)
        total += block(stage, stage.width, outputs)
        total += convolution(config.latent_channels, stage.width, stage.resolution)
    return total


def likelihood(config: VDVAEConfig) -> int:
    """Count the last layer, which computes the parameters of the pixels' distribution."""
    return convolution(config.decoder_stages[-1].width, config.likelihood.parameters_per_pixel, config.image_size)


def block(stage: Stage, inputs: int, outputs: int) -> int:
    """Count one block, which has four convolutions."""
    r, inner, kernel = stage.resolution, stage.inner, 3 if stage.resolution > 2 else 1
    narrow = convolution(inputs, inner, r) + convolution(inner, outputs, r)
    return narrow + 2 * convolution(inner, inner, r, kernel=kernel)


def convolution(inputs: int, outputs: int, resolution: int, *, kernel: int = 1) -> int:
    return 2 * inputs * outputs * kernel**2 * resolution**2
