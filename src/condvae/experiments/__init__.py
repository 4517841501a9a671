"""Long measurements that can be resumed and shared out: evaluation, design and OOD experiments."""

from condvae.runtime.lazy import finder

__getattr__ = finder(__name__, {})
