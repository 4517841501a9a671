"""Compress float16 and int8 tensors without loss.

The high byte of a float16 number contains its sign, its exponent and two bits of the mantissa. The weights of a network
have similar magnitudes, so the high bytes are unevenly distributed, and zlib compresses them to 0.71 of their size. The
low bytes are noise and are stored unchanged. Names and shapes take 3 % of a small model's file; compressed, they take
almost nothing.

Weights of 8 bits are whole numbers, in which small ones are more frequent: zlib compresses them to 0.91 of their size.
Their scales are bfloat16 numbers, which are treated like float16 numbers.
"""

import json
import math
import zlib
from collections.abc import Mapping
from typing import NamedTuple

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
INT8_INDEX, INT8 = "packed.int8.index", "packed.int8"
"""Names of the two byte tensors that replace all int8 tensors: an index like the above, and the compressed numbers."""
SCALES_INDEX, SCALES_HIGH, SCALES_LOW = "packed.scales.index", "packed.scales.high", "packed.scales.low"
"""Names of the three byte tensors that replace all bfloat16 tensors, in a file that has int8 tensors."""


class _Group(NamedTuple):
    """All tensors of one type, and the names of the byte tensors that replace them."""

    dtype: torch.dtype
    shapes: str
    """The index of names and shapes, compressed."""
    compressed: str
    """The high bytes of all numbers, or the only ones, compressed."""
    low: str | None
    """The low bytes of all numbers; None for numbers of one byte."""

    @property
    def names(self) -> list[str]:
        return [name for name in (self.shapes, self.compressed, self.low) if name is not None]


_HALVES = _Group(torch.float16, INDEX, HIGH, LOW)
_INT8 = (_Group(torch.int8, INT8_INDEX, INT8, None), _Group(torch.bfloat16, SCALES_INDEX, SCALES_HIGH, SCALES_LOW))
_LONGEST_INDEX = 2**24
"""Size limit of the decompressed index, in bytes: a hundred times what the largest models need."""
_MOST_DIMENSIONS, _LARGEST_DIMENSION = 64, 2**31
"""Limits on the shapes in the index. Without limits, computing the number of values of a shape could take too long."""


def packable(tensors: Mapping[str, Tensor]) -> bool:
    """Return whether any of the tensors is float16 or int8, so that it can be packed."""
    return any(tensor.dtype in (torch.float16, torch.int8) for tensor in tensors.values())


