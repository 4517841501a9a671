"""Move batches of images to the device.

The batches come from a copy of the whole set on the device, or threads read them ahead of time.
"""

import os
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from condvae.data.image_set import ImageSet, Indices, LevelBatch, channels_first
from condvae.runtime.checks import check_choice, check_whole

Residency = Literal["auto", "device", "stream"]

_SHARE = 3  # a data set may take up to 1/3 of the free memory; the model needs the rest
_BYTES_PER_COPY = 2**26  # copy a set to the device in pieces of this size, so that the host never holds two copies


def deliver(
    images: ImageSet,
    positions: Iterable[Indices],
    *,
    device: torch.device,
    residency: Residency = "auto",
    workers: int = 2,
) -> Iterator[LevelBatch]:
    """For each array of positions, yield a batch of the images at these positions, on the device.

    `positions` may be endless. `residency` decides where the images are kept, and does not change the batches. It is
    one of these:
    - "device": copy the whole set to the device once. On a CPU nothing is copied, not even a memory-mapped file.
    - "stream": threads read the next batches ahead of time, into pinned memory if the device is a GPU.
    - "auto": "device" if the set takes less than a third of the device's free memory, or if the device is a CPU and the
      set is in memory already; otherwise "stream".
    """
    check_choice(residency, "residency", ("auto", "device", "stream"))
    check_whole(workers, "workers", least=1)
    device = torch.device(device)
    if device == torch.device("cuda"):  # each thread has its own current GPU, so name this thread's GPU explicitly
        device = torch.device("cuda", torch.cuda.current_device())
    if residency == "auto":
        residency = "device" if _fits(images, device) else "stream"
    checked = (_checked(wanted, len(images)) for wanted in positions)
    if residency == "stream":
        return _streamed(images, checked, device, workers)
    if device.type == "cpu":
        return (images.take(wanted) for wanted in checked)
    return _resident(images, checked, device)


def _checked(positions: Indices, n: int) -> Indices:
    """Return positions as int64; raise ValueError if one is outside the set.

    Without this check, a GPU would report the error late, and all later calls on the GPU would fail.
    """
    positions = np.asarray(positions, dtype=np.int64)
    if positions.size and not 0 <= positions.min() <= positions.max() < n:
        raise ValueError(
            f"images at positions {positions.min()} to {positions.max()} were requested from a set of {n:,} images, "
            f"expected positions from 0 to {n - 1}"
        )
    return positions


def _resident(images: ImageSet, positions: Iterable[Indices], device: torch.device) -> Iterator[LevelBatch]:
    """Yield batches from a copy of the set on the device. Only indices are transferred, and the host never waits."""
    whole = _copied_to_device(images, device)
    pin = device.type == "cuda"

    def rows(part: Tensor | None, index: Tensor) -> Tensor | None:
        return None if part is None else part.index_select(0, index)

    for wanted in positions:
        index = torch.from_numpy(wanted)
        index = (index.pin_memory() if pin else index).to(device, non_blocking=True)
        batch = whole.images.index_select(0, index)
        yield channels_first(LevelBatch(batch, rows(whole.labels, index), rows(whole.paired, index)))


def _copied_to_device(images: ImageSet, device: torch.device) -> LevelBatch:
    """Copy the whole set to the device; its images are [N, H, W, C] there."""
    step = max(1, _BYTES_PER_COPY * len(images) // max(1, images.nbytes))
    everything = np.arange(len(images))
    whole: list[Tensor | None] = []
    first = images.gather(everything[:1])
    for part in first:
        whole.append(
            None if part is None else torch.empty((len(images), *part.shape[1:]), dtype=part.dtype, device=device)
        )
    for start in range(0, len(images), step):
        for target, piece in zip(whole, images.gather(everything[start : start + step]), strict=True):
            if target is not None and piece is not None:
                target[start : start + step].copy_(piece)
    pixels, labels, paired = whole
    assert pixels is not None
    return LevelBatch(pixels, labels, paired)


def _streamed(
    images: ImageSet, positions: Iterable[Indices], device: torch.device, workers: int
) -> Iterator[LevelBatch]:
    """Yield batches that threads have read ahead of time.

    Threads are enough, because NumPy releases the interpreter's lock while it gathers images. With processes, batches
    would have to be copied between them.
    """
    pin = device.type == "cuda"

    def read(wanted: Indices) -> LevelBatch:
        levels = images.gather(wanted)
        return levels.pinned() if pin else levels

    ahead: deque[Future[LevelBatch]] = deque()
    pool = ThreadPoolExecutor(workers, thread_name_prefix="condvae-data", initializer=_use_device, initargs=(device,))
    try:
        for wanted in positions:
            ahead.append(pool.submit(read, wanted))
            if len(ahead) > 2 * workers:
                yield channels_first(ahead.popleft().result().to(device, non_blocking=pin))
        while ahead:
            yield channels_first(ahead.popleft().result().to(device, non_blocking=pin))
    finally:  # runs also if the caller stops early, is interrupted, or drops the iterator
        pool.shutdown(wait=False, cancel_futures=True)


def _use_device(device: torch.device) -> None:
    """Select the GPU of this process in a new thread, which would otherwise pin memory through a context on GPU 0."""
    if device.type == "cuda":
        torch.cuda.set_device(device)


def _fits(images: ImageSet, device: torch.device) -> bool:
    if device.type == "cpu":
        mapped = any(is_mapped(part) for part in (images.images, images.paired) if part is not None)
        return not mapped or images.nbytes < free_host_bytes() / _SHARE
    if device.type == "cuda":
        return images.nbytes < torch.cuda.mem_get_info(device)[0] / _SHARE
    return False  # other devices do not report their free memory, and streaming always works


def is_mapped(array: object) -> bool:
    """Whether an array is a memory-mapped file or a view of one."""
    while array is not None:
        if isinstance(array, np.memmap):
            return True
        array = getattr(array, "base", None)
    return False


def free_host_bytes() -> int:
    """Return the bytes of memory available without swapping, as Linux reports them, or elsewhere half of the total."""
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2
    except (AttributeError, OSError, ValueError):
        return 4 * 2**30
