"""Shared by all tests: two threads as on the smallest machine, and hypothesis runs that repeat exactly."""

import torch
from hypothesis import settings

settings.register_profile("condvae", deadline=None, derandomize=True)
settings.load_profile("condvae")
torch.set_num_threads(2)
