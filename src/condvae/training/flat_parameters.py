"""Trainable weights as one vector, and their gradients as another: what an update, a clip, an exchange between ranks
and a checkpoint do is then a handful of operations on whole vectors, whatever the network.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import Tensor, nn

_ALIGNMENT = 32  # in numbers: convolutions want their weights to start on 128 bytes


class FlatParameters:
    """Moves the module's trainable parameters into one vector; the module goes on using them as views of it.

    `gradients` has room at its end for `extra` numbers that travel between ranks together with the gradients.
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
        """How many weights are trained."""
        return sum(parameter.numel() for parameter in self.parameters.values())

    def view(self, vector: Tensor, name: str) -> Tensor:
        """The part of a vector that belongs to one parameter, in its shape and memory layout."""
        parameter = self.parameters[name]
        start = self._offsets[name]
        return vector[start : start + parameter.numel()].as_strided(
            parameter.shape, parameter.stride(), vector.storage_offset() + start
        )

    def zeros(self) -> Tensor:
        return torch.zeros_like(self.values)

    def by_name(self, vector: Tensor) -> dict[str, Tensor]:
        """A vector's parts, copied to the CPU: what a checkpoint stores, free of how weights lie in memory."""
        return {name: self.view(vector, name).to("cpu", copy=True).contiguous() for name in self.parameters}

    @torch.no_grad()
    def fill(self, vector: Tensor, parts: Mapping[str, Tensor]) -> None:
        """Put parts back; the names must be those of the parameters."""
        for name in self.parameters:
            self.view(vector, name).copy_(parts[name])

    @contextmanager
    def replaced_by(self, vector: Tensor) -> Iterator[None]:
        """Inside, the module uses these weights; afterwards exactly its own again."""
        own = self.values.clone()
        self.values.copy_(vector)
        try:
            yield
        finally:
            self.values.copy_(own)
