"""Store all trainable weights in one vector and all gradients in another.

Updates, clipping, sums over ranks and checkpoints then need only a few operations on whole vectors, for any network.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import Tensor, nn

_ALIGNMENT = 32  # in float32 values: aligns every weight to 128 bytes, for convolutions


class FlatParameters:
    """Move a module's trainable parameters into one vector, `values`; the parameters become views of that vector.

    `exchanged` is the vector that is summed over ranks. Its first part is `gradients`, its second part `extra`, which
    has room for other numbers.
    """

    def __init__(self, module: nn.Module, *, extra: int = 0) -> None:
        self.parameters = {name: p for name, p in module.named_parameters() if p.requires_grad}
        if not self.parameters:
            raise ValueError("there is nothing to train: every weight of the model is frozen")
        first = next(iter(self.parameters.values()))
        self._offsets: dict[str, int] = {}
        end = 0
        for name, parameter in self.parameters.items():
            self._offsets[name] = end
            end += -(-parameter.numel() // _ALIGNMENT) * _ALIGNMENT
        self.values = torch.zeros(end, dtype=first.dtype, device=first.device)
        self.exchanged = torch.zeros(end + extra, dtype=first.dtype, device=first.device)
        self.gradients, self.extra = self.exchanged[:end], self.exchanged[end:]
        with torch.no_grad():
            for name, parameter in self.parameters.items():
                view = self.view(self.values, name)
                view.copy_(parameter)
                parameter.data = view
                parameter.grad = self.view(self.gradients, name)

    def __len__(self) -> int:
        """Return the number of trainable weights, without padding."""
        return sum(parameter.numel() for parameter in self.parameters.values())

    def view(self, vector: Tensor, name: str) -> Tensor:
        """Return the part of a vector that belongs to a parameter, in the parameter's shape and memory layout."""
        parameter = self.parameters[name]
        start = self._offsets[name]
        return vector[start : start + parameter.numel()].as_strided(
            parameter.shape, parameter.stride(), vector.storage_offset() + start
        )

    def zeros(self) -> Tensor:
        return torch.zeros_like(self.values)

    def by_name(self, vector: Tensor) -> dict[str, Tensor]:
        """Split a vector into contiguous CPU copies of its parts, by parameter name, for checkpoints."""
        return {name: self.view(vector, name).to("cpu", copy=True).contiguous() for name in self.parameters}

    @torch.no_grad()
    def fill(self, vector: Tensor, parts: Mapping[str, Tensor]) -> None:
        """Fill a vector from its parts by parameter name; `parts` must have an entry for every parameter."""
        for name in self.parameters:
            self.view(vector, name).copy_(parts[name])

    @contextmanager
    def replaced_by(self, vector: Tensor) -> Iterator[None]:
        """Context in which the module uses the weights in `vector`; its own weights are restored exactly at the end."""
        own = self.values.clone()
        self.values.copy_(vector)
        try:
            yield
        finally:
            self.values.copy_(own)


class FlatBuffers:
    """Move the stored buffers of modules, such as running means of activations, into one vector, `values`.

    The buffers become views of that vector. So all of them can be set back at once after a step that went wrong.
    """

    def __init__(self, *modules: nn.Module) -> None:
        self._buffers: dict[str, Tensor] = {}
        for number, module in enumerate(modules):
            stored = module.state_dict(keep_vars=True)
            named = ((name, buffer) for name, buffer in module.named_buffers() if name in stored)
            self._buffers |= {f"{number}/{name}": buffer for name, buffer in named}
        parts = [buffer.detach().flatten().float() for buffer in self._buffers.values()]
        device = next(modules[0].parameters()).device
        self.values = torch.cat(parts) if parts else torch.zeros(0, device=device)
        self._kept = self.values.clone()
        for buffer, part in zip(self._buffers.values(), self._parts(self.values), strict=True):
            buffer.data = part

    def _parts(self, vector: Tensor) -> Iterator[Tensor]:
        sizes = [buffer.numel() for buffer in self._buffers.values()]
        for part, buffer in zip(vector.split(sizes), self._buffers.values(), strict=True):
            yield part.view(buffer.shape)

    def keep(self) -> None:
        """Keep a copy of the present values."""
        self._kept.copy_(self.values)

    def restore_unless(self, fine: Tensor) -> None:
        """Set the buffers back to the kept values unless `fine`, a bool scalar on the device, is True."""
        self.values.copy_(torch.where(fine, self.values, self._kept))

    def by_name(self) -> dict[str, Tensor]:
        """Return CPU copies of the buffers, for checkpoints."""
        parts = zip(self._buffers, self._parts(self.values), strict=True)
        return {name: part.to("cpu", copy=True).contiguous() for name, part in parts}

    @torch.no_grad()
    def fill(self, parts: Mapping[str, Tensor]) -> None:
        """Set the buffers from their parts by name; `parts` must have an entry for every buffer."""
        for name, part in zip(self._buffers, self._parts(self.values), strict=True):
            part.copy_(parts[name])
