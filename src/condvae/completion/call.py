"""The command line's way to `resolve_device`."""

from condvae.runtime.devices import resolve_device as check_device

__all__ = ["check_device"]
