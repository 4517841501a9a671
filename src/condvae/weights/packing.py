"""Float16 tensors in fewer bytes, without loss.

The high byte of a float16 number holds its sign, its exponent and two bits more. Weights of a network differ little in
size, so these bytes have favourites and deflate to 0.71 of their number; the low bytes are noise and stay as they are.
Names and shapes, some thousand of which make 3 % of a small model's file, all but vanish when deflated.
"""

import json
import math
import zlib
from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor

INDEX, HIGH, LOW = "packed.index", "packed.high", "packed.low"
"""Rows of bytes in place of all float16 tensors: deflated JSON of {name: shape}; deflated high bytes of all numbers, in
the order of the names; their low bytes."""
_LONGEST_INDEX = 2**24
"""Bytes, inflated: a hundred times what the largest models need."""
_MOST_SIDES, _LONGEST_SIDE = 64, 2**31
"""Of a shape: products of more would take their time."""


def packable(tensors: Mapping[str, Tensor]) -> bool:
    """Whether packing would change anything."""
    return any(tensor.dtype == torch.float16 for tensor in tensors.values())


def pack(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors of a packed file: three of bytes, and those that are not float16 as they are."""
    packed = {name: tensor for name, tensor in tensors.items() if tensor.dtype != torch.float16}
    if taken := sorted({INDEX, HIGH, LOW} & set(packed)):
        raise ValueError(f"{taken[0]} is a name that packed files need: call the tensor something else")
    halves = {name: tensors[name] for name in sorted(tensors) if name not in packed}
    index = json.dumps({name: list(tensor.shape) for name, tensor in halves.items()}, separators=(",", ":")).encode()
    if len(index) > _LONGEST_INDEX:
        raise ValueError(f"the names and shapes of {len(halves):,} tensors are too long for a packed file")
    numbers = torch.cat([torch.empty(0, dtype=torch.float16), *(tensor.reshape(-1) for tensor in halves.values())])
    pairs = numbers.view(torch.uint8).reshape(-1, 2).numpy()  # low bytes come first in memory, as in files
    return {
        **packed,
        INDEX: _tensor(_deflated(index)),
        HIGH: _tensor(_deflated(pairs[:, 1].tobytes())),
        LOW: torch.from_numpy(pairs[:, 0].copy()),
    }


def unpack(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """What was packed; a ValueError says what is wrong with anything else."""
    for name in (INDEX, HIGH, LOW):
        if name not in tensors:
            raise ValueError(f"{name} is missing")
        if tensors[name].dtype != torch.uint8 or tensors[name].ndim != 1:
            raise ValueError(f"{name} is no row of bytes")
    found = {name: tensor for name, tensor in tensors.items() if name not in (INDEX, HIGH, LOW)}
    shapes = _shapes(_inflated(tensors, INDEX, _LONGEST_INDEX))
    if twice := sorted(set(shapes) & set(found)):
        raise ValueError(f"{twice[0]} is there twice")
    counts, low = [math.prod(shape) for shape in shapes.values()], tensors[LOW].numpy()
    if sum(counts) != len(low):
        raise ValueError(f"{LOW} has {len(low):,} bytes, not one for each number that {INDEX} lists")
    high = _inflated(tensors, HIGH, len(low))
    if len(high) != len(low):
        raise ValueError(f"{HIGH} has {len(high):,} bytes, expected {len(low):,}")
    pairs = np.stack((low, np.frombuffer(high, np.uint8)), axis=1)
    parts = torch.from_numpy(pairs).reshape(-1).view(torch.float16).split(counts) if counts else ()
    for (name, shape), part in zip(shapes.items(), parts, strict=True):
        try:
            found[name] = part.clone().reshape(shape)  # memory of its own, without which it could not be saved again
        except RuntimeError as error:  # no numbers, in a shape that has no strides
            raise ValueError(f"{name} cannot have the shape {shape}") from error
    return found


def _shapes(index: bytes) -> dict[str, list[int]]:
    try:
        shapes = json.loads(index)
        json.dumps(shapes, ensure_ascii=False).encode()  # halves of characters, of which there is no checksum
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{INDEX} is no JSON") from error
    if not isinstance(shapes, dict):
        raise ValueError(f"{INDEX} lists no names")
    for name, shape in shapes.items():
        sides = shape if isinstance(shape, list) and len(shape) <= _MOST_SIDES else [None]
        if not all(type(side) is int and 0 <= side < _LONGEST_SIDE for side in sides):
            raise ValueError(f"{INDEX} gives no shape of {name}")
    return shapes


def _deflated(data: bytes) -> bytes:
    # Next to nothing repeats in weights: "filtered" lets go of short matches, and the bytes' own code does 3 % better.
    deflater = zlib.compressobj(9, strategy=zlib.Z_FILTERED)
    return deflater.compress(data) + deflater.flush()


def _inflated(tensors: Mapping[str, Tensor], name: str, largest: int) -> bytes:
    """Never more than one byte over the largest is made of whatever stands there."""
    inflater = zlib.decompressobj()
    try:
        data = inflater.decompress(tensors[name].numpy().data, largest + 1)
    except zlib.error as error:
        raise ValueError(f"{name} cannot be inflated") from error
    if len(data) > largest:
        raise ValueError(f"{name} inflates to more than {largest:,} bytes")
    if not inflater.eof or inflater.unused_data:
        raise ValueError(f"{name} {'goes on after its end' if inflater.eof else 'is cut short'}")
    return data


def _tensor(data: bytes) -> Tensor:
    return torch.from_numpy(np.frombuffer(data, np.uint8).copy())
