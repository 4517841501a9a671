"""The kernel that normalises, modulates and activates equals plain torch, and the diffusion model uses it."""

import pytest
import torch
from torch import Tensor

from condvae import kernels
from condvae.completers.diffusion import Diffusion, DiffusionConfig
from condvae.completers.diffusion.denoising_network import activated

pytest.importorskip("triton")
from condvae.kernels import normalised_activation as kernel

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")


def random(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(DEVICE)


@pytest.mark.parametrize("modulated", [True, False])
@pytest.mark.parametrize("channels", [4, 12, 96, 130])
@pytest.mark.parametrize("layout", [torch.channels_last, torch.contiguous_format])
def test_the_kernel_computes_what_torch_computes(modulated: bool, channels: int, layout: torch.memory_format) -> None:
    x = (3 + 2 * random(3, channels, 5, 7)).to(memory_format=layout)
    modulation = 2 * random(3, 2 * channels, seed=1) if modulated else None
    made = kernel.normalised_activation(x, modulation)
    torch.testing.assert_close(made, activated(x, modulation), atol=2e-5, rtol=1e-5)
    assert made.shape == x.shape and made.is_contiguous(memory_format=torch.channels_last)


def test_half_precision_is_rounded_once() -> None:
    x, modulation = random(2, 24, 4, 4).bfloat16(), random(2, 48, seed=1).bfloat16()
    made = kernel.normalised_activation(x, modulation)
    assert made.dtype == torch.bfloat16
    exact = activated(x.double(), modulation.double())
    # Triton's interpreter cuts digits off instead of rounding.
    assert float(((made.double() - exact).abs() / exact.abs().clamp_min(0.1)).max()) <= 2**-7


def test_no_images_and_one_pixel() -> None:
    assert kernel.normalised_activation(random(0, 8, 4, 4)).shape == (0, 8, 4, 4)
    x = random(1, 8, 1, 1)
    torch.testing.assert_close(kernel.normalised_activation(x), activated(x), atol=2e-5, rtol=1e-5)


def test_completions_use_it_and_training_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    config = DiffusionConfig(image_size=8, widths=(8, 12), level_blocks=1, attention_sizes=(4,), embedding=4)
    model = Diffusion(config).to(DEVICE)
    for weight in model.parameters():
        torch.nn.init.normal_(weight, std=0.2)
    pixels, known = random(2, 3, 8, 8), torch.zeros(2, 1, 8, 8, dtype=torch.bool, device=DEVICE)
    noisy, levels, made = random(2, 3, 8, 8, seed=3), torch.tensor([0.5, 3.0], device=DEVICE), []
    compute, calls = kernel.normalised_activation, list[int]()

    def counted(x: Tensor, modulation: Tensor | None = None) -> Tensor:
        calls.append(len(x))
        return compute(x, modulation)

    monkeypatch.setattr(kernel, "normalised_activation", counted)
    for possible in (False, True):
        monkeypatch.setattr(kernels, "available", lambda device, possible=possible: possible)
        with torch.no_grad():
            made.append(model.denoised(noisy, pixels, known, levels))
        assert bool(calls) == possible
        calls.clear()
        model.denoised(noisy, pixels, known, levels).sum().backward()
        assert not calls
    torch.testing.assert_close(made[0], made[1], atol=1e-4, rtol=1e-4)
