"""Long measurements that resume and report: shared machinery, then evaluation, design and OOD experiments."""

from condvae.runtime.lazy import finder

__getattr__ = finder(__name__, {})
