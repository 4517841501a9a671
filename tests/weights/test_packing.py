"""Packing restores float16 tensors bit for bit, and rejects tensors that `pack` did not make."""

import json
import tracemalloc
import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
import torch
from helpers.models import generator
from torch import Tensor

from condvae.weights.packing import (
    HIGH,
    INDEX,
    INT8,
    INT8_INDEX,
    LOW,
    SCALES_HIGH,
    SCALES_INDEX,
    SCALES_LOW,
    pack,
    packable,
    unpack,
)


def row(data: bytes) -> Tensor:
    return torch.from_numpy(np.frombuffer(data, np.uint8).copy())


def listing(shapes: Any) -> Tensor:
    return row(zlib.compress(shapes if isinstance(shapes, bytes) else json.dumps(shapes).encode()))


def bits(tensor: Tensor) -> bytes:
    return tensor.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()


def assert_same(found: Mapping[str, Tensor], expected: Mapping[str, Tensor]) -> None:
    assert set(found) == set(expected)
    for name, tensor in expected.items():
        assert (found[name].dtype, found[name].shape) == (tensor.dtype, tensor.shape), name
        assert bits(found[name]) == bits(tensor), name


def every_half() -> Tensor:
    """All 65,536 float16 values, including NaNs with their payloads, both zeros and subnormal numbers."""
    return torch.arange(2**16, dtype=torch.int32).to(torch.uint16).view(torch.float16)


def some() -> dict[str, Tensor]:
    drawn = torch.randn(24, 8, 3, 3, generator=generator(), dtype=torch.float32)
    return {
        "z.weight": drawn.half(),
        "a.weight": (drawn * 0.01).half().permute(1, 0, 2, 3),  # not contiguous
        "every": every_half().reshape(256, 1, 256),
        "variance": drawn[0, 0],
        "brain": drawn.bfloat16(),
        "step": torch.tensor(7),
        "ein Maß": torch.tensor(-0.0, dtype=torch.float16),
        "none": torch.empty(3, 0, 2, dtype=torch.float16),
    }


def test_every_bit_is_restored_into_separate_memory() -> None:
    packed = pack(some())
    assert set(packed) == {INDEX, HIGH, LOW, "variance", "brain", "step"}
    found = unpack(packed)
    assert_same(found, some())
    places = {tensor.untyped_storage().data_ptr() for tensor in found.values() if tensor.numel()}
    assert len(places) == sum(tensor.numel() > 0 for tensor in found.values())
    halves = {name: tensor for name, tensor in some().items() if tensor.dtype == torch.float16}
    for tensors in ({}, {"step": torch.tensor(7)}, halves, {"none": halves["none"]}, {"one": every_half()}):
        assert_same(unpack(pack(tensors)), tensors)
    assert packable(halves) and not packable({"step": torch.tensor(7)}) and not packable({})


def test_the_order_of_the_tensors_does_not_matter() -> None:
    assert_same(pack(dict(reversed(some().items()))), pack(some()))


def test_weights_shrink_and_noise_hardly_grows() -> None:
    weights = {str(i): 0.05 * torch.randn(256, 256, generator=generator(i)) for i in range(8)}
    noise = {"noise": torch.randint(2**16, (2**19,), generator=generator()).to(torch.uint16).view(torch.float16)}

    def share(tensors: dict[str, Tensor]) -> float:
        return sum(tensor.nbytes for tensor in pack(tensors).values()) / sum(t.nbytes for t in tensors.values())

    assert share({name: tensor.half() for name, tensor in weights.items()}) < 0.87
    assert share(noise) < 1.001
    assert share(weights) < 1.001  # float32 tensors are stored unchanged


def test_reserved_names_are_rejected() -> None:
    with pytest.raises(ValueError, match=r"packed\.low is a reserved name in packed files"):
        pack({LOW: torch.zeros(1), "a": torch.zeros(1).half()})
    assert_same(unpack(pack({LOW: torch.ones(2).half()})), {LOW: torch.ones(2).half()})  # allowed for float16


def changed(**tensors: Tensor | None) -> dict[str, Tensor]:
    names = {"index": INDEX, "high": HIGH, "low": LOW}
    made = {**pack(some()), **{names.get(name, name): tensor for name, tensor in tensors.items()}}
    return {name: tensor for name, tensor in made.items() if tensor is not None}


