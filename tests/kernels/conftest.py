"""Make interpreted kernels faster."""

import dataclasses
import importlib.util

import torch

if importlib.util.find_spec("triton") and not torch.cuda.is_available():
    from triton.runtime.interpreter import interpreter_builder

    # For every sum and product of integers, the interpreter computes whether it overflows, which takes up to 40 %
    # of the time of a kernel. It uses the result only when it debugs.
    assert not interpreter_builder.options.debug
    interpreter_builder.options = dataclasses.replace(interpreter_builder.options, sanitize_overflow=False)
