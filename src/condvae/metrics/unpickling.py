"""Weights in other people's files, read without running anything that is in them."""

import io
import pickle
import zipfile
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

_LARGEST = 2**28
"""Bytes of an archive once unpacked; the largest network here has a third of that."""


def arrays(data: bytes) -> Any:
    """Pickled NumPy arrays, in dicts and lists."""
    known = {
        "_reconstruct": np.empty(0).__reduce__()[0],  # its module has changed its name over NumPy's versions
        "ndarray": np.ndarray,
        "dtype": np.dtype,
    }

    def find(module: str, name: str) -> Any:
        return known.get(name) if module.split(".")[0] == "numpy" else None

    return _Unpickler(io.BytesIO(data), find).load()


def script_tensors(data: bytes) -> dict[str, Tensor]:
    """The float32 tensors of a TorchScript archive, by their dotted names. Its code is not looked at."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        if sum(member.file_size for member in archive.infolist()) > _LARGEST:
            raise ValueError("it unpacks to more than a network of metrics needs")
        pickled = next((name for name in archive.namelist() if name.count("/") == 1 and name.endswith("/data.pkl")), "")
        root = pickled.rpartition("/")[0]

        def storage(key: str) -> Tensor:
            return torch.from_numpy(np.frombuffer(archive.read(f"{root}/data/{key}"), dtype="<f4").astype(np.float32))

        # Functions made anew: a pickle could set attributes on what it is handed.
        known: dict[tuple[str, str], Any] = {
            ("torch", "FloatStorage"): "float32",
            ("torch._utils", "_rebuild_tensor_v2"): lambda whole, start, shape, strides, *_: whole.as_strided(
                shape, strides, start
            ).contiguous(),
            ("torch.jit._pickle", "build_intlist"): lambda numbers: numbers,
            ("collections", "OrderedDict"): lambda *_: {},
        }

        def find(module: str, name: str) -> Any:
            return _Object if module.split(".")[0] == "__torch__" else known.get((module, name))

        whole = _Unpickler(io.BytesIO(archive.read(pickled)), find, storage).load()
    found: dict[str, Tensor] = {}
    _collect(whole, "", found)
    return found


class _Object:
    """A module of a TorchScript archive: its attributes, and no more."""


def _collect(held: object, name: str, found: dict[str, Tensor]) -> None:
    if isinstance(held, Tensor):
        found[name] = held
    elif isinstance(held, _Object):
        for key, value in vars(held).items():
            _collect(value, f"{name}.{key}" if name else key, found)


class _Unpickler(pickle.Unpickler):
    """Makes what `find` knows, and refuses any other name before anything of it runs."""

    def __init__(
        self, file: io.BytesIO, find: Callable[[str, str], Any], storage: Callable[[str], Tensor] | None = None
    ) -> None:
        super().__init__(file)
        self._find, self._storage = find, storage

    def find_class(self, module: str, name: str) -> Any:
        found = self._find(module, name)
        if found is None:
            raise pickle.UnpicklingError(f"{module}.{name} is not allowed in a file of weights")
        return found

    def persistent_load(self, identity: Any) -> Tensor:
        """("storage", type, key, device, length) in PyTorch's files."""
        if self._storage is None or identity[:2] != ("storage", "float32"):
            raise pickle.UnpicklingError(f"{identity} is no storage of float32 numbers")
        return self._storage(identity[2])


BROKEN: tuple[type[Exception], ...] = (
    *(pickle.UnpicklingError, zipfile.BadZipFile, KeyError, TypeError, AttributeError, EOFError, IndexError),
    *(RuntimeError, ValueError, NotImplementedError, OSError, OverflowError, MemoryError),
)
"""What files that are cut short or of another kind make of this."""


def named(weights: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    """Those below the prefix, without it and what is before it."""
    return {name.partition(prefix)[2]: tensor for name, tensor in weights.items() if prefix in name}