@pytest.mark.parametrize(
    ("tensors", "message"),
    [
        ({"index": None}, "packed.index is missing"),
        ({"high": None}, "packed.high is missing"),
        ({"low": None}, "packed.low is missing"),
        ({"low": torch.zeros(4)}, "packed.low is not a one-dimensional tensor of bytes"),
        ({"high": torch.zeros(4, 4, dtype=torch.uint8)}, "packed.high is not a one-dimensional tensor of bytes"),
        ({"index": torch.tensor(1, dtype=torch.uint8)}, "packed.index is not a one-dimensional tensor of bytes"),
        ({"index": row(b"")}, "packed.index is truncated"),
        ({"index": row(b"{}")}, "packed.index cannot be decompressed"),
        ({"index": listing(b"{")}, "packed.index is not valid JSON"),
        ({"index": listing(b"\xff")}, "packed.index is not valid JSON"),
        ({"index": listing(b"[" * 100_000)}, "packed.index is not valid JSON"),
        ({"index": listing(b'{"a\\ud800": [1]}')}, "packed.index is not valid JSON"),
        ({"index": listing([["a", [1]]])}, "packed.index is not a JSON object of names and shapes"),
        ({"index": listing({"a": 3})}, "packed.index has no valid shape for the tensor a"),
        ({"index": listing({"a": [1, -3]})}, "packed.index has no valid shape for the tensor a"),
        ({"index": listing({"a": [True]})}, "packed.index has no valid shape for the tensor a"),
        ({"index": listing({"a": [1.0]})}, "packed.index has no valid shape for the tensor a"),
        ({"index": listing({"a": ["1"]})}, "packed.index has no valid shape for the tensor a"),
        ({"index": listing({"a": [0, 2**31]})}, "packed.index has no valid shape for the tensor a"),
        ({"index": listing({"a": [2] * 100_000})}, "packed.index has no valid shape for the tensor a"),
        (
            {"index": listing({"a": [2**31 - 1] * 64})},
            "expected one byte per number in the tensors that packed.index lists",
        ),
        ({"index": listing({"a": [3]})}, "expected one byte per number in the tensors that packed.index lists"),
        ({"index": listing({})}, "expected one byte per number in the tensors that packed.index lists"),
        ({"index": listing({"variance": [1]})}, "variance is stored twice"),
        (
            {"index": row(zlib.compress(bytes(2**24 + 1)))},
            "packed.index has more than 16,777,216 bytes when",
        ),
        ({"high": row(b"\0" * 9)}, "packed.high cannot be decompressed"),
        ({"high": row(zlib.compress(b""))}, "packed.high has 0 bytes"),
        ({"high": row(zlib.compress(bytes(2**24)))}, "packed.high has more than"),
        ({"high": pack(some())[HIGH][:-1]}, "packed.high is truncated"),
        ({"high": torch.cat([pack(some())[HIGH], row(b"x")])}, "packed.high has extra bytes at its end"),
        ({"low": pack(some())[LOW][1:]}, "expected one byte per number in the tensors that packed.index lists"),
    ],
)
def test_inconsistent_tensors_are_rejected(tensors: dict[str, Tensor | None], message: str) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        unpack(changed(**tensors))
    assert len(str(caught.value)) < 100


def test_empty_tensors_of_an_impossible_shape_are_rejected() -> None:
    tensors = {**pack({}), INDEX: listing({"a": [*[2**31 - 1] * 40, 0]})}
    with pytest.raises(ValueError, match="a cannot have the shape"):
        unpack(tensors)


def test_a_decompression_bomb_does_not_fill_the_memory() -> None:
    """Data that inflates to a thousand times its size is inflated to one byte above the limit, then rejected."""
    deflater = zlib.compressobj(9)
    bomb = b"".join([*(deflater.compress(bytes(2**24)) for _ in range(16)), deflater.flush()])
    tracemalloc.start()
    try:
        for tensors in ({"index": row(bomb)}, {"high": row(bomb)}):
            with pytest.raises(ValueError, match="bytes when decompressed"):
                unpack(changed(**tensors))
        assert tracemalloc.get_traced_memory()[1] < 2**27
    finally:
        tracemalloc.stop()


def with_int8() -> dict[str, Tensor]:
    return {
        **some(),
        "q.weight": torch.randint(-127, 128, (16, 8, 3, 3), generator=generator()).to(torch.int8),
        "every8": torch.arange(-128, 128).to(torch.int8),
        "none8": torch.empty(0, 4, dtype=torch.int8),
    }


