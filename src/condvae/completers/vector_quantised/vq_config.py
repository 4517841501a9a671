"""The configuration of VQ-VAE completion (Peng et al. 2021)."""

from dataclasses import dataclass

from condvae.completers.learned_completer import BaselineConfig
from condvae.runtime.checks import check_choice, check_number, check_whole


@dataclass(frozen=True, kw_only=True)
class VectorQuantisedConfig(BaselineConfig):
    """Configuration of the networks and of the losses. The defaults are for images of 32 pixels.

    The image has two maps of codes: bottom codes after `bottom_halvings` halvings of the resolution, and top codes
    after one halving more. Only the top codes are sampled.
    """

    bottom_halvings: int = 1
    """How often the resolution is halved for the bottom codes: 1 for images of 32 pixels, 2 for larger ones."""
    codes: int = 256
    """Number of codes in each of the two codebooks; 512 in the paper."""
    code_width: int = 64
    """Length of the vector of a code."""
    codes_width: int = 128
    """Number of channels of the autoencoder that learns the codes."""
    structure_width: int = 64
    """Number of channels of the PixelCNN; 128 in the paper."""
    structure_blocks: int = 8
    """Number of causal blocks of the PixelCNN; 20 in the paper."""
    structure_attentions: int = 2
    """Number of attention layers of the PixelCNN, evenly spaced between its blocks; 4 in the paper."""
    output_blocks: int = 8
    """Number of 1x1 residual blocks of the PixelCNN before the logits; 20 in the paper."""
    attention_heads: int = 4
    """Number of heads of each attention layer; 8 in the paper."""
    key_width: int = 16
    """Number of channels of the keys and queries of each head."""
    value_width: int = 16
    """Number of channels of the values of each head; 64 in the paper."""
    condition_width: int = 96
    """Number of channels of the features of the observation that condition the PixelCNN; 256 in the paper."""
    condition_blocks: int = 4
    """Number of residual blocks that compute these features, the dilated ones included; 10 in the paper."""
    max_dilation: int = 4
    """Largest dilation, a power of two. Networks have one dilated layer for each of 2, 4, ... up to it."""
    dropout: float = 0.1
    """Rate of dropout in the PixelCNN and its condition network."""
    texture_width: int = 48
    """Number of channels of the first convolution of the texture generator, of which the gate takes half, and of the
    discriminator; 64 in the paper."""
    critic_layers: int = 4
    """Number of halvings of the resolution in the discriminator; 6 in the paper."""
    commitment_weight: float = 0.25
    """Weight of the losses that keep the encoder's outputs close to the codes."""
    adversarial_weight: float = 1.0
    """Weight of the adversarial loss of the texture generator."""
    code_weight: float = 0.1
    """Weight of the loss that compares the codes of completions with those of real images."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice(self.bottom_halvings, "the number of bottom halvings", (1, 2))
        if self.image_size % (cell := 2 ** (self.bottom_halvings + 1)):
            raise ValueError(
                f"the image size is {self.image_size}, expected a multiple of {cell}, because the top codes have a "
                f"{cell} times lower resolution"
            )
        check_whole(self.codes, "the number of codes", least=2)
        for name in ("codes_width", "structure_width", "code_width", "attention_heads", "key_width", "value_width"):
            check_whole(getattr(self, name), name, least=1)
        for name, divisor in (
            ("codes_width", 2),
            ("condition_width", 2**self.condition_halvings),
            ("texture_width", 4),
        ):
            check_whole(getattr(self, name), name, least=1)
            if getattr(self, name) % divisor:
                raise ValueError(f"{name} is {getattr(self, name)}, expected a multiple of {divisor}")
        check_whole(self.structure_blocks, "the number of structure blocks", least=1)
        check_whole(self.structure_attentions, "the number of structure attentions", least=1)
        if self.structure_blocks % self.structure_attentions:
            raise ValueError(
                f"there are {self.structure_blocks} structure blocks and {self.structure_attentions} attentions, "
                "expected a number of blocks that the number of attentions divides"
            )
        check_whole(self.output_blocks, "the number of output blocks", least=0)
        check_whole(self.max_dilation, "the largest dilation", least=1)
        if self.max_dilation & (self.max_dilation - 1):
            raise ValueError(f"the largest dilation is {self.max_dilation}, expected a power of two, such as 4 or 16")
        check_whole(self.condition_blocks, "the number of condition blocks", least=len(self.dilations))
        check_whole(self.critic_layers, "the number of critic layers", least=1)
        check_number(self.dropout, "the dropout rate", least=0, most=0.9)
        for name in ("commitment", "adversarial", "code"):
            check_number(getattr(self, f"{name}_weight"), f"the {name} weight", least=0)

    @property
    def blocks(self) -> int:
        # A causal block has 21 tensors, and a block of the other two kinds has 6, not 8.
        return self.structure_blocks + (self.condition_blocks + self.output_blocks) * 3 // 4

    @property
    def evaluations(self) -> int:
        """How many network evaluations follow each other for one completion: one for each top code, and rendering."""
        return self.top_size**2 + 1

    @property
    def top_size(self) -> int:
        """The resolution of the map of top codes."""
        return self.image_size >> (self.bottom_halvings + 1)

    @property
    def condition_halvings(self) -> int:
        """How often the condition network halves the resolution, down to that of the top codes."""
        return self.bottom_halvings + 1

    @property
    def dilations(self) -> tuple[int, ...]:
        """The dilations 2, 4, ... of dilated layers."""
        return tuple(1 << i for i in range(1, self.max_dilation.bit_length()))