def pack(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Replace all float16 tensors by three tensors of bytes, and keep the other tensors unchanged.

    If there are int8 tensors, these and all bfloat16 tensors, which are their scales, are replaced by five more.
    """
    has_int8 = any(tensor.dtype == torch.int8 for tensor in tensors.values())
    groups = [_HALVES, *(_INT8 if has_int8 else ())]
    types = [group.dtype for group in groups]
    packed = {name: tensor for name, tensor in tensors.items() if tensor.dtype not in types}
    if taken := sorted({name for group in (_HALVES, *_INT8) for name in group.names} & set(packed)):
        raise ValueError(f"{taken[0]} is a reserved name in packed files: give the tensor another name")
    for group in groups:
        packed |= _packed(group, {n: tensors[n] for n in sorted(tensors) if tensors[n].dtype == group.dtype})
    return packed


def _packed(group: _Group, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    index = json.dumps({name: list(tensor.shape) for name, tensor in tensors.items()}, separators=(",", ":")).encode()
    if len(index) > _LONGEST_INDEX:
        raise ValueError(f"the names and shapes of {len(tensors):,} tensors are too long for a packed file")
    numbers = torch.cat([torch.empty(0, dtype=group.dtype), *(tensor.reshape(-1) for tensor in tensors.values())])
    # Little-endian: the low byte of each number comes first.
    columns = numbers.view(torch.uint8).reshape(-1, group.dtype.itemsize).numpy()
    data = columns[:, -1].tobytes()
    made = {
        group.shapes: _tensor(_deflated(index)),
        group.compressed: _tensor(_deflated(data) if group.low else _coded(data)),
    }
    return {**made, group.low: torch.from_numpy(columns[:, 0].copy())} if group.low else made


def unpack(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the tensors that were given to `pack`. Raise ValueError with the reason if `pack` did not make these."""
    has_int8 = any(name in tensors for group in _INT8 for name in group.names)
    groups = [_HALVES, *(_INT8 if has_int8 else ())]
    names = [name for group in groups for name in group.names]
    for name in names:
        if name not in tensors:
            raise ValueError(f"{name} is missing")
        if tensors[name].dtype != torch.uint8 or tensors[name].ndim != 1:
            raise ValueError(f"{name} is not a one-dimensional tensor of bytes")
    found = {name: tensor for name, tensor in tensors.items() if name not in names}
    for group in groups:
        shapes = _shapes(_inflated(tensors, group.shapes, _LONGEST_INDEX), group.shapes)
        if twice := sorted(set(shapes) & set(found)):
            raise ValueError(f"the tensor {short(twice[0])} is stored twice")
        found |= _unpacked(group, shapes, tensors)
    return found


def _unpacked(group: _Group, shapes: Mapping[str, list[int]], tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    counts = [math.prod(shape) for shape in shapes.values()]
    count, size = sum(counts), len(tensors[group.low or group.compressed])
    if group.low and count != size:
        raise ValueError(
            f"{group.low} has {size:,} bytes, expected one byte per number in the tensors that {group.shapes} lists"
        )
    # A code of `_coded` has at least one bit, so that a few bytes cannot be a decompression bomb.
    if not group.low and count > 8 * size:
        raise ValueError(f"{group.compressed} has {size:,} bytes, too few for the tensors that {group.shapes} lists")
    high = _inflated(tensors, group.compressed, count)
    if len(high) != count:
        expected = f"as in {group.low}" if group.low else f"as in {group.shapes}"
        raise ValueError(f"{group.compressed} has {len(high):,} bytes, expected {count:,} {expected}")
    columns = [tensors[group.low].numpy()] if group.low else []
    pairs = np.stack((*columns, np.frombuffer(high, np.uint8)), axis=1)
    parts = torch.from_numpy(pairs).reshape(-1).view(group.dtype).split(counts) if counts else ()
    found: dict[str, Tensor] = {}
    for (name, shape), part in zip(shapes.items(), parts, strict=True):
        try:
            found[name] = part.clone().reshape(shape)  # clone: views of one memory cannot be saved again
        except RuntimeError as error:  # an empty tensor whose other dimensions overflow
            raise ValueError(f"the tensor {short(name)} cannot have the shape {shown(shape)}") from error
    return found


def _shapes(index: bytes, name_of_index: str) -> dict[str, list[int]]:
    try:
        shapes = parse_json(index)
        json.dumps(shapes, ensure_ascii=False).encode()  # reject lone surrogates, which the checksum cannot encode
    except ValueError as error:
        raise ValueError(f"{name_of_index} is not valid JSON") from error
    if not isinstance(shapes, dict):
        raise ValueError(f"{name_of_index} is not a JSON object of names and shapes")
    for name, shape in shapes.items():
        lengths = shape if isinstance(shape, list) and len(shape) <= _MOST_DIMENSIONS else [None]
        if not all(type(length) is int and 0 <= length < _LARGEST_DIMENSION for length in lengths):
            raise ValueError(f"{name_of_index} has no valid shape for the tensor {short(name)}")
    return shapes


def _deflated(data: bytes) -> bytes:
    # Weights contain almost no repeated sequences. Z_FILTERED skips short matches and relies on Huffman coding, which
    # gives 3 % smaller files here.
    deflater = zlib.compressobj(9, strategy=zlib.Z_FILTERED)
    return deflater.compress(data) + deflater.flush()


def _coded(data: bytes) -> bytes:
    # Huffman coding alone: files are as small as with Z_FILTERED, and data is at most eight times its compressed size,
    # which `_unpacked` checks. The largest memLevel makes long blocks, with fewer tables of codes.
    deflater = zlib.compressobj(9, memLevel=9, strategy=zlib.Z_HUFFMAN_ONLY)
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
