"""Time the measurement of strangeness: for many images, and for one file with `condvae ood score`.

    python benchmarks/ood.py --device cuda --out ood.json
    python benchmarks/ood.py --device cpu --images 40 --file picture.png --out ood.json

A reference is timed in the same run, on a few images: it computes the temperature gradient by autograd, one image at a
time, as in the paper's appendix. The benchmark fails if the gradients of the two implementations differ.
"""

import json
import os
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor

sys.path.insert(0, str(Path(__file__).parents[1]))
from benchmarks.clock import seconds
from condvae import objectives, weights
from condvae.observe import Freeform
from condvae.ood.features import measure
from condvae.ood.inference import Inference
from condvae.ood.scores import Gradient, score_of
from condvae.runtime.pixels import from_uint8
from condvae.runtime.ranks import join
from condvae.runtime.scripts import run_script
from condvae.sampling.plain import seeds_from

WANTED_SECONDS = {"cuda": 60.0, "cpu": 3.0}
"""Target times: on a GPU for 5,000 images, and on two CPU cores for one image, including the start of Python."""
_TOLERANCE = 1e-3
"""Largest allowed difference from autograd, relative to the gradient's largest component; rounding differs."""


@dataclass(frozen=True, kw_only=True)
class Options:
    """Time the measurement of strangeness."""

    model: str = "cifar10"
    score: str = "parts-4"
    images: int = 5000
    """Number of random images to score."""
    repeats: int = 3
    """Number of timed calls. Their median is reported."""
    reference_images: int = 10
    """Number of images on which the reference is timed."""
    file: Path | None = None
    """Also time `condvae ood score` on this picture, with its right half hidden; the model must have a fit."""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    out: Path | None = None
    """JSON file for all results."""


def main(options: Options) -> None:
    with join(options.device) as world:
        device = world.device
        gpu = device.type == "cuda"
        inference = Inference.of(weights.load_conditional(options.model).to(device))
        config = inference.vae.config
        shape = (options.images, config.channels, config.image_size, config.image_size)
        generator = torch.Generator().manual_seed(0)
        images = torch.randint(256, shape, dtype=torch.uint8, generator=generator).to(device)
        known = Freeform().draw(options.images, config.image_size, generator).to(device)
        result: dict[str, Any] = {
            "device": torch.cuda.get_device_name(device) if gpu else f"CPU, {torch.get_num_threads()} threads",
            "cores": os.cpu_count(),
            "torch": torch.__version__,
            "model": options.model,
            "image": list(shape[1:]),
            "images": options.images,
            **timed(inference, images, known, options, device),
        }
        if gpu:
            result["peak_gb"] = round(torch.cuda.max_memory_allocated(device) / 1e9, 2)
    if options.file is not None:
        result["command"] = command_seconds(options.model, options.file, options.repeats)
    result["wanted_seconds"] = WANTED_SECONDS[device.type]
    print(json.dumps(result, indent=1))
    if options.out:
        options.out.write_text(json.dumps(result, indent=1) + "\n")


def timed(
    inference: Inference, images: Tensor, known: Tensor, options: Options, device: torch.device
) -> dict[str, Any]:
    """Time the requested score and the temperature gradient on all images, and compare the gradient with autograd."""
    result: dict[str, Any] = {}
    for score in dict.fromkeys((options.score, "gradient")):
        work = score_of(score)
        first, *took = [
            seconds(lambda work=work: measure(work, inference, images, known, seed=0), device)  # type: ignore[misc]
            for _ in range(options.repeats + 1)
        ]
        median = statistics.median(took)
        result[score] = {
            "first_seconds": round(first, 3),
            "seconds": round(median, 3),
            "images_per_second": round(len(images) / median, 1),
        }
    few = min(options.reference_images, len(images))
    fast = torch.from_numpy(measure(Gradient(), inference, images[:few], known[:few], seed=0))
    by_autograd(inference, images[:1], known[:1], 0)  # warm up
    slow: list[Tensor] = []
    took_all = seconds(
        lambda: slow.extend(by_autograd(inference, images[i : i + 1], known[i : i + 1], i) for i in range(few)), device
    )
    worst = float(((torch.cat(slow) - fast).abs() / fast.abs().amax(dim=1, keepdim=True)).max())
    if worst > _TOLERANCE:
        raise ValueError(
            f"the gradient differs from autograd by {worst:.2g} of the largest component, "
            f"expected at most {_TOLERANCE:g}"
        )
    per_second = few / took_all
    result["reference"] = {"images": few, "images_per_second": round(per_second, 2), "largest_difference": worst}
    result["gradient_times_the_reference"] = round(result["gradient"]["images_per_second"] / per_second, 1)
    return result


def by_autograd(inference: Inference, image: Tensor, known: Tensor, place: int) -> Tensor:
    """Return the gradient of the bound on log p(y) by the temperatures of the L latent groups: [1, L], on the CPU."""
    observation = inference.observe(from_uint8(image), known)
    assert observation.pixels is not None and observation.known is not None
    t = torch.ones(1, inference.groups, device=image.device, requires_grad=True)
    with torch.backends.cudnn.flags(enabled=True, benchmark=False, deterministic=True, allow_tf32=False):
        bound = objectives.evidence(
            inference.vae,
            inference.source(observation),
            observation.pixels,
            observation.known[:, 0],
            noise=seeds_from(0, 1, observations=[place]),
            prior_temperature=t,
        )
        (gradient,) = torch.autograd.grad(bound.nats.sum(), t)
    return gradient.double().cpu()


def command_seconds(model: str, file: Path, repeats: int) -> dict[str, float]:
    """Return how many seconds `condvae ood score` takes, from the start of its process to its end."""
    command = [sys.executable, "-m", "condvae", "ood", "score", str(file), "--model", model, "--half", "right"]
    command += ["--device", "cpu"]
    took = []
    for _ in range(repeats + 1):
        begin = time.perf_counter()
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        took.append(time.perf_counter() - begin)
    return {"first_seconds": round(took[0], 2), "seconds": round(statistics.median(took[1:]), 2)}


if __name__ == "__main__":
    run_script(main, Options, __doc__)
