"""The fused kernels are compared with condvae.gaussian: values, and gradients by autograd."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor

from condvae.gaussian import Gaussian, Scales
from condvae.noise import DeviceSeeds, SeededNoise

pytest.importorskip("triton")
from condvae.kernels import latents

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
SHAPES = [(3, 5, 3, 3), (2, 16, 1, 1), (2, 3, 8, 12), (1, 40, 4, 4)]  # [B, C, H, W]
EXTREMES = [-120.0, -60.0, -21.7, -21.6, -20.0, -5.0, 0.0, 5.0, 28.8, 28.9, 30.0, 80.0]  # around softplus's thresholds


def outputs(shape: tuple[int, ...], seed: int, *, spread: float = 1.0) -> Tensor:
    """Random network outputs for latents of this shape."""
    b, c, h, w = shape
    raw = torch.randn(b, 2 * c, h, w, generator=torch.Generator().manual_seed(seed)) * spread
    return raw.to(DEVICE).contiguous(memory_format=torch.channels_last)


def normal(shape: tuple[int, ...], seed: int = 9) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(DEVICE)


def scales(softplus: bool) -> Scales:
    return "softplus" if softplus else "log_std"


def compare(fused: Callable[..., Tensor], plain: Callable[..., Tensor], *raws: Tensor, rtol: float = 1e-5) -> None:
    """Compare values, and gradients of a weighted sum of them, with the plain ones in float64."""
    ours = [raw.detach().clone().requires_grad_() for raw in raws]
    theirs = [raw.detach().double().requires_grad_() for raw in raws]
    value, expected = fused(*ours), plain(*theirs)
    torch.testing.assert_close(value.double(), expected, atol=1e-5, rtol=rtol)
    weights = normal(tuple(value.shape), 1).double()
    gradients = torch.autograd.grad((value * weights.float()).sum(), ours)
    for gradient, wanted in zip(gradients, torch.autograd.grad((expected * weights).sum(), theirs), strict=True):
        assert gradient.is_contiguous(memory_format=torch.channels_last)
        torch.testing.assert_close(gradient.double(), wanted, atol=1e-5, rtol=max(rtol, 2e-5))


@pytest.mark.parametrize("softplus", [False, True])
@pytest.mark.parametrize("shape", SHAPES)
def test_draws_are_those_of_the_plain_gaussian(shape: tuple[int, ...], softplus: bool) -> None:
    noise = normal(shape)
    compare(
        lambda raw: latents.draw(raw, noise, softplus=softplus, temperature=0.7),
        lambda raw: Gaussian.from_network(raw, scales(softplus)).sample(noise.double(), 0.7),
        outputs(shape, 0),
    )
    z = latents.draw(outputs(shape, 0), noise, softplus=softplus, dtype=torch.float16)
    assert z.dtype == torch.float16 and z.is_contiguous(memory_format=torch.channels_last)
    expected = Gaussian.from_network(outputs(shape, 0), scales(softplus)).sample(noise)
    torch.testing.assert_close(z.float(), expected, atol=2e-3, rtol=2e-3)


def test_noise_and_gradients_may_have_any_memory_layout() -> None:
    shape = (2, 3, 4, 6)
    raw, noise = outputs(shape, 0).requires_grad_(), normal(shape)
    expected = latents.draw(raw, noise, softplus=True)
    (gradient,) = torch.autograd.grad(expected, raw, normal(shape, 1))
    wide = torch.zeros(2, 7, 4, 6, device=DEVICE)
    wide[:, 2:5] = noise
    turned = noise.transpose(2, 3).contiguous().transpose(2, 3)
    for form in (noise.contiguous(memory_format=torch.channels_last), wide[:, 2:5], turned):
        assert torch.equal(latents.draw(raw, form, softplus=True), expected)
    assert torch.equal(latents.draw(raw.detach().contiguous(), noise, softplus=True), expected)
    turned = normal(shape, 1).transpose(2, 3).contiguous().transpose(2, 3)
    assert torch.equal(torch.autograd.grad(latents.draw(raw, noise, softplus=True), raw, turned)[0], gradient)
    (even,) = torch.autograd.grad(latents.draw(raw, noise, softplus=True).sum(), raw)  # a gradient of stride 0
    assert torch.equal(even[:, :3], torch.ones_like(noise))


def test_the_temperature_may_be_a_tensor_on_the_device() -> None:
    shape = (2, 5, 3, 3)
    raw, noise, t = outputs(shape, 0).requires_grad_(), normal(shape), torch.tensor(0.3, device=DEVICE)
    by_tensor = latents.draw(raw, noise, softplus=False, temperature=t)
    by_number = latents.draw(raw, noise, softplus=False, temperature=0.3)
    assert torch.equal(by_tensor, by_number)
    first, second = (torch.autograd.grad(z.square().sum(), raw)[0] for z in (by_tensor, by_number))
    assert torch.equal(first, second)
    seeds = SeededNoise([1, 2]).on(DEVICE)
    assert torch.equal(
        latents.draw_seeded(raw, seeds, 0, softplus=False, temperature=t),
        latents.draw_seeded(raw, seeds, 0, softplus=False, temperature=0.3),
    )
    mean = latents.draw_seeded(raw, seeds, 0, softplus=False, temperature=0)
    assert torch.equal(mean, raw[:, :5])


@pytest.mark.parametrize("shape", SHAPES)
def test_seeded_draws_use_the_numbers_of_the_seeds(shape: tuple[int, ...]) -> None:
    seeds = DeviceSeeds(SeededNoise([2**64 - 1, 3, 2**40][: shape[0]]).on(DEVICE))
    raw = outputs(shape, 0)
    for stream, softplus in ((0, True), (2**32 + 41, False)):
        numbers = seeds.normal(stream, shape, DEVICE)
        z = latents.draw_seeded(raw, seeds.seeds, stream, softplus=softplus, temperature=0.9)
        expected = Gaussian.from_network(raw, scales(softplus)).sample(numbers, 0.9)
        torch.testing.assert_close(z, expected, atol=1e-5, rtol=1e-5)
        assert z.is_contiguous(memory_format=torch.channels_last)


def plain_kl(softplus: bool) -> Callable[[Tensor, Tensor], Tensor]:
    def kl(q: Tensor, p: Tensor) -> Tensor:
        of_q, of_p = (Gaussian.from_network(raw, scales(softplus)) for raw in (q, p))
        return of_q.kl_to(of_p).sum(dim=(1, 2, 3))

    return kl


@pytest.mark.parametrize("softplus", [False, True])
@pytest.mark.parametrize("shape", [*SHAPES, (2, 12, 11, 10)])  # the last needs two programs per sample
def test_kl_is_that_of_the_plain_gaussians(shape: tuple[int, ...], softplus: bool) -> None:
    q, p = outputs(shape, 0, spread=0.5), outputs(shape, 1, spread=0.5)
    compare(lambda q, p: latents.kl(q, p, softplus=softplus), plain_kl(softplus), q, p)
    assert latents.kl(q, q, softplus=softplus).abs().max() < 1e-5


@pytest.mark.parametrize("softplus", [False, True])
def test_p_may_be_relative_to_a_base(softplus: bool) -> None:
    shape = (3, 5, 3, 3)
    base = outputs(shape, 2, spread=0.5)

    def plain(q: Tensor, p: Tensor) -> Tensor:
        shifted = Gaussian.from_network(base.double(), scales(softplus)).shifted_by(Gaussian.from_network(p))
        return Gaussian.from_network(q, scales(softplus)).kl_to(shifted).sum(dim=(1, 2, 3))

    q, p = outputs(shape, 0, spread=0.5), outputs(shape, 1, spread=0.5)
    compare(lambda q, p: latents.kl(q, p, softplus=softplus, base_raw=base), plain, q, p)


def test_only_gradients_that_are_needed_are_computed() -> None:
    q, p = outputs((2, 3, 2, 2), 0), outputs((2, 3, 2, 2), 1)
    divergence = latents.kl(q.requires_grad_(), p.requires_grad_(), softplus=True)
    both = torch.autograd.grad(divergence.sum(), (q, p))  # a gradient of stride 0
    latents.kl(q, p.detach(), softplus=True).sum().backward()
    latents.kl(q.detach(), p, softplus=True).sum().backward()
    assert q.grad is not None and torch.equal(q.grad, both[0])
    assert p.grad is not None and torch.equal(p.grad, both[1])


def test_extreme_softplus_scales_stay_finite_and_exact() -> None:
    c = len(EXTREMES)
    raw = torch.zeros(1, 2 * c, 1, 1, device=DEVICE)
    raw[0, c:, 0, 0] = torch.tensor(EXTREMES)
    noise = torch.ones(1, c, 1, 1, device=DEVICE)
    compare(
        lambda raw: latents.draw(raw, noise, softplus=True),
        lambda raw: Gaussian.from_network(raw, "softplus").sample(noise.double()),
        raw,
    )
    # With equal means, the KL depends only on the log-stds: its gradient in a raised q is slope * (ratio - 1).
    q = raw.clone()
    q[:, c:] += 0.5
    compare(lambda q, p: latents.kl(q, p, softplus=True), plain_kl(True), q, raw, rtol=1e-4)


def test_misuse_is_explained() -> None:
    raw, noise = outputs((2, 3, 2, 2), 0), normal((2, 3, 2, 2))
    with pytest.raises(NotImplementedError, match="base of a relative Gaussian requires a gradient"):
        latents.kl(raw, raw, softplus=True, base_raw=raw.clone().requires_grad_())
    with pytest.raises(NotImplementedError, match="noise requires a gradient"):
        latents.draw(raw, noise.clone().requires_grad_(), softplus=True)
    with pytest.raises(ValueError, match=r"expected torch\.float32"):
        latents.draw(raw.half(), noise, softplus=True)
    with pytest.raises(ValueError, match=r"noise is torch.float32, shape \[1, 3, 2, 2\], expected .* \[2, 3, 2, 2\]"):
        latents.draw(raw, noise[:1], softplus=True)
    with pytest.raises(ValueError, match=r"expected torch.int64, shape \[2\]"):
        latents.draw_seeded(raw, torch.zeros(3, dtype=torch.int64, device=DEVICE), 0, softplus=True)
    with pytest.raises(ValueError, match="outputs for p have shape"):
        latents.kl(raw, raw[:, :4], softplus=True)
    with pytest.raises(ValueError, match="temperature is"):
        latents.draw(raw, noise, softplus=True, temperature=torch.tensor(1, device=DEVICE))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="bfloat16 needs a GPU: the interpreter has none")
def test_bfloat16_latents() -> None:
    raw, noise = outputs((2, 16, 8, 8), 0).requires_grad_(), normal((2, 16, 8, 8))
    z = latents.draw(raw, noise, softplus=True, dtype=torch.bfloat16)
    expected = latents.draw(raw, noise, softplus=True)
    assert torch.equal(z, expected.bfloat16())
    ours, theirs = (torch.autograd.grad(value.float().sum(), raw)[0] for value in (z, expected))
    torch.testing.assert_close(ours, theirs)


COMPILE = """
import triton
from triton.backends.compiler import GPUTarget
from condvae.kernels import latents, philox

