"""CUDA graphs: record GPU work once, and then replay it with one call instead of thousands of kernel launches."""

import gc
from collections.abc import Callable, Sequence

import torch


def record(
    works: Sequence[Callable[[], None]], stream: torch.cuda.Stream, generator: torch.Generator | None = None
) -> list[torch.cuda.CUDAGraph]:
    """Record one CUDA graph for each function in `works`. The graphs share memory.

    Call each function once on `stream` beforehand, so that libraries are set up and kernels are compiled. If the
    functions use `generator`, replays draw their random numbers from its current state. Raise RuntimeError with CUDA's
    reason if a function cannot be recorded.
    """
    # The allocator still holds memory of earlier work, which graphs cannot use: free it.
    torch.cuda.synchronize(stream.device)
    gc.collect()
    torch.cuda.empty_cache()
    graphs: list[torch.cuda.CUDAGraph] = []
    for work in works:
        graph = torch.cuda.CUDAGraph()
        if generator is not None:
            graph.register_generator_state(generator)
        pool = graphs[0].pool() if graphs else None
        # Threads that read data may allocate memory meanwhile, so record only the calls of this thread.
        with torch.cuda.graph(graph, pool=pool, stream=stream, capture_error_mode="thread_local"):
            work()
        graphs.append(graph)
    return graphs


def run_on(stream: torch.cuda.Stream, work: Callable[[], None]) -> None:
    """Call `work` on `stream`, so that it runs after earlier and before later GPU work of the current stream."""
    current = torch.cuda.current_stream(stream.device)
    stream.wait_stream(current)
    with torch.cuda.stream(stream):
        work()
    current.wait_stream(stream)


def reason(error: RuntimeError) -> str:
    """Return one line that tells why a recording failed. First wait until the device is ready for other work."""
    torch.cuda.synchronize()
    return (str(error).strip() or type(error).__name__).splitlines()[0]
