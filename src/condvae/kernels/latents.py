"""Kernels for the diagonal Gaussians of one latent group: they draw z and compute KL(q || p), both with gradients.

`raw` is a network's output, float32 [B, 2 C, H, W] in channels_last memory: C means, then C scales, per position.
The formulas are those of condvae.gaussian; the backward pass recomputes intermediate values instead of storing them.
"""

# mypy: disable-error-code="untyped-decorator,no-untyped-def,no-untyped-call"

import math
from typing import Any

import torch
import triton  # type: ignore[import-untyped, unused-ignore]
import triton.language as tl  # type: ignore[import-untyped, unused-ignore]
from torch import Tensor
from torch.autograd.function import once_differentiable

from condvae.kernels.philox import halves, in_order, normals

_BETA = tl.constexpr(math.log(2.0))  # condvae.gaussian._SOFTPLUS_BETA
_LOG_BETA = tl.constexpr(math.log(math.log(2.0)))
_BLOCK = 1024  # latents per program


@triton.jit
def scale(raw, softplus: tl.constexpr):
    """Return the log-std for a raw scale, and its derivative by it. softplus: see condvae.gaussian._log_softplus."""
    if softplus:
        far_below = raw * _BETA < -15.0
        raw_here = tl.where(far_below, 0.0, raw)
        far_above = raw_here * _BETA > 20.0  # from here on, torch's softplus is the identity
        e = tl.exp(tl.where(far_above, 0.0, raw_here * _BETA))
        # log(1 + e) e / ((1 + e) - 1) is log1p(e) to full precision (Goldberg 1991); 1 + e > 1 since e > exp(-15).
        u = 1.0 + e
        value = tl.where(far_above, raw_here, tl.log(u) * (e / (u - 1.0)) / _BETA)
        slope = tl.where(far_above, 1.0, e / u) / value
        log_std = tl.where(far_below, raw * _BETA - _LOG_BETA, tl.log(value))
        slope = tl.where(far_below, _BETA, slope)
    else:
        log_std = raw
        slope = tl.full(raw.shape, 1.0, tl.float32)
    return log_std, slope


