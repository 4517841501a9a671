"""Packed and plain files contain the same tensors, the same description and the same checksum."""

import json
import os
import stat
from pathlib import Path

import pytest
import torch
from helpers.models import small_conditional, small_vae
from safetensors import safe_open
from safetensors.torch import load_file, save_file

import condvae
from condvae import weights
from condvae.cli import main
from condvae.conditional import ConditionalVAE
from condvae.runtime.fingerprints import digest_of
from condvae.weights import packing, sealed_file


def metadata(path: Path) -> dict[str, str]:
    with safe_open(path, framework="pt") as file:
        return dict(file.metadata())


def both(folder: Path) -> tuple[Path, Path]:
    """Write the same model in half precision to a plain file and to a packed file."""
    plain, packed = folder / "plain.safetensors", folder / "packed.safetensors"
    model = small_conditional()
    weights.save(model, plain, bits=16, record={"steps": 7})
    weights.save(model, packed, bits=16, packed=True, record={"steps": 7})
    return plain, packed


def test_a_packed_file_is_smaller_and_reads_as_the_plain_one(tmp_path: Path) -> None:
    plain, packed = both(tmp_path)
    assert packed.stat().st_size < 0.85 * plain.stat().st_size
    (told, tensors), (told_again, found) = (sealed_file.read(p, kind=sealed_file.MODEL) for p in (plain, packed))
    assert told == told_again and set(tensors) == set(found)
    assert all(
        torch.equal(found[name], tensor) and found[name].dtype == torch.float16 for name, tensor in tensors.items()
    )
    said, said_again = metadata(plain), metadata(packed)
    assert (said.pop("format_version"), said_again.pop("format_version")) == ("1", "2")
    assert said == said_again  # the checksum as well
    assert weights.describe(plain) == weights.describe(packed)
    assert digest_of(weights.load(plain)) == digest_of(weights.load(packed))
    sealed_file.write(
        tmp_path / "again.safetensors", kind=sealed_file.MODEL, description=told, tensors=found, packed=True
    )
    assert load_file(tmp_path / "again.safetensors").keys() == {packing.INDEX, packing.HIGH, packing.LOW}


def test_files_are_plain_by_default_and_if_nothing_can_be_packed(tmp_path: Path) -> None:
    plain, _ = both(tmp_path)
    assert set(load_file(plain)) == set(small_conditional().state_dict())
    weights.save(small_vae(), tmp_path / "single.safetensors", packed=True)
    assert metadata(tmp_path / "single.safetensors")["format_version"] == "1"


def test_packing_leaves_other_types_than_float16_unchanged(tmp_path: Path) -> None:
    tensors = {"half": torch.ones(3, 2).half(), "single": torch.ones(4), "count": torch.tensor(3)}
    path = tmp_path / "mixed.safetensors"
    sealed_file.write(path, kind="condvae test", description={}, tensors=tensors, packed=True)
    assert torch.equal(load_file(path)["single"], tensors["single"])
    _, found = sealed_file.read(path, kind="condvae test")
    assert {name: tensor.dtype for name, tensor in found.items()} == {n: t.dtype for n, t in tensors.items()}
    assert all(torch.equal(found[name], tensor) for name, tensor in tensors.items())


def test_a_damaged_packed_file_gives_one_clear_error(tmp_path: Path) -> None:
    _, path = both(tmp_path)
    whole = path.read_bytes()
    for content in (whole[:100], whole[: len(whole) // 2], whole[:-1]):
        path.write_bytes(content)
        with pytest.raises(ValueError, match=r"not a complete \.safetensors file"):
            weights.load(path)
    for position in range(0, len(whole), len(whole) // 199):
        path.write_bytes(whole[:position] + bytes([whole[position] ^ 16]) + whole[position + 1 :])
        with pytest.raises(ValueError, match=str(path)) as caught:
            weights.load(path)
        assert "\n" not in str(caught.value)
    path.write_bytes(whole)
    tensors, said = load_file(path), metadata(path)
    for changed, message in (
        ({packing.HIGH: tensors[packing.HIGH][:-1].clone()}, r"is damaged \(packed\.high is truncated\)"),
        ({packing.LOW: tensors[packing.LOW].flip(0)}, r"is damaged \(its content does not match its checksum\)"),
    ):
        save_file({**tensors, **changed}, path, said)
        with pytest.raises(ValueError, match=message):
            weights.load(path)
    # The checksum does not cover shapes, in plain files either; they are compared with those of the network.
    index = json.loads(packing._inflated(tensors, packing.INDEX, 2**24))
    name = next(name for name, shape in index.items() if len(shape) == 4 and shape[0] != shape[1])
    index[name] = [index[name][1], index[name][0], *index[name][2:]]
    turned = {**tensors, packing.INDEX: packing._tensor(packing._deflated(json.dumps(index).encode()))}
    save_file(turned, path, said)
    with pytest.raises(ValueError, match="contains weights of the wrong shape"):
        weights.load(path)
    # A packed file with the version of a plain one, and the reverse.
    save_file(tensors, path, {**said, "format_version": "1"})
    with pytest.raises(ValueError, match="does not match its checksum"):
        weights.load(path)
    plain = tmp_path / "plain.safetensors"
    save_file(load_file(plain), plain, {**metadata(plain), "format_version": "2"})
    with pytest.raises(ValueError, match=r"is damaged \(packed\.index is missing\)"):
        weights.load(plain)


def test_export_and_save_pretrained_write_plain_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The safetensors library can read what they write, even if they were given a packed file."""
    plain, packed = both(tmp_path)
    monkeypatch.chdir(tmp_path)
    main(["export", str(packed), "--out", "exported.safetensors", "--weight-bits", "16"])
    condvae.save_pretrained(packed, "shared", bits=16)
    for path in (Path("exported.safetensors"), Path("shared/model.safetensors")):
        assert metadata(path) == metadata(plain)
        found, expected = load_file(path), load_file(plain)
        assert all(torch.equal(found[name], tensor) for name, tensor in expected.items())
    assert isinstance(condvae.from_pretrained("shared"), ConditionalVAE)


def test_the_umask_decides_who_may_read_a_file(tmp_path: Path) -> None:
    for mask in (0o022, 0o077):
        before = os.umask(mask)
        try:
            path = tmp_path / f"{mask}.safetensors"
            sealed_file.write(path, kind="condvae test", description={}, tensors={"a": torch.zeros(1)})
        finally:
            os.umask(before)
        assert stat.S_IMODE(path.stat().st_mode) == 0o666 & ~mask


@pytest.mark.parametrize("name", weights.embedded_names())
def test_embedded_models_are_packed(name: str) -> None:
    path = weights.locate(name)
    assert all(tensor.startswith("packed.") for tensor in load_file(path))
    header = weights.describe(name)
    largest = {16: 1.76, 8: 1.0}[header.bits]  # plain: 2 bytes or 1 per weight, and names, shapes, scales and record
    assert path.stat().st_size < largest * header.parameters
