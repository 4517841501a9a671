"""VQ-VAE completion (Peng et al. 2021, "Generating diverse structure for image inpainting with hierarchical VQ-VAE").

It samples a map of discrete codes for the structure of the whole image, and renders the image around these codes. The
three parts are trained one after another; see `vq_losses`.
"""

from typing import ClassVar

from torch import Tensor

from condvae.completers.learned_completer import Code, LearnedCompleter
from condvae.completers.learned_names import LEARNED_TITLES
from condvae.completers.vector_quantised.code_sampling import sample_codes
from condvae.completers.vector_quantised.structure_network import StructureNetwork
from condvae.completers.vector_quantised.texture_network import TextureNetwork, VisibleTexture
from condvae.completers.vector_quantised.vq_codes import CodesNetwork
from condvae.completers.vector_quantised.vq_config import VectorQuantisedConfig
from condvae.noise import Noise

CODE_STREAM = 0
"""The stream of random numbers for codes."""


class VectorQuantised(LearnedCompleter):
    """VQ-VAE completion. Codes are drawn at temperature 1."""

    kind: ClassVar[str] = "vqvae"
    title: ClassVar[str] = LEARNED_TITLES["vqvae"]
    varies: ClassVar[bool] = True
    pixels_at_once: ClassVar[int] = 2**21  # drawing codes one by one starts many small kernels
    config: VectorQuantisedConfig

    def __init__(self, config: VectorQuantisedConfig) -> None:
        super().__init__(config)
        self.codes = CodesNetwork(config)
        self.structure = StructureNetwork(config)
        self.texture = TextureNetwork(config)

    def encode(self, pixels: Tensor, known: Tensor) -> Code:
        """Return the condition of the PixelCNN, and the parts of `VisibleTexture`."""
        return (self.structure.condition(pixels, known), *self.texture.visible(pixels, known))

    def decode(self, code: Code, noise: Noise) -> Tensor:
        return self.render(code, self.draw_codes(code, noise))

    def draw_codes(self, code: Code, noise: Noise) -> Tensor:
        """Draw top codes for each entry of a code, int64 [B, S, S]."""
        condition = code[0]
        uniform = noise.uniform(CODE_STREAM, (len(condition), self.config.top_size**2), condition.device)
        return sample_codes(self.structure.pixel_cnn, condition, self.codes.top.vectors, uniform)

    def render(self, code: Code, top_codes: Tensor) -> Tensor:
        """Return the image for given top codes, [B, C, H, W] in [-1, 1]."""
        image: Tensor = self.texture(VisibleTexture(*code[1:]), top_codes, self.codes.top.vectors)
        return image