@triton.jit
def tile(size, parts, channels: tl.constexpr, block_c: tl.constexpr, block_s: tl.constexpr):
    """Return a program's sample, channels [block_c, 1], first position, positions [1, block_s], and a validity mask.
    Positions count the H * W pixels. Tiles are two-dimensional: z is contiguous along channels, noise along positions.
    """
    program = tl.program_id(0)
    parts_c: tl.constexpr = (channels + block_c - 1) // block_c
    c = (program % parts_c) * block_c + tl.arange(0, block_c)[:, None]
    rest = program // parts_c
    first = (rest % parts) * block_s
    s = first + tl.arange(0, block_s)[None, :]
    return (rest // parts).to(tl.int64), c, first, s, (c < channels) & (s < size)


@triton.jit
def deviation(raw, noise, temperature, softplus: tl.constexpr, temperature_given: tl.constexpr):
    """Return temperature * std * noise, and the derivative of the log-std with respect to the raw scale."""
    log_std, slope = scale(raw, softplus)
    t = tl.load(temperature) if temperature_given else temperature
    return t * tl.exp(log_std) * noise, slope


@triton.jit
def draw_kernel(
    z, raw, noise, noise_b, noise_c, noise_s, temperature, size, parts,
    channels: tl.constexpr, softplus: tl.constexpr, temperature_given: tl.constexpr,
    block_c: tl.constexpr, block_s: tl.constexpr,
):  # fmt: skip
    """Compute z = mean + temperature * std * noise for one tile of latents."""
    sample, c, _, s, inside = tile(size, parts, channels, block_c, block_s)
    at = raw + sample * size * (2 * channels) + s * (2 * channels) + c
    mean = tl.load(at, mask=inside, other=0.0)
    raw_scale = tl.load(at + channels, mask=inside, other=0.0)
    numbers = tl.load(noise + sample * noise_b + c * noise_c + s * noise_s, mask=inside, other=0.0)
    off, _ = deviation(raw_scale, numbers, temperature, softplus, temperature_given)
    tl.store(z + sample * size * channels + s * channels + c, mean + off, mask=inside)


@triton.jit
def draw_grad_kernel(
    grad_raw, grad_z, grad_b, grad_c, grad_s, raw, noise, noise_b, noise_c, noise_s, temperature, size, parts,
    channels: tl.constexpr, softplus: tl.constexpr, temperature_given: tl.constexpr,
    block_c: tl.constexpr, block_s: tl.constexpr,
):  # fmt: skip
    """Compute the gradient of raw from that of z, with dz / dmean = 1 and dz / dlog_std = temperature * std * noise."""
    sample, c, _, s, inside = tile(size, parts, channels, block_c, block_s)
    place = sample * size * (2 * channels) + s * (2 * channels) + c
    raw_scale = tl.load(raw + place + channels, mask=inside, other=0.0)
    numbers = tl.load(noise + sample * noise_b + c * noise_c + s * noise_s, mask=inside, other=0.0)
    grad = tl.load(grad_z + sample * grad_b + c * grad_c + s * grad_s, mask=inside, other=0.0).to(tl.float32)
    off, slope = deviation(raw_scale, numbers, temperature, softplus, temperature_given)
    tl.store(grad_raw + place, grad, mask=inside)
    tl.store(grad_raw + place + channels, grad * off * slope, mask=inside)


@triton.jit(do_not_specialize=["stream_low", "stream_high"])
def draw_seeded_kernel(
    z, raw, seeds, stream_low, stream_high, temperature, size, parts,
    channels: tl.constexpr, softplus: tl.constexpr, temperature_given: tl.constexpr, by_fours: tl.constexpr,
    block_c: tl.constexpr, block_s: tl.constexpr,
):  # fmt: skip
    """Like `draw_kernel`, but make the noise from (seed, stream). by_fours: whether H * W is a multiple of four."""
    sample, c, first, s, inside = tile(size, parts, channels, block_c, block_s)
    at = raw + sample * size * (2 * channels) + s * (2 * channels) + c
    mean = tl.load(at, mask=inside, other=0.0)
    raw_scale = tl.load(at + channels, mask=inside, other=0.0)
    seed = tl.load(seeds + sample)
    if by_fours:
        # Each block of four numbers lies in one channel: make it once, [block_c, block_s / 4], and put it in order.
        block = c * (size // 4) + first // 4 + tl.arange(0, block_s // 4)[None, :]
        n0, n1, n2, n3 = normals(seed, block, stream_low, stream_high)
        numbers = in_order(n0, n1, n2, n3)
    else:
        j = c * size + s
        n0, n1, n2, n3 = normals(seed, j // 4, stream_low, stream_high)
        word = j % 4
        numbers = tl.where(word == 0, n0, tl.where(word == 1, n1, tl.where(word == 2, n2, n3)))
    off, _ = deviation(raw_scale, numbers, temperature, softplus, temperature_given)
    tl.store(z + sample * size * channels + s * channels + c, mean + off, mask=inside)


@triton.jit
def load_pair(
    q, p, base, sample, part, count,
    channels: tl.constexpr, softplus: tl.constexpr, based: tl.constexpr, block: tl.constexpr,
):  # fmt: skip
    """Load means and scales of q and p. Return their offsets in memory, and the terms of the KL and its gradient."""
    e = part * block + tl.arange(0, block)
    inside = e < count
    place = sample * count * 2 + (e // channels) * (2 * channels) + e % channels
    q_mean = tl.load(q + place, mask=inside, other=0.0)
    q_log_std, q_slope = scale(tl.load(q + place + channels, mask=inside, other=0.0), softplus)
    p_mean = tl.load(p + place, mask=inside, other=0.0)
    p_raw = tl.load(p + place + channels, mask=inside, other=0.0)
    if based:
        # p's outputs are differences from the base's mean and log-std.
        base_log_std, _ = scale(tl.load(base + place + channels, mask=inside, other=0.0), softplus)
        p_mean = tl.load(base + place, mask=inside, other=0.0) + p_mean
        p_log_std = base_log_std + p_raw
        p_slope = tl.full(p_raw.shape, 1.0, tl.float32)
    else:
        p_log_std, p_slope = scale(p_raw, softplus)
    log_ratio = q_log_std - p_log_std
    p_precision = tl.exp(-p_log_std)  # 1 / std
    shift = (q_mean - p_mean) * p_precision
    return place, inside, log_ratio, tl.exp(2.0 * log_ratio), shift, p_precision, q_slope, p_slope


@triton.jit
def kl_kernel(
    sums, q, p, base, count, parts,
    channels: tl.constexpr, softplus: tl.constexpr, based: tl.constexpr, block: tl.constexpr,
):  # fmt: skip
    """Sum the KL, (var ratio + shift^2 - 1) / 2 - log ratio, over one program's latents, and store it in `sums`."""
    program = tl.program_id(0)
    sample, part = (program // parts).to(tl.int64), program % parts
    _, inside, log_ratio, var_ratio, shift, _, _, _ = load_pair(
        q, p, base, sample, part, count, channels, softplus, based, block
    )
    kl = 0.5 * (var_ratio + shift * shift - 1.0) - log_ratio
    tl.store(sums + program, tl.sum(tl.where(inside, kl, 0.0), axis=0))


@triton.jit
def kl_grad_kernel(
    grad_q, grad_p, grad, grad_b, q, p, base, count, parts,
    channels: tl.constexpr, softplus: tl.constexpr, based: tl.constexpr, block: tl.constexpr,
    needs_q: tl.constexpr, needs_p: tl.constexpr,
):  # fmt: skip
    """Compute the gradient of the KL with respect to the raw outputs of q and p."""
    # d/dq_mean = -d/dp_mean = shift / p_std, d/dq_log_std = var ratio - 1, d/dp_log_std = 1 - var ratio - shift^2
    program = tl.program_id(0)
    sample, part = (program // parts).to(tl.int64), program % parts
    place, inside, _, var_ratio, shift, p_precision, q_slope, p_slope = load_pair(
        q, p, base, sample, part, count, channels, softplus, based, block
    )
    g = tl.load(grad + sample * grad_b)
    grad_mean = g * shift * p_precision
    if needs_q:
        tl.store(grad_q + place, grad_mean, mask=inside)
        tl.store(grad_q + place + channels, g * (var_ratio - 1.0) * q_slope, mask=inside)
    if needs_p:
        tl.store(grad_p + place, -grad_mean, mask=inside)
        tl.store(grad_p + place + channels, g * (1.0 - var_ratio - shift * shift) * p_slope, mask=inside)


def draw(
    raw: Tensor, noise: Tensor, *, softplus: bool, temperature: float | Tensor = 1.0, dtype: torch.dtype = torch.float32
) -> Tensor:
    """Return latents z = mean + temperature * std * noise, [B, C, H, W] in channels_last memory.

    noise: standard normal, of the same shape. temperature: a number or a float32 tensor. Only raw gets a gradient.
    """
    shape = _latent_shape(raw)
    if noise.shape != shape or noise.dtype != torch.float32:
        raise ValueError(f"noise is {noise.dtype}, shape {[*noise.shape]}, expected torch.float32, shape {[*shape]}")
    _check_constant(noise, "the noise")
    return _Draw.apply(raw, noise, _temperature(temperature), softplus, dtype)  # type: ignore[no-any-return]


def draw_seeded(
    raw: Tensor,
    seeds: Tensor,
    stream: int,
    *,
    softplus: bool,
    temperature: float | Tensor = 1.0,
    dtype: torch.dtype = torch.float32,
) -> Tensor:
    """Like `draw`, but with the noise that condvae.noise.DeviceSeeds(seeds) makes for the stream. No gradients."""
    shape = _latent_shape(raw)
    if seeds.shape != shape[:1] or seeds.dtype != torch.int64:
        raise ValueError(f"seeds are {seeds.dtype}, shape {[*seeds.shape]}, expected torch.int64, shape [{shape[0]}]")
    raw, z = _dense(raw.detach()), _empty_latents(raw, dtype)
    grid, tiling = _tiling(shape)
    draw_seeded_kernel[grid](
        z, raw, seeds.contiguous(), *halves(stream), _temperature(temperature), softplus=softplus,
        temperature_given=isinstance(temperature, Tensor), by_fours=tiling["size"] % 4 == 0, **tiling,
    )  # fmt: skip
    return z


def kl(q_raw: Tensor, p_raw: Tensor, *, softplus: bool, base_raw: Tensor | None = None) -> Tensor:
    """Return KL(q || p) of each sample in nats, [B], summed over the latents of one group.

    base_raw: if given, p_raw are differences from the mean and log-std of this Gaussian, which gets no gradient.
    """
    for other in (p_raw, q_raw if base_raw is None else base_raw):
        if _latent_shape(other) != _latent_shape(q_raw):
            raise ValueError(f"the outputs for p have shape {[*other.shape]}, expected {[*q_raw.shape]}, as for q")
    if base_raw is not None:
        _check_constant(base_raw, "the base of a relative Gaussian")
    return _KL.apply(q_raw, p_raw, base_raw, softplus)  # type: ignore[no-any-return]


class _Draw(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, raw: Tensor, noise: Tensor, temperature: Any, softplus: bool, dtype: torch.dtype) -> Tensor:
        raw, z = _dense(raw), _empty_latents(raw, dtype)
        noise, strides = _planes(noise)
        given = isinstance(temperature, Tensor)
        ctx.save_for_backward(raw, noise, temperature if given else None)
        ctx.temperature, ctx.softplus = temperature if not given else None, softplus
        grid, tiling = _tiling(z.shape)
        draw_kernel[grid](z, raw, noise, *strides, temperature, softplus=softplus, temperature_given=given, **tiling)
        return z

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_z: Tensor) -> tuple[Tensor, None, None, None, None]:
        raw, noise, temperature = ctx.saved_tensors
        given = temperature is not None
        (noise, noise_strides), (grad_z, grad_strides) = _planes(noise), _planes(grad_z)
        grad_raw = torch.empty_like(raw, memory_format=torch.channels_last)
        grid, tiling = _tiling(grad_z.shape)
        draw_grad_kernel[grid](
            grad_raw, grad_z, *grad_strides, raw, noise, *noise_strides, temperature if given else ctx.temperature,
            softplus=ctx.softplus, temperature_given=given, **tiling,
        )  # fmt: skip
        return grad_raw, None, None, None, None


class _KL(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, q: Tensor, p: Tensor, base: Tensor | None, softplus: bool) -> Tensor:
        q, p, base = _dense(q), _dense(p), None if base is None else _dense(base)
        ctx.save_for_backward(q, p, base)
        ctx.softplus = softplus
        count, block, parts = _flat(q)
        sums = torch.empty(len(q) * parts, dtype=torch.float32, device=q.device)
        kl_kernel[(len(sums),)](
            sums, q, p, q if base is None else base, count, parts,
            channels=q.shape[1] // 2, softplus=softplus, based=base is not None, block=block,
        )  # fmt: skip
        return sums if parts == 1 else sums.view(-1, parts).sum(dim=1)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor | None, None, None]:
        q, p, base = ctx.saved_tensors
        needs_q, needs_p = ctx.needs_input_grad[:2]
        grad_q = torch.empty_like(q, memory_format=torch.channels_last) if needs_q else None
        grad_p = torch.empty_like(p, memory_format=torch.channels_last) if needs_p else None
        count, block, parts = _flat(q)
        kl_grad_kernel[(len(q) * parts,)](
            grad_q if needs_q else q, grad_p if needs_p else p, grad, grad.stride(0),
            q, p, q if base is None else base, count, parts,
            channels=q.shape[1] // 2, softplus=ctx.softplus, based=base is not None, block=block,
            needs_q=needs_q, needs_p=needs_p,
        )  # fmt: skip
        return grad_q, grad_p, None, None


def _latent_shape(raw: Tensor) -> torch.Size:
    """Return the shape [B, C, H, W] of the latents whose means and scales are in raw."""
    if raw.ndim != 4 or raw.shape[1] % 2 or raw.dtype != torch.float32:
        raise ValueError(f"raw outputs are {raw.dtype}, shape {[*raw.shape]}, expected torch.float32, [B, 2 C, H, W]")
    if math.prod(raw.shape[1:]) >= 2**30:  # positions in a sample are int32
        raise ValueError(f"raw outputs have shape {[*raw.shape]}, expected fewer than 2**30 numbers per sample")
    return torch.Size((raw.shape[0], raw.shape[1] // 2, *raw.shape[2:]))


def _check_constant(tensor: Tensor, name: str) -> None:
    if tensor.requires_grad:
        raise NotImplementedError(f"{name} requires a gradient, which the fused kernels do not compute: detach it")


def _temperature(temperature: float | Tensor) -> float | Tensor:
    if not isinstance(temperature, Tensor):
        return float(temperature)
    _check_constant(temperature, "the temperature")
    if temperature.numel() != 1 or temperature.dtype != torch.float32:
        raise ValueError(f"temperature is {temperature.dtype}, shape {[*temperature.shape]}, expected one float32")
    return temperature


def _dense(raw: Tensor) -> Tensor:
    return raw.contiguous(memory_format=torch.channels_last)


def _empty_latents(raw: Tensor, dtype: torch.dtype) -> Tensor:
    return torch.empty(_latent_shape(raw), dtype=dtype, device=raw.device, memory_format=torch.channels_last)


def _planes(x: Tensor) -> tuple[Tensor, tuple[int, int, int]]:
    """Return x [B, C, H, W], or a contiguous copy, and its strides between samples, channels and positions."""
    if x.shape[3] > 1 and x.shape[2] > 1 and x.stride(2) != x.shape[3] * x.stride(3):
        x = x.contiguous()
    return x, (x.stride(0), x.stride(1), x.stride(3) if x.shape[3] > 1 else x.stride(2))


def _tiling(shape: torch.Size) -> tuple[tuple[int], dict[str, int]]:
    """Return the launch grid for latents of shape [B, C, H, W], and the arguments of `tile`."""
    batch, channels, size = shape[0], shape[1], shape[2] * shape[3]
    block_c = min(triton.next_power_of_2(channels), 32)
    block_s = min(triton.next_power_of_2(size), _BLOCK // block_c)
    parts = triton.cdiv(size, block_s)
    sizes = {"size": size, "parts": parts, "channels": channels, "block_c": block_c, "block_s": block_s}
    return (batch * parts * triton.cdiv(channels, block_c),), sizes


def _flat(raw: Tensor) -> tuple[int, int, int]:
    """Return three numbers: latents per sample, latents per program of the kernel, and programs per sample."""
    count = math.prod(raw.shape[1:]) // 2
    block = min(triton.next_power_of_2(count), _BLOCK)
    return count, block, triton.cdiv(count, block)
