"""Compress float16 tensors without loss.

The high byte of a float16 number contains its sign, its exponent and two bits of the mantissa. The weights of a network
have similar magnitudes, so the high bytes are unevenly distributed, and zlib compresses them to 0.71 of their size. The
low bytes are noise and are stored unchanged. Names and shapes take 3 % of a small model's file; compressed, they take
almost nothing.
"""

import json
import math
import zlib
from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor

from condvae.runtime.json_reading import parse_json
from condvae.runtime.messages import short, shown

INDEX, HIGH, LOW = "packed.index", "packed.high", "packed.low"
"""Names of the three byte tensors that replace all float16 tensors.

The index is compressed JSON, {name: shape}. The high and low bytes are those of all float16 numbers, tensor by tensor
in the order of the index. The high bytes are compressed, the low bytes are not.
"""
_LONGEST_INDEX = 2**24
"""Size limit of the decompressed index, in bytes: a hundred times what the largest models need."""
_MOST_DIMENSIONS, _LARGEST_DIMENSION = 64, 2**31
"""Limits on the shapes in the index. Without limits, computing the number of values of a shape could take too long."""


def packable(tensors: Mapping[str, Tensor]) -> bool:
    """Return whether any of the tensors is float16, so that it can be packed."""
    return any(tensor.dtype == torch.float16 for tensor in tensors.values())


def pack(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Replace all float16 tensors by three tensors of bytes, and keep the other tensors unchanged."""
    packed = {name: tensor for name, tensor in tensors.items() if tensor.dtype != torch.float16}
    if taken := sorted({INDEX, HIGH, LOW} & set(packed)):
        raise ValueError(f"{taken[0]} is a reserved name in packed files: give the tensor another name")
    halves = {name: tensors[name] for name in sorted(tensors) if name not in packed}
    index = json.dumps({name: list(tensor.shape) for name, tensor in halves.items()}, separators=(",", ":")).encode()
    if len(index) > _LONGEST_INDEX:
        raise ValueError(f"the names and shapes of {len(halves):,} tensors are too long for a packed file")
    numbers = torch.cat([torch.empty(0, dtype=torch.float16), *(tensor.reshape(-1) for tensor in halves.values())])
    pairs = numbers.view(torch.uint8).reshape(-1, 2).numpy()  # little-endian: the low byte of each number comes first
    return {
        **packed,
        INDEX: _tensor(_deflated(index)),
        HIGH: _tensor(_deflated(pairs[:, 1].tobytes())),
        LOW: torch.from_numpy(pairs[:, 0].copy()),
    }


def unpack(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the tensors that were given to `pack`. Raise ValueError with the reason if `pack` did not make these."""
    for name in (INDEX, HIGH, LOW):
        if name not in tensors:
            raise ValueError(f"{name} is missing")
        if tensors[name].dtype != torch.uint8 or tensors[name].ndim != 1:
            raise ValueError(f"{name} is not a one-dimensional tensor of bytes")
    found = {name: tensor for name, tensor in tensors.items() if name not in (INDEX, HIGH, LOW)}
    shapes = _shapes(_inflated(tensors, INDEX, _LONGEST_INDEX))
    if twice := sorted(set(shapes) & set(found)):
        raise ValueError(f"the tensor {short(twice[0])} is stored twice, packed and unpacked")
    counts, low = [math.prod(shape) for shape in shapes.values()], tensors[LOW].numpy()
    if sum(counts) != len(low):
        raise ValueError(
            f"{LOW} has {len(low):,} bytes, expected one byte per number in the tensors that {INDEX} lists"
        )
    high = _inflated(tensors, HIGH, len(low))
    if len(high) != len(low):
        raise ValueError(f"{HIGH} has {len(high):,} bytes, expected {len(low):,} as in {LOW}")
    pairs = np.stack((low, np.frombuffer(high, np.uint8)), axis=1)
    parts = torch.from_numpy(pairs).reshape(-1).view(torch.float16).split(counts) if counts else ()
    for (name, shape), part in zip(shapes.items(), parts, strict=True):
        try:
            found[name] = part.clone().reshape(shape)  # clone: views of one memory cannot be saved again
        except RuntimeError as error:  # an empty tensor whose other dimensions overflow
            raise ValueError(f"the tensor {short(name)} cannot have the shape {shown(shape)}") from error
    return found


def _shapes(index: bytes) -> dict[str, list[int]]:
    try:
        shapes = parse_json(index)
        json.dumps(shapes, ensure_ascii=False).encode()  # reject lone surrogates, which the checksum cannot encode
    except ValueError as error:
        raise ValueError(f"{INDEX} is not valid JSON") from error
    if not isinstance(shapes, dict):
        raise ValueError(f"{INDEX} is not a JSON object of names and shapes")
    for name, shape in shapes.items():
        lengths = shape if isinstance(shape, list) and len(shape) <= _MOST_DIMENSIONS else [None]
        if not all(type(length) is int and 0 <= length < _LARGEST_DIMENSION for length in lengths):
            raise ValueError(f"{INDEX} has no valid shape for the tensor {short(name)}")
    return shapes


def _deflated(data: bytes) -> bytes:
    # Weights contain almost no repeated sequences. Z_FILTERED skips short matches and relies on Huffman coding, which
    # gives 3 % smaller files here.
    deflater = zlib.compressobj(9, strategy=zlib.Z_FILTERED)
    return deflater.compress(data) + deflater.flush()


def _inflated(tensors: Mapping[str, Tensor], name: str, largest: int) -> bytes:
    """Decompress a tensor of bytes; raise ValueError if it is damaged or contains more than `largest` bytes.

    At most `largest` + 1 bytes are ever decompressed, so a decompression bomb cannot fill the memory.
    """
    inflater = zlib.decompressobj()
    try:
        data = inflater.decompress(tensors[name].numpy().data, largest + 1)
    except zlib.error as error:
        raise ValueError(f"{name} cannot be decompressed") from error
    if len(data) > largest:
        raise ValueError(f"{name} has more than {largest:,} bytes when decompressed")
    if not inflater.eof or inflater.unused_data:
        raise ValueError(f"{name} {'has extra bytes at its end' if inflater.eof else 'is truncated'}")
    return data


def _tensor(data: bytes) -> Tensor:
    return torch.from_numpy(np.frombuffer(data, np.uint8).copy())
