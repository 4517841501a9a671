"""CUDA graphs: work that is recorded once and then started by one call instead of thousands."""

import gc
from collections.abc import Callable, Sequence

import torch


def record(
    works: Sequence[Callable[[], None]], stream: torch.cuda.Stream, generator: torch.Generator | None = None
) -> list[torch.cuda.CUDAGraph]:
    """One graph for each, in memory that they share; what they draw from the generator follows its seed at a replay.

    Each has run on that stream before: libraries have set themselves up, and kernels are compiled. A RuntimeError says
    what CUDA refuses to record.
    """
    # What ran outside of graphs has left memory in the allocator that cannot be used inside: give it back.
    torch.cuda.synchronize(stream.device)
    gc.collect()
    torch.cuda.empty_cache()
    graphs: list[torch.cuda.CUDAGraph] = []
    for work in works:
        graph = torch.cuda.CUDAGraph()
        if generator is not None:
            graph.register_generator_state(generator)
        pool = graphs[0].pool() if graphs else None
        # Threads that read data may allocate meanwhile: only this one's calls belong to the graph.
        with torch.cuda.graph(graph, pool=pool, stream=stream, capture_error_mode="thread_local"):
            work()
        graphs.append(graph)
    return graphs


def run_on(stream: torch.cuda.Stream, work: Callable[[], None]) -> None:
    """Do the work on another stream, after what was asked for before and before what is asked for next."""
    current = torch.cuda.current_stream(stream.device)
    stream.wait_stream(current)
    with torch.cuda.stream(stream):
        work()
    current.wait_stream(stream)


def reason(error: RuntimeError) -> str:
    """In one line, why nothing was recorded; the device is then ready for other work."""
    torch.cuda.synchronize()
    return (str(error).strip() or type(error).__name__).splitlines()[0]
