"""Read arrays from pickles, such as CIFAR-10's batches, without running any code of the pickle or of NumPy's unpickler.

The functions with which NumPy rebuilds arrays are replaced by ones that only keep their arguments: NumPy's own trust
them, and can allocate any memory.
"""

import io
import math
import pickle
import pickletools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

MOST_PICKLE_BYTES = 2**26
"""Size limit of a pickle: twice the size of a batch of CIFAR-10."""


def read_array_pickle(content: bytes) -> dict[str, Any]:
    """Return the mapping in a pickle by its text keys, with arrays of bytes as NumPy arrays.

    Raise `pickle.UnpicklingError` if the pickle refers to other functions or classes than those of arrays. A truncated
    pickle can raise any exception.
    """
    if len(content) > MOST_PICKLE_BYTES:
        raise pickle.UnpicklingError(f"it has more than {MOST_PICKLE_BYTES:,} bytes")
    for opcode, argument, _ in pickletools.genops(content):
        # The unpickler reserves memory for every smaller index too.
        if opcode.name.endswith("PUT") and isinstance(argument, int) and argument > len(content):
            raise pickle.UnpicklingError("it numbers more objects than it can contain")
    held = _ArraysOnly(io.BytesIO(content), encoding="bytes").load()
    items = held.items() if isinstance(held, dict) else ()
    named = {key.decode("latin1") if isinstance(key, bytes) else str(key): value for key, value in items}
    return {key: value.array() if isinstance(value, _PickledArray) else value for key, value in named.items()}


@dataclass
class _PickledType:
    """The arguments of `numpy.dtype`. Its state, such as the order of bytes, is ignored."""

    code: object = None

    def __setstate__(self, state: object) -> None:
        pass


@dataclass
class _PickledArray:
    """The arguments with which an array is rebuilt."""

    state: object = None

    def __setstate__(self, state: object) -> None:
        self.state = state

    def array(self) -> NDArray[np.uint8] | None:
        """Return the array; None unless it contains as many bytes as its shape states."""
        if not isinstance(self.state, tuple) or len(self.state) != 5:
            return None
        _, shape, kind, columns_first, content = self.state
        if not isinstance(kind, _PickledType) or kind.code not in ("u1", b"u1"):
            return None
        if not isinstance(content, bytes | bytearray) or not isinstance(shape, tuple):
            return None
        if not all(type(length) is int and length >= 0 for length in shape) or math.prod(shape) != len(content):
            return None
        return np.frombuffer(bytearray(content), np.uint8).reshape(shape, order="F" if columns_first else "C")


def _scalar(kind: object, content: object) -> int:
    if not isinstance(kind, _PickledType) or not isinstance(content, bytes):
        raise pickle.UnpicklingError("it contains a number in an unknown format")
    return int.from_bytes(content, "little", signed="i" in str(kind.code))


class _ArraysOnly(pickle.Unpickler):
    """Unpickles only NumPy arrays and plain values. It rejects any other function or class before its code can run."""

    def find_class(self, module: str, name: str) -> Any:
        # New functions at each call, because a pickle could set attributes on them. Names of modules differ between
        # versions of NumPy.
        allowed: Mapping[tuple[str, str], Any] = {
            ("numpy", "ndarray"): "ndarray",
            ("numpy", "dtype"): lambda code, *_: _PickledType(code),
            ("numpy.core.multiarray", "_reconstruct"): lambda *_: _PickledArray(),
            ("numpy.core.multiarray", "scalar"): lambda kind, content: _scalar(kind, content),
            ("numpy.core.numeric", "_frombuffer"): lambda content, kind, shape, order: _PickledArray(
                (1, shape, kind, order == "F", content)
            ),
            ("_codecs", "encode"): lambda text, _: text.encode("latin1"),  # how Python 3 pickles bytes for Python 2
        }
        key = (module.replace("numpy._core", "numpy.core"), name)
        if key not in allowed:
            raise pickle.UnpicklingError(
                f"the file refers to {module}.{name}, which is not needed for arrays and could run code"
            )
        return allowed[key]