def test_int8_tensors_and_their_scales_are_restored() -> None:
    packed = pack(with_int8())
    names = {INDEX, HIGH, LOW, INT8_INDEX, INT8, SCALES_INDEX, SCALES_HIGH, SCALES_LOW}
    assert set(packed) == names | {"variance", "step"}
    assert_same(unpack(packed), with_int8())
    assert_same(pack(dict(reversed(with_int8().items()))), packed)
    for tensors in ({"a": torch.zeros(3).to(torch.int8)}, {"none": torch.empty(0, dtype=torch.int8)}):
        assert packable(tensors)
        assert_same(unpack(pack(tensors)), tensors)


def test_gaussian_int8_weights_shrink_to_their_entropy() -> None:
    """The entropy of whole numbers with a standard deviation of 36 is log2(36 sqrt(2 pi e)) = 7.22 bits."""
    numbers = (36 * torch.randn(512, 1024, generator=generator())).round().clamp(-127, 127).to(torch.int8)
    assert 7.2 / 8 < len(pack({"a": numbers})[INT8]) / numbers.numel() < 7.3 / 8
    constant = torch.zeros(2**20, dtype=torch.int8)
    made = pack({"a": constant})
    assert len(made[INT8]) >= 2**17  # at least one bit per number, on which the check against bombs relies
    assert_same(unpack(made), {"a": constant})


@pytest.mark.parametrize(
    ("tensors", "message"),
    [
        ({INT8: None}, r"packed\.int8 is missing"),
        ({INT8_INDEX: None}, r"packed\.int8\.index is missing"),
        ({SCALES_INDEX: None}, r"packed\.scales\.index is missing"),
        ({SCALES_LOW: None}, r"packed\.scales\.low is missing"),
        ({INT8: torch.zeros(4, dtype=torch.int8)}, r"packed\.int8 is not a one-dimensional tensor of bytes"),
        ({INT8: row(b"{}" * 2000)}, r"packed\.int8 cannot be decompressed"),
        ({INT8: pack(with_int8())[INT8][:-1]}, r"packed\.int8 is truncated"),
        ({INT8: torch.cat([pack(with_int8())[INT8], row(b"x")])}, r"packed\.int8 has extra bytes at its end"),
        ({INT8_INDEX: listing(b"{")}, r"packed\.int8\.index is not valid JSON"),
        ({INT8_INDEX: listing([1])}, r"packed\.int8\.index is not a JSON object"),
        ({INT8_INDEX: listing({"a": [-1]})}, r"packed\.int8\.index has no valid shape for the tensor a"),
        ({INT8_INDEX: listing({"a": [3]})}, r"packed\.int8 has more than 3 bytes when decompressed"),
        ({INT8_INDEX: listing({"a": [1500]})}, r"packed\.int8 has 1,408 bytes, expected 1,500"),
        ({INT8_INDEX: listing({"a": [10**6]})}, r"too few for the tensors that packed\.int8\.index lists"),
        ({INT8_INDEX: listing({"a": [2**31 - 1] * 64})}, r"too few for the tensors that packed\.int8\.index lists"),
        ({INT8_INDEX: listing({"z.weight": [1408]})}, r"z\.weight is stored twice"),
        ({SCALES_INDEX: listing({"q.weight": [24, 8, 3, 3]})}, r"q\.weight is stored twice"),
        ({SCALES_INDEX: listing({"a": [3]})}, r"expected one byte per number in the tensors that packed\.scales"),
    ],
)
def test_inconsistent_int8_tensors_are_rejected(tensors: dict[str, Tensor | None], message: str) -> None:
    made = {name: tensor for name, tensor in {**pack(with_int8()), **tensors}.items() if tensor is not None}
    with pytest.raises(ValueError, match=message) as caught:
        unpack(made)
    assert len(str(caught.value)) < 110


def test_an_int8_bomb_is_rejected_before_it_is_inflated() -> None:
    """zlib can compress zeros to a thousandth; such data is refused, since `pack` compresses to an eighth at most."""
    bomb = row(zlib.compress(bytes(2**28), 9))
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match="too few for the tensors"):
            unpack({**pack(with_int8()), INT8: bomb, INT8_INDEX: listing({"a": [2**28]})})
        assert tracemalloc.get_traced_memory()[1] < 2**24
    finally:
        tracemalloc.stop()


def test_the_layout_of_packed_half_precision_stays_readable() -> None:
    """The bytes are written down here, so that a change of `pack` and `unpack` together is noticed."""
    old = {
        INDEX: listing({"a": [0, 2], "b": [3]}),
        HIGH: row(zlib.compress(bytes([0x3C, 0xC0, 0x00]))),
        LOW: row(bytes([0x00, 0x00, 0x01])),
    }
    expected = {"a": torch.empty(0, 2).half(), "b": torch.tensor([1.0, -2.0, 2**-24]).half()}
    assert_same(unpack(old), expected)