pointers = {"z": "*bf16", "grad_z": "*bf16", "seeds": "*i64"}
numbers = {"count", "parts", "size", "stream_low", "stream_high", "grad_b", "noise_b", "noise_c"}
tile = dict(channels=16, softplus=True, temperature_given=False, block_c=16, block_s=64)
flat = dict(channels=5, softplus=True, based=True, block=128)
for kernel, constants in (
    (philox.numbers_kernel, dict(normal=True, blocks=256)),
    (philox.numbers_kernel, dict(normal=False, blocks=256, count=1, parts=1)),
    (latents.draw_kernel, dict(tile, noise_s=1)),
    (latents.draw_kernel, dict(tile, noise_s=1, noise_c=1, size=1, parts=1, block_s=1)),
    (latents.draw_grad_kernel, dict(tile, noise_s=1, grad_s=16, grad_c=1)),
    (latents.draw_seeded_kernel, dict(tile, by_fours=True)),
    (latents.draw_seeded_kernel, dict(tile, by_fours=False, size=1, parts=1, block_s=1)),
    (latents.kl_kernel, flat),
    (latents.kl_kernel, dict(flat, parts=1)),
    (latents.kl_grad_kernel, dict(flat, needs_q=True, needs_p=True, grad_b=1)),
):
    types = {name: "i32" if name in numbers else pointers.get(name, "*fp32") for name in kernel.arg_names}
    types |= {"temperature": "fp32"} if "temperature" in types else {}
    types |= dict.fromkeys(constants, "constexpr")
    source = triton.compiler.ASTSource(kernel, signature=types, constexprs=constants)
    triton.compile(source, target=GPUTarget("cuda", 90, 32))
"""


def test_kernels_compile_for_a_gpu_without_one(tmp_path: Path) -> None:
    """The interpreter accepts code that the compiler rejects."""
    settings = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    settings["TRITON_CACHE_DIR"] = str(tmp_path)
    result = subprocess.run([sys.executable, "-c", COMPILE], env=settings, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
