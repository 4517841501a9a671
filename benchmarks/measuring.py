"""Measure how fast a model is evaluated: LPIPS-GT, including the drawing of K completions, and Inception features.

    python benchmarks/measuring.py --data cifar10

References are timed in the same run. The reference for LPIPS-GT is plain torch in float32, which encodes y again for
every completion and computes LPIPS for pairs of images. It is timed with one completion at a time, and with all K
completions of an image at a time. The reference for Inception is the network in its exact mode.
"""

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

sys.path.insert(0, str(Path(__file__).parents[1]))
from benchmarks.clock import seconds
from condvae import weights
from condvae.conditional import ConditionalVAE
from condvae.data import ImageSet, open_data
from condvae.data.order import spread
from condvae.metrics import HOLE_BINS, LPIPS, Inception, known_in_bin, sample_distances
from condvae.metrics.frechet import Moments, frechet_distance
from condvae.runtime.pixels import from_uint8, to_uint8
from condvae.runtime.ranks import join
from condvae.runtime.scripts import run_script
from condvae.sampling.plain import sample_conditional, seeds_from
from condvae.sampling.sampler import Sampler

PRECISIONS: tuple[Literal["exact"], Literal["fast"]] = ("exact", "fast")


@dataclass(frozen=True, kw_only=True)
class Options:
    """Time the evaluation of a model."""

    data: Path
    """Data set whose test images have the model's size."""
    model: str = "cifar10"
    images: int = 500
    """Number of test images for LPIPS-GT."""
    n: int = 100
    """Number of completions per image, K."""
    together: int = 50
    """Number of images whose completions are drawn in one call."""
    features: int = 4096
    """Number of images for which Inception features are computed."""
    reference_images: int = 2
    """Number of images on which the LPIPS-GT references are timed."""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    lpips: Path | None = None
    """File of the LPIPS network. By default, the downloaded one."""
    inception: Path | None = None
    """File of the Inception network. By default, the downloaded one."""
    out: Path | None = None
    """JSON file for all results."""


def main(options: Options) -> None:
    with join(options.device) as world:
        device = world.device
        test = open_data(options.data).test
        model = weights.load_conditional(options.model).to(device)
        name = torch.cuda.get_device_name(device) if device.type == "cuda" else "CPU"
        result: dict[str, Any] = {"device": name, "torch": torch.__version__, "model": options.model}
        result["lpips_gt"] = lpips_gt(model, test, LPIPS.load(options.lpips).to(device), options)
        result["inception"] = inception(test, options, device)
    print(json.dumps(result, indent=1))
    if options.out:
        options.out.write_text(json.dumps(result, indent=1) + "\n")


def lpips_gt(model: ConditionalVAE, test: ImageSet, lpips: LPIPS, options: Options) -> dict[str, Any]:
    """Return how many seconds LPIPS-GT takes, including the drawing of completions, and the times of the references."""
    device = lpips.device
    x = from_uint8(take(test, options.images).to(device))
    size = test.size
    known = [known_in_bin(hole, len(x), size, seed=0).to(device) for hole in HOLE_BINS]
    sampler = Sampler(model, chunk=2 * options.n)

    def ours(hole: Tensor) -> float:
        closest = []
        for first in range(0, len(x), options.together):
            some = slice(first, first + options.together)
            made = sampler(model.observe(x[some], hole[some]), options.n, seed=first, pixels="sample")
            closest.append(sample_distances(lpips, x[some], made).closest())
        return float(torch.cat(closest).mean())

    def plain(hole: Tensor, together: int) -> float:
        closest = []
        for i in range(min(options.reference_images, len(x))):
            truth, distances = to_uint8(x[i : i + 1]), []
            for k in range(0, options.n, together):
                copies = min(together, options.n - k)
                observation = model.observe(
                    x[i : i + 1].expand(copies, -1, -1, -1), hole[i : i + 1].expand(copies, -1, -1, -1)
                )
                noise = seeds_from(0, copies, observations=[i], first=k)
                images = sample_conditional(model, observation, noise=noise, pixels="mean").images
                distances.append(lpips(truth.expand(copies, -1, -1, -1), to_uint8(observation.paste(images))))
            closest.append(torch.cat(distances).min())
        return float(torch.stack(closest).mean())

    first = seconds(lambda: ours(known[0]), device)
    each = [seconds(lambda hole=hole: ours(hole), device) for hole in known]  # type: ignore[misc]
    scale, one = len(x) / min(options.reference_images, len(x)), float(np.mean(each))
    references = {}
    for name, together in (("one_by_one", 1), ("k_at_once", options.n)):
        seconds(lambda together=together: plain(known[0], together), device)  # type: ignore[misc]
        references[name] = scale * seconds(lambda together=together: plain(known[2], together), device)  # type: ignore[misc]
    return {
        "images": len(x),
        "k": options.n,
        "first_call_s": round(first, 2),
        "one_bin_s": round(one, 3),
        "five_bins_s": round(sum(each), 3),
        "completions_per_s": round(len(HOLE_BINS) * len(x) * options.n / sum(each)),
        "reference_one_bin_s": {name: round(took, 1) for name, took in references.items()},
        "times_the_reference": {name: round(took / one, 1) for name, took in references.items()},
    }


def inception(test: ImageSet, options: Options, device: torch.device) -> dict[str, Any]:
    """Return the images per second in both precisions, and how far the fast features are from the exact ones."""
    images = take(test, options.features).to(device)
    rates, found = {}, {}
    for precision in PRECISIONS:
        network = Inception.load(options.inception, precision=precision).to(device)
        network.features(images[:256])
        box: list[Tensor] = []
        took = seconds(lambda box=box, network=network: box.append(network.features(images)), device)  # type: ignore[misc]
        rates[precision], found[precision] = len(images) / took, box[0]
    exact, fast = found["exact"].double(), found["fast"].double()
    return {
        "images": len(images),
        "exact_per_s": round(rates["exact"]),
        "fast_per_s": round(rates["fast"]),
        "times_the_exact": round(rates["fast"] / rates["exact"], 2),
        "relative_error_of_fast": float((fast - exact).norm() / exact.norm()),
        "fid_of_fast_to_exact": frechet_distance(Moments.of(exact), Moments.of(fast)),
    }


def take(test: ImageSet, n: int) -> Tensor:
    return test.take(spread(len(test), n)).images


if __name__ == "__main__":
    run_script(main, Options, __doc__)
