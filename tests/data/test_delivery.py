import itertools
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from condvae.data import ImageSet, Order, deliver
from condvae.data import delivery as delivery_module
from condvae.data.delivery import is_mapped

CPU = torch.device("cpu")


def image_set(images: NDArray[np.uint8]) -> ImageSet:
    labels = np.arange(len(images), dtype=np.int64) * 3
    return ImageSet(images=images, labels=labels, paired=images[:, :, ::-1], rows=np.arange(100, 300))


def endless(n: int, batch: int) -> Iterator[NDArray[np.int64]]:
    order = Order(n, 1)
    return (order(start, batch) for start in itertools.count(0, batch))


def same(a: torch.Tensor | None, b: torch.Tensor | None) -> bool:
    return a is not None and b is not None and torch.equal(a, b) and a.stride() == b.stride()


def test_both_residencies_give_the_same_batches_in_order(faces: NDArray[np.uint8], tmp_path: Path) -> None:
    np.save(tmp_path / "faces.npy", faces)
    mapped = np.load(tmp_path / "faces.npy", mmap_mode="r")
    for source in (image_set(faces), image_set(mapped)):
        positions = list(itertools.islice(endless(200, 33), 20))
        here = list(deliver(source, positions, device=CPU, residency="device"))
        there = list(deliver(source, positions, device=CPU, residency="stream", workers=3))
        assert len(here) == len(there) == 20
        for wanted, a, b in zip(positions, here, there, strict=True):
            assert np.array_equal(a.images.numpy(), faces[100 + wanted].transpose(0, 3, 1, 2))
            assert same(a.images, b.images) and same(a.labels, b.labels) and same(a.paired, b.paired)


def test_gathering_on_a_device_gives_the_same_batches(faces: NDArray[np.uint8]) -> None:
    # Run the code for GPUs on the CPU: except for pinned memory it is the same.
    source = image_set(faces)
    positions = list(itertools.islice(endless(200, 33), 5))
    for a, b in zip(
        deliver(source, positions, device=CPU), delivery_module._resident(source, positions, CPU), strict=True
    ):
        assert same(a.images, b.images) and same(a.labels, b.labels) and same(a.paired, b.paired)


@pytest.mark.parametrize("residency", ["device", "stream"])
def test_only_a_few_of_endless_positions_are_read_ahead(faces: NDArray[np.uint8], residency: str) -> None:
    requested = 0

    def positions() -> Iterator[NDArray[np.int64]]:
        nonlocal requested
        for wanted in endless(200, 8):
            requested += 1
            yield wanted

    batches = deliver(image_set(faces), positions(), device=CPU, residency=residency)  # type: ignore[arg-type]
    for _ in range(30):
        next(batches)
    assert 30 <= requested <= 40


def test_threads_end_with_the_iterator(faces: NDArray[np.uint8]) -> None:
    batches = deliver(image_set(faces), endless(200, 8), device=CPU, residency="stream")
    next(batches)
    assert any("condvae-data" in thread.name for thread in threading.enumerate())
    del batches
    for _ in range(100):
        if not any("condvae-data" in thread.name for thread in threading.enumerate()):
            return
        time.sleep(0.02)
    pytest.fail("some threads are still running")


def test_the_interpreter_can_exit_in_the_middle_of_a_stream() -> None:
    script = (
        "import numpy as np, torch, itertools\n"
        "from condvae.data import ImageSet, deliver\n"
        "images = ImageSet(images=np.zeros((9, 4, 4, 1), np.uint8), rows=np.arange(9))\n"
        "batches = deliver(images, itertools.repeat(np.arange(9)), device=torch.device('cpu'), residency='stream')\n"
        "next(batches); print('one', flush=True)\n"
    )
    run = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60, env={**os.environ}, check=False
    )
    assert (run.returncode, run.stdout, run.stderr) == (0, "one\n", "")


def test_auto_streams_sets_that_are_too_large(
    faces: NDArray[np.uint8], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    np.save(tmp_path / "faces.npy", faces)
    mapped = image_set(np.load(tmp_path / "faces.npy", mmap_mode="r"))
    assert is_mapped(mapped.images) and is_mapped(mapped.paired) and not is_mapped(faces)
    monkeypatch.setattr(delivery_module, "free_host_bytes", lambda: 3 * mapped.nbytes + 3)
    assert delivery_module._fits(mapped, CPU)
    monkeypatch.setattr(delivery_module, "free_host_bytes", lambda: 3 * mapped.nbytes)
    assert not delivery_module._fits(mapped, CPU)
    assert delivery_module._fits(image_set(faces), CPU)


def test_free_memory_is_a_sensible_number() -> None:
    assert 2**24 < delivery_module.free_host_bytes() < 2**50


def test_wrong_arguments_are_rejected(faces: NDArray[np.uint8]) -> None:
    source = image_set(faces)
    with pytest.raises(ValueError, match="residency is 'moon'"):
        deliver(source, [], device=CPU, residency="moon")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="workers is 0"):
        deliver(source, [], device=CPU, workers=0)
    for residency in ("device", "stream"):
        for wrong in ([3, 200], [-1]):
            with pytest.raises(ValueError, match="requested from a set of 200 images"):
                list(deliver(source, [np.array(wrong)], device=CPU, residency=residency))
