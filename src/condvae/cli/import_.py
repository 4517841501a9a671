"""condvae import."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro

from condvae.cli import shared
from condvae.cli.export import check_suffix


@dataclass(frozen=True, kw_only=True)
class Import:
    """Turn a public checkpoint (.th, of VD-VAE's or the paper's release) into a condvae file. No code in it is run."""

    checkpoint: Annotated[Path, tyro.conf.Positional]
    """The .th file."""
    out: shared.Out
    """The .safetensors file to write."""
    network: Annotated[str | None, tyro.conf.arg(metavar="NAME")] = None
    """The network it belongs to, such as cifar10 or ffhq256; needed only if its shapes fit several."""
    encoder: Annotated[str | None, tyro.conf.arg(metavar="LAYERS")] = None
    """Where no network fits: the encoder's layers as the public code writes them, such as 8x2,8d2,4x1,4d4,1x1."""
    decoder: Annotated[str | None, tyro.conf.arg(metavar="LAYERS")] = None
    """Likewise the decoder's, such as 1x1,4m1,4x1,8m4."""
    bits: Literal[5, 8] | None = None
    """Bits per channel that the likelihood accounts for; those of a network by name if not given."""
    shift: Annotated[float | None, tyro.conf.arg(metavar="NUMBER")] = None
    """Needed with layers: the network's input is (grey level + shift) * scale."""
    scale: Annotated[float | None, tyro.conf.arg(metavar="NUMBER")] = None
    """Needed with layers: see shift."""
    largest_bias: int = 64
    """With layers: the public code's no_bias_above."""
    half_precision: shared.HalfPrecision = False

    def run(self) -> None:
        from condvae import weights
        from condvae.vdvae import Normalisation

        check_suffix(self.out)
        layers: str | weights.LayerStrings | None = self.network
        if any(option is not None for option in (self.encoder, self.decoder, self.bits, self.shift, self.scale)):
            if layers or not self.encoder or not self.decoder or not self.bits or self.shift is None or not self.scale:
                raise ValueError("give --network, or all of --encoder, --decoder, --bits, --shift and --scale")
            layers = weights.LayerStrings(
                encoder=self.encoder,
                decoder=self.decoder,
                bits=self.bits,
                normalisation=Normalisation(shift=self.shift, scale=self.scale),
                largest_bias=self.largest_bias,
            )
        model = weights.import_public(self.checkpoint, layers)
        weights.save(model, self.out, half=self.half_precision, record={"imported_from": self.checkpoint.name})
        print(f"wrote {self.out}")
