"""Shared by all tests: one thread, and hypothesis runs that repeat exactly."""

import torch
from hypothesis import settings

settings.register_profile("condvae", deadline=None, derandomize=True)
settings.load_profile("condvae")
# One thread: tests run beside each other, and small networks gain nothing from more.
torch.set_num_threads(1)
