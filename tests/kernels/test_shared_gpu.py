"""On a GPU that other kernels use at the same time, evaluation with kernels gives the numbers that it gives alone."""

import contextlib
import threading
from collections.abc import Iterator

import pytest
import torch

from condvae import objectives
from condvae.kernels import block
from condvae.kernels.fused_vdvae import Fused
from condvae.vdvae import VDVAE, preset

gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
_REPEATS, _IMAGES = 60, 50


@contextlib.contextmanager
def busy(device: torch.device) -> Iterator[None]:
    """Keep the GPU busy from another thread: matrix products of many sizes fill whatever multiprocessors are free."""
    stop = threading.Event()

    def work() -> None:
        torch.cuda.set_device(device)
        stream = torch.cuda.Stream(device)
        factors = [torch.randn(n, n, device=device, dtype=torch.bfloat16) for n in (256, 512, 1024, 2048)]
        with torch.cuda.stream(stream):
            while not stop.is_set():
                for factor in factors:
                    torch.mm(factor, factor)
                stream.synchronize()

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stop.set()
        for thread in threads:
            thread.join()


@gpu
@pytest.mark.parametrize("two_convolutions_in_one", [True, False])
def test_evaluation_is_the_same_bit_for_bit(two_convolutions_in_one: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not two_convolutions_in_one:
        monkeypatch.setattr(block, "pays", lambda *_: False)
    device = torch.device("cuda", 0)
    torch.manual_seed(0)
    vae = VDVAE(preset("tiny64")).to(device, memory_format=torch.channels_last).eval()  # type: ignore[call-overload]
    x = torch.rand(_IMAGES, 3, 64, 64, device=device) * 2 - 1
    fused = Fused(vae, torch.bfloat16, streams=3)

    def nats() -> torch.Tensor:
        noise = torch.Generator(device).manual_seed(0)
        with torch.no_grad(), torch.autocast("cuda", torch.bfloat16), fused.attached():
            found = objectives.elbo(vae, x, noise=noise, check_values=False).nats
        fused.release()
        return found.cpu()

    alone = nats()
    assert torch.isfinite(alone).all() and torch.equal(nats(), alone)
    with busy(device):
        wrong = [number for number in range(_REPEATS) if not torch.equal(nats(), alone)]
    assert wrong == []
