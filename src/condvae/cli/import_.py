"""The verb `condvae import`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro

from condvae.cli import shared
from condvae.cli.export import check_model_file
from condvae.cli.help_text import explained
from condvae.vdvae.network_names import PUBLIC_NETWORKS


@explained(
    network="The network of the checkpoint, needed only if the shapes of its weights fit several networks. One of "
    f"{', '.join(PUBLIC_NETWORKS)}."
)
@dataclass(frozen=True, kw_only=True)
class Import:
    """Convert a public checkpoint (.th file) of the VD-VAE release or of the paper's release to a model file.

    The network is recognised by the shapes of its weights. If condvae does not recognise it, describe it with
    --encoder, --decoder, --bits, --shift and --scale. Code inside the checkpoint is never executed.
    """

    checkpoint: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="CHECKPOINT")]
    """The checkpoint to convert, a .th file."""
    out: shared.Out
    """The .safetensors file to write. An existing file is replaced only if it is a model file of condvae."""
    network: Annotated[str | None, tyro.conf.arg(metavar="NAME")] = None
    encoder: Annotated[str | None, tyro.conf.arg(metavar="LAYERS")] = None
    """For a network that condvae does not recognise: the layers of its encoder, written as in the public VD-VAE code,
    such as 8x2,8d2,4x1,4d4,1x1."""
    decoder: Annotated[str | None, tyro.conf.arg(metavar="LAYERS")] = None
    """For a network that condvae does not recognise: the layers of its decoder, written as in the public VD-VAE code,
    such as 1x1,4m1,4x1,8m4."""
    bits: Literal[5, 8] | None = None
    """Bit depth of the likelihood: 8 bits per colour channel, or 5, for which images are rounded down to 32 grey
    levels. If not given, as in the configuration of the network."""
    shift: Annotated[float | None, tyro.conf.arg(metavar="NUMBER")] = None
    """For a network that condvae does not recognise: the shift in its normalisation of the input, which is (grey level
    + shift) * scale."""
    scale: Annotated[float | None, tyro.conf.arg(metavar="NUMBER")] = None
    """For a network that condvae does not recognise: the scale in its normalisation of the input, which is (grey level
    + shift) * scale."""
    largest_bias: int = 64
    """For a network that condvae does not recognise: the finest resolution at which its decoder has a learnt bias image
    (no_bias_above in the public VD-VAE code)."""
    weight_bits: shared.BitsPerWeight = 32
    quiet: shared.Quiet = False

    def run(self) -> None:
        from condvae import weights
        from condvae.vdvae import Normalisation

        check_model_file(self.out)
        layers: str | weights.LayerStrings | None = self.network
        if any(option is not None for option in (self.encoder, self.decoder, self.bits, self.shift, self.scale)):
            if layers or not self.encoder or not self.decoder or not self.bits or self.shift is None or not self.scale:
                raise ValueError(
                    "the network is not fully described: give only --network, or all of --encoder, --decoder, "
                    "--bits, --shift and --scale"
                )
            layers = weights.LayerStrings(
                encoder=self.encoder,
                decoder=self.decoder,
                bits=self.bits,
                normalisation=Normalisation(shift=self.shift, scale=self.scale),
                largest_bias=self.largest_bias,
            )
        model = weights.import_public(self.checkpoint, layers)
        weights.save(model, self.out, bits=self.weight_bits, record={"imported_from": self.checkpoint.name})
        shared.say(f"wrote {self.out}")
