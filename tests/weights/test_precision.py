"""Weights of 8 bits: how close they are, that storing them again changes nothing, and damaged files."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
import torch
from helpers.models import SMALLEST, generator, small_conditional, small_vae
from hypothesis import given
from hypothesis import strategies as st
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor

import condvae
from condvae import weights
from condvae.cli import main
from condvae.runtime.fingerprints import digest_of
from condvae.weights import packing, sealed_file
from condvae.weights.precision import WeightBits, bits_of, dequantised, quantised, restored, stored
from condvae.weights.sealed_file import _digest


def drawn(*shape: int, scale: float = 0.1) -> Tensor:
    return scale * torch.randn(shape, generator=generator())


def test_numbers_times_scales_are_within_half_a_step_of_the_weights() -> None:
    """The scale of a channel is rounded by at most 1/512, so that its largest weight is still 127 steps."""
    values = drawn(12, 16, 3, 3) * torch.logspace(-6, 3, 12)[:, None, None, None]
    numbers, scale = quantised(values)
    assert (numbers.dtype, numbers.shape) == (torch.int8, values.shape)
    assert (scale.dtype, tuple(scale.shape)) == (torch.bfloat16, (12, 1, 1, 1))
    assert (numbers.abs().amax(dim=(1, 2, 3)) == 127).all()
    torch.testing.assert_close(scale.float(), values.abs().amax(dim=(1, 2, 3), keepdim=True) / 127, rtol=2**-8, atol=0)
    steps = (dequantised(numbers, scale) - values).abs() / scale.float()
    assert 0.45 < float(steps.max()) <= 0.5 + 1e-4
    assert float(steps.square().mean()) == pytest.approx(1 / 12, rel=0.1)  # rounding to the nearest, without bias


def test_a_channel_has_its_own_scale_and_a_zero_channel_stays_zero() -> None:
    values = drawn(4, 8, 1, 1)
    values[1] *= 1e-4
    values[2] = 0
    numbers, scale = quantised(values)
    found = dequantised(numbers, scale)
    assert (found[2] == 0).all() and float(scale[2]) == 0
    for channel in (0, 1, 3):
        assert float((found[channel] - values[channel]).norm() / values[channel].norm()) < 0.01
    image = drawn(1, 3, 5, 5) * torch.tensor([1.0, 100.0, 0.01])[:, None, None]
    numbers, scale = quantised(image, channel=1)
    assert tuple(scale.shape) == (1, 3, 1, 1) and (numbers.abs().amax(dim=(0, 2, 3)) == 127).all()


@given(
    st.lists(
        st.lists(st.floats(width=32, min_value=-(2.0**100), max_value=2.0**100), min_size=3, max_size=3), min_size=1
    ),
    st.sampled_from([1.0, 1e-3, 1e-20, 1e-38, 1e-44]),
)
def test_weights_of_8_bits_are_stored_as_the_same_numbers_again(rows: list[list[float]], factor: float) -> None:
    values = (torch.tensor(rows, dtype=torch.float64) * factor).float()[:, :, None, None]
    numbers, scale = quantised(values)
    assert int(numbers.abs().max()) <= 127
    again, same = quantised(dequantised(numbers, scale))
    assert torch.equal(again, numbers) and torch.equal(same, scale)


def test_every_scale_and_number_survives() -> None:
    """All positive normal bfloat16 scales, with all numbers from -127 to 127."""
    scale = torch.arange(0x0080, 0x7F80 - 7 * 128, dtype=torch.int32).to(torch.uint16).view(torch.bfloat16)
    numbers = torch.arange(-127, 128, dtype=torch.int8)[None, :, None, None].expand(len(scale), -1, 1, 1)
    again, same = quantised(dequantised(numbers, scale[:, None, None, None]))
    assert torch.equal(again, numbers) and torch.equal(same[:, 0, 0, 0], scale)


def test_small_tensors_stay_in_half_precision() -> None:
    kept = {
        "pixels.weight": drawn(24, 4, 3, 3),
        "bias": drawn(24),
        "linear": drawn(24, 64),
        "gain": drawn(1, 24, 1, 1),
        "empty": torch.empty(0, 8, 3, 3),
        "single": torch.tensor(0.5),
    }
    rounded = {"weight": drawn(24, 8, 1, 1), "image": drawn(1, 24, 4, 4), "one.weight": drawn(2, 16, 3, 3)}
    found = stored({**kept, **rounded}, bits=8)
    assert set(found) == {*kept, *rounded, *(f"{name}.scale" for name in rounded)}
    assert {found[name].dtype for name in kept} == {torch.float16}
    assert {found[name].dtype for name in rounded} == {torch.int8}
    assert all(torch.equal(found[name], tensor.half()) for name, tensor in kept.items())
    back = restored(found, origin="file")
    assert set(back) == {*kept, *rounded} and {back[name].dtype for name in rounded} == {torch.float32}
    forms: dict[WeightBits, torch.dtype] = {32: torch.float32, 16: torch.float16}
    for bits, dtype in forms.items():
        assert {tensor.dtype for tensor in stored({**kept, **rounded}, bits=bits).values()} == {dtype}
        assert bits_of(stored(rounded, bits=bits)) == bits
    assert (bits_of(found), bits_of(stored(kept, bits=8))) == (8, 16)


def test_weights_that_cannot_be_stored_are_rejected() -> None:
    for tensor, message in (
        (torch.full((8, 8, 1, 1), torch.nan), "contains NaN or infinite weights"),
        (torch.full((8,), 1e6), "too large for half precision"),
    ):
        with pytest.raises(ValueError, match=message):
            stored({"a": tensor}, bits=8)
    largest = torch.full(
        (8, 8, 1, 1), torch.finfo(torch.float32).max
    )  # too large for half precision, but not for 8 bits
    torch.testing.assert_close(restored(stored({"a": largest}, bits=8), origin="file")["a"], largest, rtol=0.01, atol=0)
    for bits in (4, True, 16.0, "8"):
        with pytest.raises(ValueError, match=r"number of bits per weight is .*, expected 32 or 16 or 8"):
            stored({}, bits=bits)  # type: ignore[arg-type]


def assert_same(found: dict[str, Tensor], expected: dict[str, Tensor]) -> None:
    assert set(found) == set(expected)
    assert all(
        torch.equal(found[name], tensor) and found[name].dtype == tensor.dtype for name, tensor in expected.items()
    )


def metadata(path: Path) -> dict[str, str]:
    with safe_open(path, framework="pt") as file:
        return dict(file.metadata())


@pytest.mark.parametrize("packed", [False, True])
def test_a_file_of_8_bits_can_be_loaded_and_stored_again(tmp_path: Path, packed: bool) -> None:
    model = small_conditional()
    first, second = tmp_path / "first.safetensors", tmp_path / "second.safetensors"
    weights.save(model, first, bits=8, packed=packed, record={"steps": 7})
    loaded = weights.load_conditional(first)
    for (name, before), after in zip(model.state_dict().items(), loaded.state_dict().values(), strict=True):
        assert after.dtype == torch.float32
        largest = before.abs().amax().clamp_min(1e-6)
        assert float((after - before).abs().max() / largest) < 0.5 / 126, name
    assert digest_of(loaded) != digest_of(model)
    weights.save(loaded, second, bits=8, packed=packed, record={"steps": 7})
    assert metadata(first) == metadata(second)
    assert_same(load_file(second), load_file(first))
    header = weights.describe(first)
    assert header.bits == 8 and metadata(first)["format_version"] == ("4" if packed else "3")
    weights.save(model, second)
    assert dataclasses.replace(header, bits=32, record={}) == weights.describe(second)  # scales are no weights


def test_files_of_8_bits_are_small_and_packing_keeps_the_checksum(tmp_path: Path) -> None:
    vae = small_vae(
        dataclasses.replace(SMALLEST, stages=(dataclasses.replace(SMALLEST.stages[0], width=96, inner=48),))
    )
    sizes = {}
    for bits in (32, 16, 8):
        for packed in (False, True):
            path = tmp_path / f"{bits}-{packed}.safetensors"
            weights.save(vae, path, bits=bits, packed=packed)
            sizes[bits, packed] = path.stat().st_size / sum(parameter.numel() for parameter in vae.parameters())
    assert sizes[8, False] < 1.12 < sizes[16, False] / 1.75
    assert sizes[8, True] < 0.96 * sizes[8, False]
    plain, packed_file = tmp_path / "8-False.safetensors", tmp_path / "8-True.safetensors"
    assert metadata(plain)["sha256"] == metadata(packed_file)["sha256"]
    assert digest_of(weights.load(plain)) == digest_of(weights.load(packed_file))
    assert all(name.startswith("packed.") for name in load_file(packed_file))


def changed_file(path: Path, changes: dict[str, Tensor | None]) -> None:
    """Write an 8-bit file with other tensors and a valid checksum, as another program could."""
    weights.save(small_vae(SMALLEST), path, bits=8)
    tensors: dict[str, Any] = {**load_file(path), **changes}
    tensors = {name: tensor for name, tensor in tensors.items() if tensor is not None}
    told = metadata(path)
    save_file(tensors, path, {**told, "sha256": _digest(told["model"], tensors)})


NAME = "decoder.blocks.0.residual.c1.weight"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({f"{NAME}.scale": None}, f"contains 8-bit weights without scales: {NAME}"),
        ({NAME: None}, f"lacks weights that the network needs: {NAME}"),
        ({NAME: torch.zeros(4, 8, 1, 1)}, f"contains weights that the network does not have: {NAME}.scale"),
        ({f"{NAME}.scale": torch.zeros(4)}, f"one number per channel: {NAME}.scale is "),
        ({f"{NAME}.scale": torch.zeros(8, 1, 1, 1)}, "one number per channel"),
        ({f"{NAME}.scale": torch.tensor(1.0)}, "one number per channel"),
        ({f"{NAME}.scale": torch.zeros(4, 8, 1, 1)}, "one number per channel"),
        ({f"{NAME}.scale": torch.full((4, 1, 1, 1), -1.0)}, f"negative, NaN or infinite: {NAME}.scale"),
        ({f"{NAME}.scale": torch.full((4, 1, 1, 1), torch.nan)}, "negative, NaN or infinite"),
        ({f"{NAME}.scale": torch.full((4, 1, 1, 1), torch.inf)}, "negative, NaN or infinite"),
        ({f"{NAME}.scale": torch.full((4, 1, 1, 1), 3e38)}, f"contains NaN or infinite weights: {NAME}"),
        ({f"{NAME}.scale": torch.ones(4, 1, 1, 1, dtype=torch.int8)}, "scales that are not floating-point numbers|wit"),
        ({f"{NAME}.scale": torch.ones(4, 1, 1, 1, dtype=torch.int64)}, "scales that are not floating-point numbers"),
        (
            {NAME: torch.ones(4, 9, 1, 1, dtype=torch.int8)},
            rf"contains weights of the wrong shape: {NAME} is \(4, 9, 1, 1\)",
        ),
        ({NAME: torch.tensor(1, dtype=torch.int8)}, "one number per channel"),
        ({NAME: torch.ones(4, 8, 1, 1, dtype=torch.uint8)}, "contains weights that"),
    ],
)
def test_files_with_invalid_scales_are_rejected(
    tmp_path: Path, changes: dict[str, Tensor | None], message: str
) -> None:
    path = tmp_path / "model.safetensors"
    changed_file(path, {})
    weights.load(path)
    changed_file(path, changes)
    with pytest.raises(ValueError, match=message) as caught:
        weights.load(path)
    assert str(caught.value).startswith(str(path)) and "\n" not in str(caught.value)


def test_a_damaged_packed_file_gives_one_clear_error(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    weights.save(small_vae(SMALLEST), path, bits=8, packed=True)
    whole = path.read_bytes()
    for position in range(0, len(whole), len(whole) // 199):
        path.write_bytes(whole[:position] + bytes([whole[position] ^ 16]) + whole[position + 1 :])
        with pytest.raises(ValueError, match=str(path)) as caught:
            weights.load(path)
        assert "\n" not in str(caught.value)
    path.write_bytes(whole)
    tensors = load_file(path)
    save_file({**tensors, packing.INT8: tensors[packing.INT8].flip(0)}, path, metadata(path))
    with pytest.raises(ValueError, match=r"is damaged \(packed\.int8 "):
        weights.load(path)


def test_the_command_line_writes_and_describes_8_bits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    weights.save(small_conditional(), "full.safetensors")
    for bits, words in ((32, "single precision"), (16, "half precision"), (8, "int8 with a scale")):
        out = f"{bits}.safetensors"
        main(["export", "full.safetensors", "--out", out, "--weight-bits", str(bits)])
        capsys.readouterr()
        main(["info", out])
        assert f"{bits} bits per weight ({words}" in " ".join(capsys.readouterr().out.split())
        main(["info", out, "--json"])
        assert json.loads(capsys.readouterr().out)["bits"] == bits
    condvae.save_pretrained("full.safetensors", "shared", bits=8)
    _, tensors = sealed_file.read(Path("shared/model.safetensors"), kind=sealed_file.MODEL)
    _, exported = sealed_file.read(Path("8.safetensors"), kind=sealed_file.MODEL)
    assert_same(tensors, exported)
